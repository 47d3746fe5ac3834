#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes benchkv/RESULTS.md: the backends beside each other, as ratios of one run.

    results.py SOFTHCA-RUN BENCHKV [OUT]

For each cell the backends take turns, several times, and each is divided by what delegation
did in the same turn; the median of these ratios stands in the table, with the least and the
largest.
"""
import json
import os
import statistics
import subprocess
import sys

ROUNDS = 5
SECONDS = "0.3"
VARIANTS = {
    "delegation": ["delegation"],
    "delegation, 2 daemons share": ["delegation", "--daemons", "2", "--net-daemons", "2"],
    "meta": ["meta"],
    "meta, 2 daemons": ["meta", "--daemons", "2"],
    "direct": ["direct"],
    "ucx": ["ucx"],
}
CELLS = [(1, 4), (2, 1), (2, 4), (2, 32), (4, 4)]  # ranks, depth
RUNNER, BENCHKV = sys.argv[1:3]
OUT = sys.argv[3] if len(sys.argv) > 3 else os.path.join(os.path.dirname(__file__), "../RESULTS.md")
HEAD = """# Results

Made by `benchkv/bench/results.py` on the software HCA: the ranks of a job share one machine's cores, and the adapter
is software of the same cores. The figures compare ways through the same software; they say nothing about a network.

Operations per second as a ratio to `delegation` in the same turn: median (least to largest) of {rounds} turns of {seconds} s, {clients}
clients per rank, {cpus} cores, one daemon per rank unless said otherwise. What `delegation` did is in the last row.

"""


def rate(np, depth, variant):
    argv = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(np), BENCHKV,
            *VARIANTS[variant], "--clients", "2", "--queue-depth", str(depth), "--warmup", "0.1",
            "--duration", SECONDS, "--json", "-"]
    env = dict(os.environ, PATH=os.environ["PATH"] + ":" + os.path.dirname(RUNNER))
    r = subprocess.run(argv, env=env, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    j = json.loads(r.stdout)
    assert j["verified"] == j["ops"] and not j["errors"]
    return j["ops_per_s"]


def cell(np, depth):
    """By variant: the ratios of all turns; and what delegation did."""
    ratios, own = {v: [] for v in VARIANTS}, []
    for turn in range(ROUNDS):
        order = list(VARIANTS)
        order = order[turn % len(order):] + order[:turn % len(order)]
        found = {v: rate(np, depth, v) for v in order}
        own.append(found["delegation"])
        for v in VARIANTS:
            ratios[v].append(found[v] / found["delegation"])
    return ratios, statistics.median(own)


def main():
    cells = {}
    for c in CELLS:
        cells[c] = cell(*c)
        print(f"{c[0]} ranks, depth {c[1]}", file=sys.stderr)
    with open(OUT, "w") as f:
        f.write(HEAD.format(rounds=ROUNDS, seconds=SECONDS, clients=2, cpus=os.cpu_count()))
        f.write("| | " + " | ".join(f"{np} rank{'s' * (np > 1)}, depth {d}" for np, d in CELLS) + " |\n")
        f.write("|---" * (len(CELLS) + 1) + "|\n")
        for v in list(VARIANTS)[1:]:
            texts = [f"{statistics.median(r[v]):.2f} ({min(r[v]):.2f} to {max(r[v]):.2f})"
                     for r, _ in cells.values()]
            f.write(f"| {v} | " + " | ".join(texts) + " |\n")
        f.write("| `delegation`, thousand operations per second | " + " | ".join(
            f"{own / 1e3:.0f}" for _, own in cells.values()) + " |\n")


main()
