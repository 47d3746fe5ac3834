#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""copyrpc-bench prints one line about an error, once, and ends with the right status.

    errors.py SOFTHCA-RUN COPYRPC-BENCH
"""
import os
import pathlib
import re
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "test/support"))
import strangers  # noqa: E402
from ports import free_port  # noqa: E402

GUARD = 240  # seconds until a program counts as hung


def judge(argv, status, err, want, pattern):
    lines = [l for l in err.splitlines() if "emulated adapters" not in l]
    if status != want or len(lines) != 1 or not re.search(pattern, lines[0]):
        sys.exit(f"{' '.join(argv)}: status {status}; wanted: status {want} and exactly one line, "
                 f"which matches '{pattern}'; printed:\n{err}")


def fails(want, pattern, *args, head=(), out=subprocess.DEVNULL):
    argv = [*head, bench, *args]
    r = subprocess.run(argv, stdout=out, stderr=subprocess.PIPE, text=True, timeout=GUARD)
    judge(argv, r.returncode, r.stderr, want, pattern)


def connect(port, server):
    end = time.monotonic() + GUARD
    while server.poll() is None and time.monotonic() < end:
        try:
            return socket.create_connection(("localhost", port))
        except ConnectionRefusedError:
            time.sleep(0.01)
    server.kill()
    sys.exit(f"the server does not listen: {server.communicate()[1]}")


def server_says(pattern, client):
    """Runs a server; the function `client` plays its client on the connection."""
    port = free_port()
    argv = [*hca, bench, "--port", str(port)]
    server = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    with connect(port, server) as s:
        client(s)
    err = server.communicate(timeout=GUARD)[1]
    judge(argv, server.returncode, err, 1, pattern)


def serves_beside(kind):
    """A client is served while a stranger, a connection with wrong or missing bytes, is connected. `kind`: one of
    strangers.KINDS, or the version of a client that the server refuses with a message."""
    port = free_port()
    server = subprocess.Popen([*hca, bench, "--port", str(port)], stderr=subprocess.PIPE, text=True)
    connect(port, server).close()
    if kind in strangers.KINDS:
        crowd = strangers.Strangers(kind, port, hello())
    else:
        crowd = socket.create_connection(("127.0.0.1", port))
        crowd.sendall(hello(version=kind))
    client = subprocess.run([*hca, bench, "localhost", "--port", str(port), "-D", ".01", "-q", "1"],
                            capture_output=True, text=True, timeout=GUARD)
    err = server.communicate(timeout=GUARD)[1]
    crowd.leave() if kind in strangers.KINDS else crowd.close()
    refused = re.findall(r"refused a client of version (\d+), this server has version 2", err)
    if client.returncode or server.returncode or refused != ([] if kind in strangers.KINDS else [str(kind)]):
        sys.exit(f"{kind}: {client.returncode} {server.returncode}\n{client.stderr}\n{err}")


def hello(version=2):
    """The first bytes of a client (struct hello)."""
    return struct.pack("8s2I", b"CPRBENCH", version, 0)


def plan(size=32, allowance=16, endpoints=1, ring_size=4096):
    """A client's request: the implementation, then its options (struct plan)."""
    return hello() + struct.pack("7I", 0, size, allowance, endpoints, ring_size, 1, 0)


if len(sys.argv) != 3:
    sys.exit(__doc__)
run, bench = sys.argv[1:]
hca = [run, "--rails", "2", "--fabric", f"copyrpc-errors-{os.getpid()}"]

for depths in "1,", ",1", "1,,8", "":
    fails(2, f"--queue-depth '{depths}' is not valid: give whole numbers", "--fork", "-q", depths)
# Two rings per endpoint on each of the two sides: 64 TiB.
fails(2, "--endpoints and --ring-size: give less", "--fork", "-e", "16384", "-r", str(1 << 30), head=hca)
fails(2, "--ib-dev=nope: give one of: mlx5_0, mlx5_1", "--fork", "-d", "nope", head=hca)
fails(2, "--ib-dev=nope: give one of: mlx5_0, mlx5_1", "-d", "nope", head=hca)
if not os.path.isdir("/sys/class/infiniband") or not os.listdir("/sys/class/infiniband"):
    # If no device exists and none is named, the bench runs itself under the software HCA.
    fails(0, "no mlx5 device: running under the software HCA", "--fork", "-D", "0.01", "-q", "1")
    fails(2, "--ib-dev=nope: .*give", "--fork", "-d", "nope")
    # The bench then keeps all of its arguments.
    rows = subprocess.run([bench, "--fork", "-D", "0.01", "-q", "1,2,4"], stdout=subprocess.PIPE,
                          text=True, timeout=GUARD).stdout.splitlines()[1:]
    if [r.split()[4] for r in rows] != ["1", "2", "4"]:
        sys.exit(f"not a line for each queue depth: {rows}")
with open("/dev/full", "w") as full:
    fails(1, "standard output: No space", "--help", out=full)
    fails(1, "standard output: No space", "--fork", "-D", "0.01", "-q", "1", head=hca, out=full)
server_says("the client ended early", lambda s: s.sendall(hello()))
for options in {"allowance": 1 << 31}, {"endpoints": 1 << 31}, {"endpoints": 16384, "ring_size": 1 << 30}:
    server_says("the client's options", lambda s: s.sendall(plan(**options)))
for kind in strangers.KINDS:
    serves_beside(kind)
for version in 1, 3:
    serves_beside(version)
