#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tentbench server and client as a user runs them, on copying threads, rails over TCP or adapters."""
import ctypes
import errno
import json
import os
import pathlib
import re
import socket
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../test/support"))
import strangers  # noqa: E402
from ports import free_port  # noqa: E402

exe = sys.argv[1]
rails = [f"--{sys.argv[2]}", "2"] if sys.argv[2:] else []
KEYS = ["op", "priority", "size_bytes", "batch", "threads", "requests", "bytes", "seconds", "gb_per_s",
        "batch_mean_us", "batch_p50_us", "batch_p99_us", "checked", "failed", "wrong"]


def run(*args, status=0):
    r = subprocess.run([exe, *args], capture_output=True, text=True, timeout=240)
    assert r.returncode == status, (args, r.returncode, r.stdout, r.stderr)
    return r


def refused(*args, words="give"):
    r = run(*args, status=2)
    assert r.stderr.startswith("tentbench") and r.stderr.count("\n") == 1, r.stderr
    assert not r.stdout, r.stdout
    assert words in r.stderr, r.stderr


def from_server(*args):
    """Runs a server in another process, and a client. The server ends when the client does."""
    port = str(free_port())
    with subprocess.Popen([exe, "server", *rails, "--once", "--memory", "1M", "--port", port]) as s:
        try:
            for _ in range(1000):
                r = subprocess.run([exe, "client", "127.0.0.1", *rails, "--port", port, *args],
                                   capture_output=True, text=True)
                if "refused" not in r.stderr:
                    break
            assert s.wait(60) == 0
        finally:
            s.kill()
    return r


def without_writes():
    """From now on process_vm_writev() fails in this process (seccomp)."""
    number = {"x86_64": 311, "aarch64": 271}[os.uname().machine]
    prctl = ctypes.CDLL(None).prctl
    prctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_ulong]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *i) for i in (
        (0x20, 0, 0, 0),  # load the number of the system call
        (0x15, 0, 1, number),  # if it is another one, skip the next instruction
        (0x06, 0, 0, 0x50000 | errno.EFAULT),  # return this error
        (0x06, 0, 0, 0x7fff0000))))  # allow the call
    assert not prctl(38, 1, None, 0, 0)  # PR_SET_NO_NEW_PRIVS
    assert not prctl(22, 2, struct.pack("HxxxxxxP", 4, ctypes.addressof(code)), 0, 0)  # PR_SET_SECCOMP


