#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the throughput of delegrpc and shmipc: a ratio above 1 means that delegrpc, with one ring for all clients,
is faster. 1 to 46 clients make calls, once with only these connected, once with 46 connected.

    crossing.py BENCH [--check] [OPTION OF BENCH]...

The bench measures the two layers alternately, in short windows. A ratio is the median of the ratios of neighbouring
windows. --check measures fewer cases, as a test.
"""
import json
import subprocess
import sys

bench, args = sys.argv[1], sys.argv[2:]
check = "--check" in args
args = [a for a in args if a != "--check"]
COUNTS = [1, 3] if check else [1, 2, 4, 8, 16, 32, 46]
DEPTHS = "1,8" if check else "1,8,32"
SECONDS = ".02" if check else "1"


def run(counts):
    """Returns the rows by depth, clients and layer. The field ratio is delegrpc's time per call divided by the
    row's."""
    cmd = [bench, "--peer", "none", "--queue-depth", DEPTHS, "--seconds", SECONDS, "--json", "-",
           "--clients", ",".join(map(str, counts)), *args]
    done = subprocess.run(cmd, check=True, capture_output=True, text=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {(r["queue_depth"], r["clients"], r["impl"]): r for r in rows}


alone = {}
for count in COUNTS:
    alone |= run([count])
together = run(COUNTS)
depths = sorted({key[0] for key in together})
print(f"round trip of two cache lines {together[depths[0], COUNTS[0], 'shmipc']['line_rtt_ns']:.0f} ns; "
      "delegrpc ns, shmipc ns, throughput of delegrpc over that of shmipc")
print(f"{'connected':12} {'depth':>5}" + "".join(f"{n:>18}" for n in COUNTS))
for name, rows in (("the callers", alone), (str(COUNTS[-1]), together)):
    for depth in depths:
        cells = []
        for count in COUNTS:
            ours, theirs = (rows[depth, count, impl] for impl in ("delegrpc", "shmipc"))
            assert ours["rpcs"] > 0 and theirs["rpcs"] > 0, (ours, theirs)
            cells.append(f"{ours['ns_per_rpc']:7.1f} {theirs['ns_per_rpc']:5.1f} {1 / theirs['ratio']:4.2f}")
        print(f"{name:12} {depth:>5}" + "".join(f"{c:>18}" for c in cells))
