# SPDX-License-Identifier: MIT
"""In a mesh every node gets the right response to each of its calls, in every pattern with one thread for all nodes,
and in one pattern with a thread for each. With a bad option flux-bench prints one line and exits with status 2.

	test-mesh.py FLUX-BENCH [PEERS]
"""
import json
import subprocess
import sys

bench, peers = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "all"


def run(*args):
    return subprocess.run([bench, *args], capture_output=True, text=True, timeout=480)


def rows(*args):
    done = run("--seconds", ".01", "--peer", peers, "--json", "-", *args)
    assert done.returncode == 0, (args, done.returncode, done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(shapes, pattern, *how):
    found = rows("--mesh-pattern", pattern, *how)
    assert sum(row["impl"] == "flux" for row in found) == shapes, found
    assert {row["impl"] for row in found} <= {"flux", "bare", "dpdk"}, found
    for row in found:
        assert row["rpcs"] > 0 and row["least_client_krps"] > 0 and row["loop"] == pattern.split(":")[0], row
        assert row["per_burst"] >= 1 or row["impl"] != "flux", row
    return found


for pattern in ("turn", "random", "hot:1", "hot:4", "servers:1", "servers:4"):
    for row in check(4, pattern, "--mesh", "5,6", "--queue-depth", "1,40", "--step", "500"):
        assert row["rpcs"] >= 5 * 500, row
check(1, "hot:1", "--mesh", "3", "--queue-depth", "40")

mesh = ["--mesh", "4"]
for bad in (["--mesh", "1"], ["--mesh", "65"], ["--mesh-pattern", "turn"], ["--step", "5", "--wake", "1"], [*mesh, "--step", "0"],
            [*mesh, "--clients", "2"], [*mesh, "--loop", "single"], [*mesh, "--wake", "1"],
            *([*mesh, "--mesh-pattern", p] for p in ("hot", "hot:", "hot:0", "hot:4", "hot:x", "hot:4294967297", "turn:1", "servers:64", "tur"))):
    done = run(*bad)
    assert done.returncode == 2, (bad, done.returncode)
    assert done.stdout == "" and done.stderr.count("\n") == 1, (bad, done.stdout, done.stderr)
