#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures the cost of the checks of values: instructions per operation, and throughput.

    cost.py SOFTHCA-RUN COST COST-UNCHECKED BENCHKV BENCHKV-UNCHECKED [NP...]

callgrind counts the instructions in two runs that differ only in the number of operations. The
difference does not contain work that is done once. Throughput is the median of nine runs of each program,
alternating, on NP ranks (0: without a launcher; default 0 and 2); the median of the nine ratios is
printed too.
"""
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

OPS, RUNS = 32000, 9


def counted(program, ops, zipf):
    with tempfile.TemporaryDirectory() as tmp:
        out = pathlib.Path(tmp) / "out"
        subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", program,
                        str(ops), *zipf], check=True, capture_output=True)
        return int(re.search(r"^(?:summary|totals): (\d+)", out.read_text(), re.M).group(1))


def instructions(program, zipf):
    return (counted(program, 2 * OPS, zipf) - counted(program, OPS, zipf)) / OPS


def throughput(program, np, args):
    head = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", np] if np != "0" else []
    r = subprocess.run([*head, program, "delegation", "--duration", "1", "--json", "-", *args],
                       capture_output=True, text=True, check=False,
                       env=dict(os.environ, PATH=os.environ["PATH"] + ":" + SOFTHCA))
    if not r.stdout:
        sys.exit(r.stderr)
    return json.loads(r.stdout)["ops_per_s"]


if len(sys.argv) < 6:
    sys.exit(__doc__)
SOFTHCA = os.path.dirname(sys.argv[1])
COST, COST_UNCHECKED, BENCHKV, UNCHECKED = sys.argv[2:6]
LOADS = (("uniform", [], []), ("zipf:0.99", ["0.99"], ["--distribution", "zipf:0.99"]))
for name, zipf, _ in LOADS:
    with_, without = instructions(COST, zipf), instructions(COST_UNCHECKED, zipf)
    print(f"{name:10} {with_ - without:6.1f} instructions per operation "
          f"({with_:.1f} with request, store and reply, {without:.1f} unchecked)", flush=True)
over_time = instructions(COST, ["0", "1000"]) - instructions(COST, ["0"])
print(f"--interval {over_time:6.1f} instructions per operation", flush=True)
for np in sys.argv[6:] or ["0", "2"]:
    for name, _, args in LOADS:
        pairs = [(throughput(BENCHKV, np, args), throughput(UNCHECKED, np, args))
                 for _ in range(RUNS)]
        a, b = (statistics.median(p[i] for p in pairs) for i in (0, 1))
        each = statistics.median(p[0] / p[1] for p in pairs)
        print(f"{name:10} np {np}: {a:.0f} op/s, {b:.0f} unchecked: ratio {a / b:.3f}, "
              f"median of the ratios {each:.3f}", flush=True)
