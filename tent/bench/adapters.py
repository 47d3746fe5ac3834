#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures in turn: tent's writes over one adapter, tent's writes over four adapters, and perftest's ib_write_bw over one. All
adapters are those of the software HCA.

    adapters.py SOFTHCA-RUN TENTBENCH [--rounds N] [--size N,...] [--mbps N]

One write is in flight at a time. Prints the median GB/s of the rounds, and the medians of the rounds' ratios. With few cores
the processes limit the rate, and not the adapters: --mbps gives each adapter a slow link, and then the ratio of four adapters
to one shows whether the rates of the rails add up.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../test/support"))
from ports import free_port  # noqa: E402

# Both processes run on one fabric. The client tries until the server listens.
BOTH = """ib_write_bw -F -d mlx5_0 -p $0 -s $1 -n $2 -t 1 >/dev/null &
for i in $(seq 100); do
    o=$(ib_write_bw -F -d mlx5_0 -p $0 -s $1 -n $2 -t 1 localhost 2>/dev/null) && break
    sleep .05
done
wait
echo "$o"
"""

parser = argparse.ArgumentParser(usage=__doc__)
parser.add_argument("run")
parser.add_argument("tentbench")
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--size", type=lambda text: [int(n) for n in text.split(",")], default=[1 << 20, 8 << 20])
parser.add_argument("--mbps", type=int, default=0)
o = parser.parse_args()


def run(rails, *command):
    with tempfile.NamedTemporaryFile("w", suffix=".topology") as topology:
        for i in range(rails):
            rate = f" rate_mbps={o.mbps} latency_ns=5000" if o.mbps else ""
            topology.write(f"name=mlx5_{i} link=ib{rate}\n")
        topology.flush()
        args = [o.run, "--fabric", f"tent-adapters-{os.getpid()}", "--topology", topology.name]
        args += ["--link", "real"] if o.mbps else []
        r = subprocess.run(args + [str(c) for c in command], capture_output=True, text=True, timeout=300)
    if r.returncode:
        sys.exit(f"{command}: status {r.returncode}\n{r.stdout}{r.stderr}")
    return r.stdout


def tent(rails, size):
    """Returns GB/s, and the number of writes in about a second."""
    row = json.loads(run(rails, o.tentbench, "client", "--fork", "--size", size, "--json", "-"))
    return row["gb_per_s"], round(row["gb_per_s"] * 1e9 / size) + 5


def ib_write_bw(size, count):
    """Returns GB/s."""
    for _ in range(5):  # ib_write_bw prints no row if it could not measure the frequency of the CPU's counter
        out = run(1, "sh", "-c", BOTH, free_port(), size, count)
        rows = [line.split() for line in out.splitlines() if line.split()[:1] == [str(size)]]
        if rows:
            return float(rows[0][3]) * 2**20 / 1e9
    sys.exit(f"ib_write_bw printed no result:\n{out}")


peer = shutil.which("ib_write_bw")
for size in o.size:
    rounds = []
    for _ in range(o.rounds):
        one, count = tent(1, size)
        four, _ = tent(4, size)
        rounds.append((one, four, ib_write_bw(size, count) if peer else float("nan")))
    one, four, theirs = (statistics.median(column) for column in zip(*rounds))
    print(f"{size} B: one adapter {one:.3f} GB/s, four {four:.3f}, ib_write_bw {theirs:.3f}; four / one "
          f"{statistics.median(f / n for n, f, _ in rounds):.2f}, one / ib_write_bw "
          f"{statistics.median(n / t for n, _, t in rounds):.2f}", flush=True)
