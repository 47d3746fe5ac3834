#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tentbench with memory of GPUs, on the software GPU."""
import json
import subprocess
import sys


def run(*args, status=0):
    r = subprocess.run([sys.argv[1], "client", "--fork", *args], capture_output=True, text=True, timeout=100)
    assert r.returncode == status, (args, r)
    return r


for rails in "--gpu", "--tcp":
    for op in "write", "read", "mixed":
        rows = [json.loads(line) for line in run(rails, "2", "--location", "cuda:1", "--op", op, "--size", "1,200K,2M",
                                                 "--batch", "2", "--threads", "2", "--count", "3", "--check",
                                                 "--json", "-").stdout.splitlines()]
        assert [r["size_bytes"] for r in rows] == [1, 200 << 10, 2 << 20], rows
        assert all(r["checked"] and not r["wrong"] and not r["failed"] and r["requests"] == 12 for r in rows), rows
run("--tcp", "1", "--location", "cpu:0", "--size", "1", "--count", "1")
assert "cuDeviceGet returns" in run("--tcp", "1", "--location", "cuda:7", status=1).stderr
for more in ["--alloc"], ["--peer", "memcpy"]:
    assert "without --alloc and --peer" in run("--tcp", "1", "--location", "cuda:0", *more, status=2).stderr
assert "exclude each other" in run("--tcp", "1", "--gpu", "1", status=2).stderr
print("passed")
