#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""rdmabench engine on the software HCA, as a user runs it.

    engine.py CASE RDMABENCH SOFTHCA-RUN
"""
import atexit
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import tempfile

case, exe, runner = sys.argv[1:4]
FABRIC = ["--fabric", f"rdmabench-{case}-{os.getpid()}"]
HANG = 100  # seconds, after which a run counts as hanging


def command(*args, hca=()):
    return [runner, *FABRIC, *hca, exe, "engine", *(a if isinstance(a, bytes) else str(a) for a in args)]


def run(*args, status=0, hca=(), env=None):
    r = subprocess.run(command(*args, hca=hca), capture_output=True, text=True, timeout=HANG, errors="replace",
                       env={**os.environ, **(env or {})})
    assert r.returncode == status, (args, r.returncode, r.stdout, r.stderr)
    return r


def report(*args, status=0, hca=(), env=None):
    """The one JSON object that is all of standard output."""
    out = run("--json", "-", *args, status=status, hca=hca, env=env).stdout
    assert out.endswith("\n") and out.count("\n") == 1, out
    o = json.loads(out)
    assert o["command"] == "engine" and o["status"] == status, o
    return o


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A server in the background, which has said that it waits."""

    def __init__(self, *args, hca=()):
        self.port = free_port()
        self.p = subprocess.Popen(command("-p", self.port, "--json", "-", *args, hca=hca),
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        atexit.register(self.p.terminate)  # a failed test leaves nothing behind
        while "waiting" not in self.p.stderr.readline():
            assert self.p.poll() is None

    def end(self, status=0):
        out, err = self.p.communicate(timeout=HANG)
        assert self.p.returncode == status, (self.p.returncode, out, err)
        return json.loads(out), err


def kinds():
    """Every operation on every transport, both ways, with all payloads compared."""
    every = "w_1_5000,s_2_4096_512,r_1_3000,a_1_8,c_1_8,wi_1_7,si_4_1_2_3_4,s_1_3"
    for args in (["--request", every], ["--request", every, "-b", "-q", 3, "-l", 4],
                 ["-c", "UC", "--request", "w_2_100_3,s_2_4096_512,si_1_5", "-q", 2],
                 ["--op", "r", "-s", 100, "-l", 7, "-t", 50], ["-q", 7, "--mr-num", 3, "-b", "--request", every], ["--op", "s", "-s", 1, "-I", 0],
                 ["-c", "UD", "--request", "s_2_1000_512,si_1_77", "-b", "-r", 2000]):
        o = report("--fork", "--check", "-n", 203, *args)
        qps = o["traffic"]["qp_num"]
        assert o["sent"]["messages"] == 203 * qps and o["mismatches"] == 0 and o["errors"] == 0, o
        assert o["peers"][0]["received"]["mismatches"] == 0
        assert o["traffic"]["mr_num"] == (3 if "--mr-num" in args else 1)
        batches = -(-203 // o["traffic"]["send_batch"])
        assert o["latency_ns"]["samples"] == batches * qps, o
        if "-b" in args:
            assert o["peers"][0]["sent"]["messages"] == 203 * qps, o


def buffers():
    """Requests go round the buffers of a QP, whose other regions nobody may write to."""
    for kind, op in (("RC", "w"), ("RC", "r"), ("UC", "s")):
        o = report("--fork", "-c", kind, "--op", op, "-n", 500, "-s", 5000, "-q", 5, "--buf-num", 7, "--mr-num", 5)
        assert o["sent"]["messages"] == 2500 and o["traffic"]["buf_num"] == 7 and o["errors"] == 0, o


def roce():
    """Addressed by GID; a datagram is one packet of the port's MTU."""
    with tempfile.NamedTemporaryFile("w") as f:
        f.write("name=mlx5_0 link=roce mtu=1024 netdev=lo\n")
        f.flush()
        hca = ["--topology", f.name]
        for kind, size in (("RC", 3000), ("UC", 3000), ("UD", 1024)):
            report("--fork", "--check", "-n", 100, "-c", kind, "--op", "s", "-s", size, hca=hca)
        o = report("--fork", "-c", "UD", "--op", "s", "-s", 1025, status=1, hca=hca)
        assert "1024 bytes" in o["error"], o
        o = report("--fork", "-m", 4096, status=1, hca=hca)
        assert "MTU" in o["error"], o


def table():
    """perftest's columns, units in them."""
    out = run("--fork", "-n", 100, "-s", 4096).stdout
    assert "#bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]" in out, out
    for column in ("t_min[usec]", "t_max[usec]", "t_typical[usec]", "t_avg[usec]", "t_stdev[usec]",
                   "99% percentile[usec]", "99.9% percentile[usec]"):
        assert column in out, out
    lines = out.splitlines()
    assert lines[2].split()[:2] == ["4096", "100"] and lines[4].split()[:2] == ["4096", "100"], out
    assert "BW average[Gb/sec]" in run("--fork", "-n", 100, "--report-gbits").stdout
    assert "clock: " in out and "nearest rank" in out


def open_loop():
    """With a rate the wait before the post shows in a second latency; a duration ends the run."""
    o = report("--fork", "-D", ".3", "-s", 64, "--rate", 20000, "-q", 2, "-l", 2)
    assert o["response_ns"]["samples"] == o["latency_ns"]["samples"] > 0, o
    assert o["response_ns"]["p50"] >= o["latency_ns"]["p50"], o
    assert 0 < o["sent"]["messages"] <= 20000 * .3 + 8, o  # never ahead of what is due
    assert "response_ns" not in report("--fork", "-D", ".1", "-s", 64)


def hw_ts():
    """Completions are timed by the device's stamps; the error is stated, and a clock of another kind refused."""
    with tempfile.TemporaryDirectory() as d, tempfile.NamedTemporaryFile("w") as f:
        o = report("--fork", "--hw-ts", "-b", "-n", 3000, "-s", 64, "--stats-dir", d, "--run", "r")
        assert o["clock"].startswith("completion time stamps of mlx5_0, at most "), o["clock"]
        assert f"at most {o['hw_ts']['error_ns']} ns off" in o["clock"], o
        assert o["hw_ts"]["jumps"] == 0 and o["hw_ts"]["probes"] >= 32, o
        assert 0 < o["hw_ts"]["mean_error_ns"] <= o["hw_ts"]["error_ns"], o
        assert o["latency_ns"]["samples"] == 3000, o
        lines = [json.loads(p.read_text()) for p in pathlib.Path(d, "r").glob("*.jsonl")]
        assert len(lines) == 2 and all("time stamps of mlx5_0" in x["clock"] for x in lines), lines
        assert "hw_ts" not in report("--fork", "-n", 10)
        # A message takes the link's latency at least; what comes after the stamp is not in it.
        f.write("name=mlx5_0 latency_ns=3000000\n")
        f.flush()
        real = ["--topology", f.name, "--link", "real"]
        o = report("--fork", "--hw-ts", "-n", 20, "-s", 64, "-t", 1, hca=["--fabric", FABRIC[1] + "-real", *real])
        assert o["latency_ns"]["min"] >= 3000000 - o["hw_ts"]["error_ns"], o
    r = run("--fork", "--hw-ts", "--json", "-", status=1, hca=["--fabric", FABRIC[1] + "-virtual", "--link", "virtual"])
    assert "does not run as ours" in json.loads(r.stdout)["error"], r.stdout
    assert [x for x in r.stderr.splitlines() if x.startswith("rdmabench")] == [
        "rdmabench engine: --hw-ts: the device stamps completions by a clock that does not run as ours: leave it out"], r.stderr


def burst():
    """After N batches nothing is posted for the length of the pause."""
    o = report("--fork", "-n", 50, "-s", 64, "--burst", 10, "--burst-pause", 20000)
    assert o["sent"]["seconds"] >= .08 and o["sent"]["messages"] == 50, o


def stats():
    """One file per process and role, in a directory of the run; the older tool's file."""
    with tempfile.TemporaryDirectory() as tmp:
        o = report("--fork", "-b", "-n", 100, "--stats-dir", tmp + "/s", "--run", "r1")
        assert o["run"] == "r1"
        files = sorted(p.name for p in pathlib.Path(tmp, "s", "r1").iterdir())
        assert [f.rsplit("-", 1)[1] for f in sorted(files, key=lambda f: f.rsplit("-", 1)[1])] == [
            "client.jsonl", "client.txt", "server.jsonl", "server.txt"], files
        for f in files:
            if f.endswith(".jsonl"):
                line = json.loads(pathlib.Path(tmp, "s", "r1", f).read_text())
                assert line["run"] == "r1" and line["latency_samples"] == 100, line
        # 100 completions of batches of 4: two windows of ten, five are not seen.
        path = pathlib.Path(tmp, "old")
        run("--fork", "-n", 100, "-l", 4, "--stats-file", path, "--compat")
        text = path.read_text().splitlines()
        assert [line.split(":")[0] for line in text] == [
            "latency_samples"] + [f"latency_{k}_ns" for k in "min avg median p95 p99 max".split()]
        values = [int(line.split()[1]) for line in text]
        assert values[0] == 10 and values[1] <= values[3] <= values[4] == values[5] == values[6], text
        # Receives give no samples.
        run("--fork", "-n", 100, "--op", "s", "--stats-dir", tmp + "/q", "--run", "r")
        assert len(list(pathlib.Path(tmp, "q", "r").iterdir())) == 2
        o = report("--fork", "-n", 10, "--stats-dir", "/nowhere/x", status=1)
        assert "/nowhere/x" in o["error"], o
        assert report("--fork", "-n", 10, "--stats-file", "/nowhere/x", status=1)["events"]


def incast():
    """Two clients at once; the server's name of the run is everybody's."""
    server = Server("--hosts", "2", "--run", "many")
    args = ["-p", server.port, "-n", 200, "--check", "--op", "s", "-s", 500, "--json", "-", "127.0.0.1"]
    clients = [subprocess.Popen(command(*args), stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for c in clients:
        out, _ = c.communicate(timeout=HANG)
        assert c.returncode == 0 and json.loads(out)["run"] == "many", out
    o, _ = server.end()
    assert o["received"]["messages"] == 400 and len(o["peers"]) == 2 and o["role"] == "server", o


def differ():
    """Clients of one server send the same."""
    server = Server("--hosts", "2")
    first = subprocess.Popen(command("-p", server.port, "-n", 10, "127.0.0.1"),
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    second = command("-p", server.port, "-n", 11, "--json", "-", "127.0.0.1")
    r = subprocess.run(second, capture_output=True, text=True, timeout=HANG)
    _, err = first.communicate(timeout=HANG)
    assert first.returncode == 1 and r.returncode == 1, (err, r)
    assert "first client" in err + r.stdout, (err, r.stdout)
    server.end(1)


def strangers():
    """Who speaks otherwise is told so, and does not hold up the next."""
    server = Server("--timeout", 1)
    header = struct.Struct("<IHHI")

    def say(data):
        s = socket.create_connection(("127.0.0.1", server.port), timeout=HANG)
        s.sendall(data)
        return s

    s = say(header.pack(0x424d4452, 2, 1, 0))  # a later version
    magic, version, kind, length = header.unpack(s.recv(12, socket.MSG_WAITALL))
    assert (magic, version, kind) == (0x424d4452, 1, 7), (magic, version, kind)
    assert b"version 1" in s.recv(length, socket.MSG_WAITALL)
    sockets = [say(b"GET / HTTP/1.1\r\n\r\n"), say(b""), say(header.pack(0x424d4452, 1, 1, 1 << 30)),
               say(header.pack(0x424d4452, 1, 1, 4) + b"abcd"), say(header.pack(0x424d4452, 1, 8, 0)),
               say(header.pack(0x424d4452, 1, 1, 1000) + b"slow")]
    run("-p", server.port, "-n", 10, "--timeout", 60, "127.0.0.1")
    _, err = server.end()
    assert err.count("refused 127.0.0.1") + err.count("refused ::") >= 7, err
    del sockets


def nobody():
    """Without a server, a host or a device there is one line and a JSON object."""
    o = report("-p", free_port(), "--timeout", 1, "127.0.0.1", status=1)
    assert "refused" in o["error"], o
    assert "?" in report(b"\xff\xfe", status=1)["error"]  # no UTF-8, and still JSON
    assert "no such host" in report("no-such-host.invalid", status=1)["error"]
    assert "mlx5_9" in report("--fork", "-d", "mlx5_9", status=1)["error"]
    assert "port or GID" in report("--fork", "-x", "99", status=1)["error"]
    r = subprocess.run([exe, "engine", "--fork", "--json", "-"], capture_output=True, text=True,
                       timeout=HANG)
    if r.returncode:  # no device on this machine
        assert "softhca-run" in json.loads(r.stdout)["error"], r


def bad():
    """A bad command line: one line, status 2, and nothing else."""
    for args in (["--frobnicate"], ["-s", "0"], ["a", "b"], ["-c", "UD"], ["--fork", "host"]):
        r = run(*args, status=2)
        lines = [line for line in r.stderr.splitlines() if not line.startswith("softhca-run")]
        assert len(lines) == 1 and "give" in lines[0] and not r.stdout, r
    for args in ([], ["frobnicate"], ["--help", "x"]):
        r = subprocess.run([exe, *args], capture_output=True, text=True)
        assert r.returncode == 2 and r.stderr.count("\n") == 1 and "give" in r.stderr, r
    assert "engine" in subprocess.run([exe, "--help"], capture_output=True, text=True).stdout
    assert "--request" in run("--help").stdout
    assert "cannot be written" in run("--fork", "-n", 1, "--json", "/dev/full", status=1).stderr


def faults():
    """Errors of the device are counted, named and end in status 1; the other QPs go on."""
    fault = {"SOFTHCA_FAULTS": "opcode=write nth=100 action=error syndrome=remote_access"}
    o = report("--fork", "-n", 200, "-q", 2, "-s", 64, "-t", 16, status=1, env=fault)
    assert o["errors"] == 1 and "Permission denied" in o["events"][0], o
    assert 200 <= o["sent"]["messages"] < 400, o
    o = report("--fork", "-n", 200, "-s", 64, status=1,
               env={"SOFTHCA_FAULTS": "opcode=write nth=1 action=error syndrome=remote_access"})
    assert o["latency_ns"]["samples"] == 0 and o["sent"]["messages"] == 0, o
    o = report("--fork", "-n", 200, "--op", "s", "-s", 64, "--check", status=1,
               env={"SOFTHCA_FAULTS": "opcode=send nth=50 action=error syndrome=retry_exceeded"})
    assert o["errors"] == 1 and o["mismatches"] == 0, o


def events():
    """What the device tells beside completions is in the report."""
    o = report("--fork", "-n", 300, "-s", 64, "-t", 4, status=1,
               env={"SOFTHCA_FAULTS": "opcode=write nth=50 action=link_down"})
    assert "the port is down" in o["events"] and any("timed out" in e for e in o["events"]), o


def corrupted():
    """A payload of which a part has not come is found."""
    o = report("--fork", "-n", 100, "-s", 4096, "-t", 200, "--check", status=1,
               env={"SOFTHCA_FAULTS": "opcode=write nth=50 action=partial bytes=100"})
    assert o["errors"] >= 1, o


def killed():
    """A peer that is killed is named, and the other side ends."""
    with tempfile.TemporaryDirectory() as tmp:
        server = Server("--timeout", 2)
        client = subprocess.Popen(
            command("-p", server.port, "-D", 100, "-s", 64, "--stats-file", tmp + "/s", "--compat", "127.0.0.1"),
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)
        while not os.path.exists(tmp + "/s"):  # traffic flows
            assert client.poll() is None, client.stderr.read()
        os.killpg(client.pid, signal.SIGKILL)
        client.communicate()
        o, _ = server.end(1)
        assert o["peers"][0]["lost"] and "gone" in o["events"][0], o


def larger():
    """A larger batch of larger messages takes longer, on a link that has a rate."""
    with tempfile.NamedTemporaryFile("w") as f:
        f.write("name=mlx5_0 link=ib rate_mbps=1000\n")
        f.flush()
        hca = ["--topology", f.name, "--link", "real"]
        low = report("--fork", "-n", 64, "-s", 1024, "-l", 16, "-t", 16, hca=hca)["latency_ns"]["min"]
        high = report("--fork", "-n", 256, "-s", 8192, "-l", 64, "-t", 64, hca=hca)["latency_ns"]["min"]
        assert low >= 16 * 1024 * 8 and high >= 64 * 8192 * 8 and high > low, (low, high)


def delayed():
    """A link with a latency of 50 us: no sample is shorter."""
    with tempfile.NamedTemporaryFile("w") as f:
        f.write("name=mlx5_0 link=ib latency_ns=50000\n")
        f.flush()
        o = report("--fork", "-n", 100, "-s", 64, "-t", 1, hca=["--topology", f.name, "--link", "real"])
        assert o["latency_ns"]["min"] >= 50000 and o["latency_ns"]["samples"] == 100, o


globals()[case]()
print("passed")
