#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""rdmabench search on engines; the software HCA pauses its link the more the nearer a point is to a corner of the space.

    planted.py RDMABENCH SOFTHCA-RUN

The long form (SOAK) compares annealing with random search over 30 seeds; the short form checks that annealing
reaches the corner if only two of the five relevant properties vary: one point in 13 is there, so noise cannot prevent it.
While engines wait for a core the link is not paused, so a search has more tries than it needs on an idle machine.
"""
import concurrent.futures
import json
import os
import statistics
import sys
import tempfile

from support import run, topology

exe, runner = map(os.path.abspath, sys.argv[1:3])
HANG = 3600  # seconds
SEEDS = 30
TRIES = 400  # at most, per search
AT_ONCE = 4  # searches, each in a fabric of its own; they wait for the link most of the time
TOPOLOGY = "name=mlx5_0 rate_mbps=4000 pauses=75\n"
# In the corner the link is paused for 75 % of the time, elsewhere for less than half of that; in microseconds per second.
RULES = ["--tx-pause", 500000, "--rx-pause", 500000, "--gbps", 0, "--packets", 0]
ONE = ["0.process_num=1", "0.burst=0", "0.requests=1", "1.direction=none", "0.events=0", "0.inline=220", "0.qp_num=4"]


def search(tmp, method, seed, tries, *more, fixed=()):
    fabric = f"rdmabench-planted-{os.getpid()}-{method}-{seed}"
    return json.loads(run(
        runner, "--fabric", fabric, "--topology", devices, "--link", "real", exe, "search", "--json", "-",
        "--log", f"{tmp}/{method}-{seed}", "--method", method, "--seed", seed, "--tries", tries, "-D", ".05",
        *RULES, *more, *(f"--fix={f}" for f in (*ONE, *fixed)), timeout=HANG).stdout)


def tries_of(tmp, method, seed):
    o = search(tmp, method, seed, TRIES, "--anomalies", "1", "--no-features")
    return o["anomalies"][0]["try"] + 1 if o["anomalies"] else TRIES


def climbs(tmp):
    fixed = ["0.tx_depth=256", "0.send_batch=64", "0.qp_type=RC", "0.request0.op=w", "0.bidirectional=0", "0.control=none"]
    o = search(tmp, "anneal", 2, TRIES, "--anomalies", "1", "--no-features", fixed=fixed)
    assert o["failures"] == 0 and len(o["anomalies"]) == 1, o
    found = o["anomalies"][0]
    assert found["anomaly"] == "pauses", o
    traffic = found["point"]["Traffics"][0]
    # Near what the HCA has planted.
    assert traffic["requests"][0]["size"] >= 4096 and traffic["requests"][0]["places"] >= 2, traffic
    return f"after {found['try'] + 1} tries"


def compares(tmp):
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        tries = {m: list(pool.map(lambda seed, m=m: tries_of(tmp, m, seed), range(1, SEEDS + 1))) for m in ("anneal", "random")}
    median = {m: statistics.median(t) for m, t in tries.items()}
    print({m: sorted(t) for m, t in tries.items()})
    assert 2 * median["anneal"] <= median["random"], median
    return f"median tries: {median}"


with tempfile.TemporaryDirectory() as tmp, topology(TOPOLOGY) as devices:
    print((compares if os.environ.get("SOAK") else climbs)(tmp))
print("passed")
