#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Large calls and ib_write_bw on the same HCA, in turn.

    large.py [--check] SOFTHCA-RUN LARGE [ROUNDS]

Prints medians: the throughput and the CPU time of both processes, and the ratios to ib_write_bw, for requests, which the
server pulls, and for responses, which it pushes. The CPU time does not depend on other programs so much. --check only shows
that the program works: with one size, few calls, and without ib_write_bw.
"""
import os
import resource
import shutil
import statistics
import subprocess
import sys

args = sys.argv[1:]
check = args[:1] == ["--check"]
args = args[check:]
if len(args) not in (2, 3):
    sys.exit(__doc__)
RUN = [args[0], "--fabric", f"copyrpc-large-{os.getpid()}"]
LARGE = args[1]
ROUNDS = 1 if check else int(args[2]) if len(args) == 3 else 5
SIZES = {1: (4, 3000)} if check else {1: (4, 3000), 64: (3, 60)}  # MiB: calls at a time, number of calls

# Both processes of ib_write_bw run in one invocation of softhca-run. The client tries until the server listens.
BOTH = """ib_write_bw -s $0 -n $1 -t $2 >/dev/null &
for i in $(seq 100); do
    o=$(ib_write_bw -s $0 -n $1 -t $2 localhost 2>/dev/null) && break
    sleep .05
done
wait
echo "$o"
"""


def cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(gib, *cmd):
    """Returns what the command prints, and its CPU time in ms for a GiB."""
    before = cpu()
    r = subprocess.run(RUN + [str(c) for c in cmd], capture_output=True, text=True, timeout=300)
    if r.returncode:
        sys.exit(f"{cmd}: status {r.returncode}\n{r.stdout}{r.stderr}")
    return r.stdout, (cpu() - before) * 1e3 / gib


def large(request, response, count, depth):
    out, ms = measure(max(request, response) * count / 2**30, LARGE, request, response, count, depth)
    return float(out), ms


def ib_write_bw(size, count, depth):
    out, ms = measure(size * count / 2**30, "sh", "-c", BOTH, size, count, depth)
    rows = [line.split() for line in out.splitlines() if line.split()[:1] == [str(size)]]
    if not rows:
        sys.exit(f"ib_write_bw printed no result:\n{out}")
    return float(rows[0][3]), ms


for mib, (depth, count) in SIZES.items():
    size, count = mib << 20, 5 if check else count
    runs = {"requests": lambda: large(size, 1, count, depth), "responses": lambda: large(1, size, count, depth)}
    if not check and shutil.which("ib_write_bw"):
        runs["ib_write_bw"] = lambda: ib_write_bw(size, count, depth)
    found = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            found[name].append(run())
    medians = {name: [statistics.median(column) for column in zip(*rows)] for name, rows in found.items()}
    for name, (rate, ms) in medians.items():
        peer = medians.get("ib_write_bw", (rate, ms))
        print(f"{mib:3} MiB {name:12} {rate:7.0f} MiB/s {rate / peer[0]:5.2f} {ms:7.0f} ms/GiB {ms / peer[1]:5.2f}")
