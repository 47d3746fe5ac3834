#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Large calls and ib_write_bw on the same HCA, in turn.

    large.py [--check] SOFTHCA-RUN LARGE [ROUNDS]

Prints the throughput (the median and the best round) and the CPU time of both processes without
their start and end, each with its ratio to ib_write_bw. It does so for requests, which the server
pulls; for responses, which the server pushes; and for ib_write_bw with as many buffers as calls are
pending (-q). Plain ib_write_bw writes one buffer again and again, which stays in the cache. On a
machine with other programs the best round is more reliable than the median. --check only shows that
the program works: with one size, few calls, and without ib_write_bw.
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
ROUNDS = 1 if check else int(args[2]) if len(args) == 3 else 9
SIZES = {1: (4, 1000)} if check else {1: (4, 1000), 64: (3, 45)}  # MiB: calls at a time, number of calls

FEW = 8

# Both processes of ib_write_bw run in one invocation of softhca-run. The client tries until the server listens.
BOTH = """ib_write_bw -F -s $0 -n $1 -t $2 -q $3 >/dev/null &
for i in $(seq 100); do
    o=$(ib_write_bw -F -s $0 -n $1 -t $2 -q $3 localhost 2>/dev/null) && break
    sleep .05
done
wait
echo "$o"
"""


def cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(*cmd):
    """Returns what the command prints, and its CPU time in seconds."""
    before = cpu()
    r = subprocess.run(RUN + [str(c) for c in cmd], capture_output=True, text=True, timeout=300)
    if r.returncode:
        sys.exit(f"{cmd}: status {r.returncode}\n{r.stdout}{r.stderr}")
    return r.stdout, cpu() - before


def large(request, response, count, depth):
    out, seconds = run(LARGE, request, response, count, depth)
    return float(out), seconds


def ib_write_bw(size, count, depth, qps):
    for _ in range(5):  # ib_write_bw prints no row if it could not measure the frequency of the CPU's counter
        out, seconds = run("sh", "-c", BOTH, size, count, depth, qps)
        rows = [line.split() for line in out.splitlines() if line.split()[:1] == [str(size)]]
        if rows:
            return float(rows[0][3]), seconds
    sys.exit(f"ib_write_bw printed no result:\n{out}")


def measure(move, size, count):
    """Returns the MiB/s and the ms of CPU time for a GiB. A run with few messages measures the time
    of the start and the end."""
    few = move(FEW)[1]
    rate, seconds = move(count)
    return rate, (seconds - few) * 1e3 / (size * (count - FEW) / 2**30)


for mib, (depth, count) in SIZES.items():
    size, count = mib << 20, FEW + 1 if check else count
    moves = {"requests": lambda n: large(size, 1, n, depth), "responses": lambda n: large(1, size, n, depth)}
    if not check and shutil.which("ib_write_bw"):
        moves["ib_write_bw"] = lambda n: ib_write_bw(size, n, depth, 1)
        moves[f"the same, -q {depth}"] = lambda n: ib_write_bw(size, max(n // depth, 5), 1, depth)
    found = {name: [] for name in moves}
    for _ in range(ROUNDS):
        for name, move in moves.items():
            found[name].append(measure(move, size, count))
    columns = {name: [statistics.median(r for r, _ in rows), max(r for r, _ in rows), statistics.median(ms for _, ms in rows)]
               for name, rows in found.items()}
    for name, (rate, best, ms) in columns.items():
        peer = columns.get("ib_write_bw", (rate, best, ms))
        print(f"{mib:3} MiB {name:14} {rate:7.0f} MiB/s {rate / peer[0]:5.2f}, best {best:7.0f} {best / peer[1]:5.2f}, "
              f"{ms:5.0f} ms/GiB {ms / peer[2]:5.2f}")
