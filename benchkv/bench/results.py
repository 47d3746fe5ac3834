#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes benchkv/RESULTS.md: a comparison of the backends, as ratios within one run.

    results.py SOFTHCA-RUN BENCHKV [OUT]

For each cell the backends run in turn, several times. The result of each is divided by that of
delegation in the same turn. The table shows the median of these ratios, the smallest and the
largest.
"""
import json
import os
import statistics
import subprocess
import sys

ROUNDS = 5
SECONDS = "0.3"
CLIENTS = 2
VARIANTS = {
    "delegation": ["delegation"],
    "delegation, 2 daemons share": ["delegation", "--daemons", "2", "--net-daemons", "2"],
    "meta": ["meta"],
    "meta, 2 daemons": ["meta", "--daemons", "2"],
    "direct": ["direct"],
    "ucx": ["ucx"],
    "delegation, `--wait event`": ["delegation", "--wait", "event"],
}
CELLS = [(1, 4), (2, 1), (2, 32), (4, 4)]  # ranks, depth
LATENCY_OF = (2, 1)
# The comparison that was published with the design: both with two daemons and four clients per rank.
PAIR = {"delegation": ["delegation", "--daemons", "2"], "meta": ["meta", "--daemons", "2", "--net-daemons", "1"]}
PAIR_CLIENTS = 4
PAIR_DEPTH = 4
PUBLISHED = {1: 21.0 / 25.2, 2: 4.76 / 3.37}  # by ranks: delegation / meta
PERCENTILES = {"p50": "50 %", "p99": "99 %", "p999": "99.9 %"}
RUNNER, BENCHKV = sys.argv[1:3]
OUT = sys.argv[3] if len(sys.argv) > 3 else os.path.join(os.path.dirname(__file__), "../RESULTS.md")
TEXT = """# Results

`ninja -C build benchkv-results` wrote this file in {minutes:.0f} minutes, on the software HCA and {cpus} cores. The load average was {load} (before
and after). The largest jobs with one daemon per rank have {threads} threads. Other programs on the machine caused the wide ranges.

The figures compare paths of a request through the same software on the same cores: a backend is ahead if it needs less CPU time
and fewer switches between threads. At depth 32 batching backends ring fewer doorbells, each a trap into the software HCA.
The figures do **not** compare the backends on a network. There, ranks do not share cores, and a WRITE takes the time of an adapter
instead of a CPU; see the [simulator's results](sim/RESULTS.md). With one rank, all backends with one daemon run the same code, so
the first column shows the noise of the measurement.

## Operations per second

In each of {rounds} turns every variant runs once for {seconds} s. Its result is divided by that of `delegation` in the same turn; the table shows the
median of these ratios (least to largest). {clients} clients per rank, one daemon per rank unless the row says otherwise. In the row *2 daemons share*
both daemons own endpoints.

{rates}
## Latency of gets from another rank

{ranks} ranks, depth {depth}, {threads_of_it} threads ({two_daemons} with 2 daemons) on {cpus} cores, so the upper quantiles show how long the scheduler lets other
threads run. Each quantile is divided by the median of `delegation` in the same turn; the table shows the median of these ratios
(least to largest) of the {rounds} turns.

{latencies}
## The published comparison

Throughput of `delegation` divided by that of `meta`, with {pair_clients} clients and 2 daemons per rank at depth {pair_depth}: median (least to largest) of {rounds} turns,
{pair_threads} threads on {cpus} cores. With one rank both backends run the same code. With two ranks, a request reaches the daemon with the
endpoints directly in `delegation`, and often through another daemon in `meta`. The publication gives this as the reason for the gain.

{pair}"""


def run(np, depth, backend, clients):
    argv = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(np), BENCHKV,
            *backend, "--clients", str(clients), "--queue-depth", str(depth), "--warmup", "0.1",
            "--duration", SECONDS, "--json", "-"]
    env = dict(os.environ, PATH=os.environ["PATH"] + ":" + os.path.dirname(RUNNER))
    r = subprocess.run(argv, env=env, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=300)
    j = json.loads(r.stdout)
    assert j["verified"] == j["ops"] and not j["errors"]
    return j


def turns(np, depth, variants, clients):
    """Runs all variants ROUNDS times. Returns a list of dictionaries: each variant's report by its name."""
    print(f"{np} ranks, {clients} clients, depth {depth}", file=sys.stderr)
    found = []
    for turn in range(ROUNDS):
        order = list(variants)
        order = order[turn % len(order):] + order[:turn % len(order)]
        found.append({v: run(np, depth, variants[v], clients) for v in order})
    return found


def spread(values):
    return "%.3g (%.3g to %.3g)" % (statistics.median(values), min(values), max(values))


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return "\n".join(lines + ["| " + " | ".join(r) + " |" for r in rows]) + "\n"


def rates(cells):
    rows = [[v] + [spread([t[v]["ops_per_s"] / t["delegation"]["ops_per_s"] for t in c]) for c in cells.values()]
            for v in list(VARIANTS)[1:]]
    own = [statistics.median(t["delegation"]["ops_per_s"] for t in c) for c in cells.values()]
    rows.append(["`delegation`, thousand operations per second"] + [f"{x / 1e3:.1f}" for x in own])
    return table([""] + [f"{np} rank{'s' * (np > 1)}, depth {d}" for np, d in cells], rows)


def latencies(found):
    def quantile(turn, v, p):
        return turn[v]["latencies_ns"]["remote_get"][p]

    rows = [[v] + [spread([quantile(t, v, p) / quantile(t, "delegation", "p50") for t in found]) for p in PERCENTILES]
            for v in VARIANTS]
    own = statistics.median(quantile(t, "delegation", "p50") for t in found)
    rows.append(["`delegation`, median in us", f"{own / 1e3:.1f}"] + [""] * (len(PERCENTILES) - 1))
    return table([""] + list(PERCENTILES.values()), rows)


def pair():
    cells = {np: turns(np, PAIR_DEPTH, PAIR, PAIR_CLIENTS) for np in PUBLISHED}
    here = [spread([t["delegation"]["ops_per_s"] / t["meta"]["ops_per_s"] for t in c]) for c in cells.values()]
    return table(["delegation / meta"] + [f"{np} rank{'s' * (np > 1)}" for np in cells],
                 [["published"] + [f"{r:.2f}" for r in PUBLISHED.values()], ["here"] + here])


def main():
    before = os.getloadavg()[0]
    start = os.times().elapsed
    cells = {c: turns(*c, VARIANTS, CLIENTS) for c in CELLS}
    pair_table = pair()
    text = TEXT.format(minutes=(os.times().elapsed - start) / 60, cpus=os.cpu_count(),
                       load=f"{before:.1f} and {os.getloadavg()[0]:.1f}", rounds=ROUNDS, seconds=SECONDS, clients=CLIENTS,
                       rates=rates(cells), threads=CELLS[-1][0] * (CLIENTS + 1), threads_of_it=LATENCY_OF[0] * (CLIENTS + 1),
                       two_daemons=LATENCY_OF[0] * (CLIENTS + 2), ranks=LATENCY_OF[0], depth=LATENCY_OF[1],
                       latencies=latencies(cells[LATENCY_OF]), pair=pair_table, pair_clients=PAIR_CLIENTS,
                       pair_depth=PAIR_DEPTH, pair_threads=2 * (2 + PAIR_CLIENTS))
    with open(OUT, "w") as f:
        f.write(text)


main()