with tempfile.TemporaryDirectory() as tmp:
    for op in ["write", "read", "mixed"]:
        rows = [json.loads(line) for line in run(
            "client", "--fork", *rails, "--op", op, "--size", "1,100K", "--batch", "1,7",
            "--threads", "2", "--count", "5", "--check", "--json", "-").stdout.splitlines()]
        assert [(r["size_bytes"], r["batch"]) for r in rows] == [
            (1, 1), (1, 7), (102400, 1), (102400, 7)], rows
        for r in rows:
            assert sorted(r) == sorted(KEYS), r
            assert r["op"] == op and r["checked"] and not r["failed"] and not r["wrong"], r
            assert r["requests"] == 2 * 5 * r["batch"], r
            assert r["bytes"] == r["requests"] * r["size_bytes"], r

    table = run("client", "--fork", *rails, "--size", "64K", "--seconds", "0.05", "--stats",
                "--json", f"{tmp}/rows").stdout.splitlines()
    assert "GB/s" in table[0] and "us" in table[0], table
    assert "mode pull" in table[2] and "0.15 samples" in table[2], table
    assert "Gb/s" in table[3] and len(table) >= 5, table
    assert json.loads(pathlib.Path(tmp, "rows").read_text())["size_bytes"] == 65536

    # Prometheus' format: each sample belongs to a family, and none comes twice.
    run("client", "--fork", *rails, "--count", "3", "--size", "1M", "--prometheus", f"{tmp}/prom")
    families, samples = {}, {}
    for line in pathlib.Path(tmp, "prom").read_text().splitlines():
        if line.startswith("# TYPE "):
            families[line.split()[2]] = line.split()[3]
        elif not line.startswith("#"):
            m = re.fullmatch(r'([a-z_]+)\{((?:[a-z]+="[^"\n]*",?)+)\} (\S+)', line)
            assert m, line
            assert (m[1], m[2]) not in samples, line
            samples[m[1], m[2]] = float(m[3])
    names = {name for name, _ in samples}
    assert {re.sub("_(sum|count)$", "", n) if n.startswith("tent_slice_s") else n
            for n in names} <= set(families), names
    assert families["tent_rail_bytes_total"] == "counter", families
    assert families["tent_slice_seconds"] == "summary", families
    moved = sum(v for (n, _), v in samples.items() if n == "tent_rail_bytes_total")
    assert moved == 3 << 20, moved
    assert sum(v for (n, _), v in samples.items() if n == "tent_requests_total") == 3
    assert sum(v for (n, _), v in samples.items() if n == "tent_rail_up") >= 2
    r = run("client", "--fork", *rails, "--count", "1", "--prometheus", "/nowhere/x", status=1)
    assert "nowhere" in r.stderr and not r.stdout, r  # before anything is moved

    # Output that cannot be written is an error, explained in one line.
    with open("/dev/full", "w") as full:
        for more in [], ["--json", f"{tmp}/rows"], ["--json", "-"], ["--stats"]:
            r = subprocess.run([exe, "client", "--fork", *rails, "--count", "1", "--size", "64K", *more],
                               stdout=full, stderr=subprocess.PIPE, text=True, timeout=240)
            assert r.returncode == 1 and r.stderr.count("standard output: ") == 1, (more, r)
    r = run("client", "--fork", *rails, "--count", "1", "--size", "64K", "--json", "/dev/full", status=1)
    assert "/dev/full: No space left" in r.stderr, r.stderr

    # Threads of two classes: a row for each.
    pathlib.Path(tmp, "classes").write_text('{"priorities": 3}')
    rows = [json.loads(line) for line in run(
        "client", "--fork", *rails, "--config", f"{tmp}/classes", "--threads", "3", "--priority",
        "2,0", "--count", "4", "--size", "64K", "--check", "--json", "-").stdout.splitlines()]
    assert [(r["priority"], r["threads"], r["requests"]) for r in rows] == [(2, 2, 8), (0, 1, 4)], rows
    refused("client", "--fork", *rails, "--count", "1", "--priority", "1", words="`priorities` is 2")

    # Strangers (see test/support/strangers.py) do not delay clients, and a client of a silent server ends after --timeout.
    for kind in strangers.KINDS:
        port = str(free_port())
        with subprocess.Popen([exe, "server", *rails, "--memory", "1M", "--port", port]) as server:
            try:
                while True:
                    try:
                        socket.create_connection(("127.0.0.1", int(port))).close()
                        break
                    except ConnectionRefusedError:
                        assert server.poll() is None, "the server has ended"
                        os.sched_yield()
                crowd = strangers.Strangers(kind, int(port), bytes(100))
                run("client", "127.0.0.1", *rails, "--port", port, "--size", "64K", "--count", "2", "--timeout", "3600")
                crowd.leave()
            finally:
                server.kill()
    with socket.create_server(("127.0.0.1", 0)) as s:
        r = run("client", "127.0.0.1", *rails, "--port", str(s.getsockname()[1]), "--timeout", "1", status=1)
        assert r.stderr.count("\n") == 1 and "timed out" in r.stderr and not r.stdout, r
    refused("client", "--fork", "--timeout", "0")

    # The memory of the server that a client runs.
    r = run("client", "--fork", *rails, "--alloc", "--memory", "1M", "--size", "1M", "--count", "1", "--check")
    assert "\n" in r.stdout, r
    r = run("client", "--fork", *rails, "--memory", "1M", "--size", "2M", "--count", "1", status=2)
    assert "has 1048576 bytes, 2097152 are needed" in r.stderr and not r.stdout, r

    # A read whose bytes cannot be prepared at the server is an error.
    if sys.argv[2:] == ["shm"]:
        r = subprocess.run([exe, "client", "--fork", *rails, "--op", "read", "--count", "1", "--check"],
                           capture_output=True, text=True, timeout=240, preexec_fn=without_writes)
        assert r.returncode == 1 and "Bad address" in r.stderr, r

    # A server in another process, found by its port.
    r = from_server("--size", "1M", "--count", "2", "--check")
    assert r.returncode == 0, r.stderr
    r = from_server("--size", "2M")
    assert r.returncode == 2 and "--memory 2097152" in r.stderr, r.stderr

    pathlib.Path(tmp, "config").write_text('{"scheduler": "best"}')
    refused("client", "--fork", *rails, "--config", f"{tmp}/config", "--count", "1", words="scheduler")
    refused("client", "--fork", *rails, "--config", f"{tmp}/config", "--count", "1", words=f"{tmp}/config: ")
    pathlib.Path(tmp, "config").write_text('{"scheduler": "smart"}')
    run("client", "--fork", *rails, "--config", f"{tmp}/config", "--count", "1", "--check")
    assert "nowhere" in run("client", "--fork", *rails, "--count", "1", "--json", "/nowhere/x",
                            status=1).stderr
    assert "refused" in run("client", "127.0.0.1", *rails, "--port", str(free_port()), status=1).stderr

assert "--fork" in run("client", "--help").stdout and "--memory" in run("server", "--help").stdout
# Comparison with other methods; UCX is one of them if it was built in.
built = re.search(r"\(built in: (\S+)\)", " ".join(run("client", "--help").stdout.split()))[1].split(",")
peers = ["memcpy", "cma"]
options = ["--fork", *rails, "--size", "64K,1M", "--seconds", "0.02"]
if "ucx" in built:
    run("client", *options, "--peer", "ucx,cma")
    peers.append("ucx")
    options.append("--alloc")
else:
    refused("client", *options, "--alloc", "--peer", "ucx", words="which are built in")
rows = [json.loads(line) for line in run(
    "client", *options, "--peer", ",".join(peers), "--json", "-").stdout.splitlines()]
assert [r["size_bytes"] for r in rows] == [65536, 1048576], rows
for r in rows:
    assert r.keys() == {"size_bytes", "tent_gb_per_s", *(f"{p}_gb_per_s" for p in peers), *(f"{t}to_{p}" for p in peers for t in ("", "cpu_"))}, r
    assert all(v > 0 for v in r.values()), r
table = run("client", *options, "--peer", "memcpy").stdout.splitlines()
assert "memcpy, GB/s" in table[0] and len(table) == 3, table
refused("client", "host", "--peer", "memcpy", words="--fork")
refused("client", "--fork", "--peer", "memcpy", "--batch", "2", words="exclude each other")
refused("client", "--fork", "--peer", "rsync", words="built in")
refused("client")
refused("client", "host", "--fork")
refused("client", "host", "--memory", "1M", words="--memory: give it to the server")
refused("client", "--fork", "--shm", "2", "--tcp", "2", words="--tcp and --shm exclude each other")
refused("client", "--fork", "--adapters", words="--adapters has no effect alone: give --tcp")
refused("client", "--fork", "--memory", "1")
refused("client", "--fork", "--size", "0")
refused("client", "--fork", "--size", "64k")
refused("client", "--fork", "--size", "1,,2")
refused("client", "--fork", "--size", "99999999999999999999")
refused("client", "--fork", "--batch", "1025")
refused("client", "--fork", "--threads", "65")
refused("client", "--fork", "--priority", "3")
refused("client", "--fork", "--priority", "0,")
refused("client", "--fork", "--priority", "0,1")
refused("client", "--fork", "--op", "copy")
refused("client", "--fork", "--seconds", "-1")
refused("client", "--fork", "--shm", "33")
refused("client", "--fork", "--nothing")
refused("client", "--fork", "--json", "-", "--prometheus", "-", words="--prometheus")
refused("client", "--fork", "--port")
refused("server", "--memory", "1")
refused("server", "--port", "65536")
refused("server", "--fork")
refused("server", "host")
for where in "cuda:x", "cuda:", "cuda:1000", "cpu:1x":
    refused("server", "--location", where, words="--location " + where + ": give cpu:N or cuda:N")
print("passed")
