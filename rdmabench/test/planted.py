#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""rdmabench search runs engines and finds anomalies that are planted in the software HCA.

    planted.py corner|conditions RDMABENCH SOFTHCA-RUN CLOCK

Engines and links are in virtual time (CLOCK is preloaded), so neither the machine nor its load matters.

corner: the pauses of the HCA's link are longer if a point is nearer to a corner of the space.
The long form (SOAK) compares annealing with random search over 30 seeds, which takes half an hour: the median of their tries
is 58 for annealing and 112.5 for random search. The short form checks that annealing reaches the corner if two of the
five properties on which the pauses depend (see softhca(7)) are fixed.

conditions: the search finds the exact conditions (on one, two and three parameters) of three anomalies, which a fault rule and the
link model cause. The long form allows less error, and therefore makes more measurements.
"""
import concurrent.futures
import json
import os
import statistics
import sys
import tempfile

from support import run, topology

exe, runner, clock = map(os.path.abspath, sys.argv[2:5])
HANG = 3600  # seconds
SEEDS = 30
TRIES = 400  # at most, per search
AT_ONCE = 2  # searches, each in a fabric of its own
# A batch of 64 large messages takes 6.7 ms, other batches less than 2 ms, and a delayed fetch-and-add half a second. The
# link is paused for 32 % of the time if batch, size and places are the largest, else for at most 27 %.
PLANTED = "name=mlx5_0 link=ib rate_mbps=10000 latency_ns=100000 pauses=90\n"
NEVER, LIMIT = 1000000, 295000  # microseconds of pauses per second
PAUSES = ["--tx-pause", LIMIT, "--rx-pause", LIMIT]
# Pauses between bursts, a rate and waits for a receive are left out: the clock stands still during such waits.
ONE = ["0.process_num=1", "0.bidirectional=0", "1.direction=none", "0.burst=0", "0.rate=0", "0.cq_mod=1", "0.control=none", "0.qp_type=RC",
       "0.requests=1", "0.qp_num=1,4"]


def search(tmp, name, *options, env=None):
    """Searches in virtual time, and returns the report."""
    preload = f'LD_PRELOAD="$LD_PRELOAD:{clock}" exec "$@"'
    return json.loads(run(
        runner, "--fabric", f"rdmabench-planted-{os.getpid()}-{name}", "--topology", devices, "--link", "virtual",
        "sh", "-c", preload, "sh", exe, "search", "--json", "-", "--log", f"{tmp}/{name}", "-D", ".02", "--gbps", 0, "--packets", 0,
        *(f"--fix={f}" for f in ONE), *options, timeout=HANG, env=env).stdout)


def corner(tmp, method, seed, *fixed):
    return search(tmp, f"{method}-{seed}", "--method", method, "--seed", seed, "--tries", TRIES, *PAUSES, "--anomalies", 1, "--no-features",
                  "--fix=0.events=0", "--fix=0.inline=220", "--fix=0.request0.op=w,r,a", *(f"--fix={f}" for f in fixed))


def tries_of(tmp, method, seed):
    o = corner(tmp, method, seed)
    return o["anomalies"][0]["try"] + 1 if o["anomalies"] else TRIES


def climbs(tmp):
    o = corner(tmp, "anneal", 2, "0.tx_depth=256", "0.send_batch=64", "0.request0.op=w")
    assert o["failures"] == 0 and len(o["anomalies"]) == 1, o
    found = o["anomalies"][0]
    assert found["anomaly"] == "pauses", o
    traffic = found["point"]["Traffics"][0]
    # The point is near the planted corner.
    assert traffic["requests"][0]["size"] >= 4096 and traffic["requests"][0]["places"] >= 2, traffic
    return f"after {found['try'] + 1} tries"


def compares(tmp):
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        tries = {m: list(pool.map(lambda seed, m=m: tries_of(tmp, m, seed), range(1, SEEDS + 1))) for m in ("anneal", "random")}
    median = {m: statistics.median(t) for m, t in tries.items()}
    print({m: sorted(t) for m, t in tries.items()})
    assert 4 * median["anneal"] <= 3 * median["random"], median
    return f"median tries: {median}"


DELAY = "opcode=fetch_add count=0 action=delay delay_ns=500000000"
SPACE = """# With the values of ONE.
0.tx_depth = 64, 256
0.send_batch = 1, 64
0.request0.op = w, r, a
0.request0.size = 32, 64, 131072
0.request0.places = 1, 4
"""


def conditions_of(tmp, name, rules, anomalies, most):
    """Returns the kinds and conditions that a search finds in at most so many measurements."""
    o = search(tmp, name, "--space", f"{tmp}/space", *rules, "--tries", 200, "--anomalies", anomalies, "--measurements", most,
               "--error", ".01" if soak else ".25", env={"SOFTHCA_FAULTS": DELAY})
    print(f"{name}: {o['measurements']} measurements")
    assert o["failures"] == 0 and all(a["whole"] for a in o["anomalies"]), o
    return {(a["anomaly"], json.dumps(a["features"])) for a in o["anomalies"]}


def conditions(tmp):
    with open(f"{tmp}/space", "w") as f:
        f.write(SPACE)
    found = conditions_of(tmp, "latency", ["--p99-us", 4000, "--tx-pause", NEVER, "--rx-pause", NEVER], 2, 700 if soak else 150)
    assert found == {("latency", '{"0.request0.op": ["a"]}'),
                     ("latency", '{"0.send_batch": ["64"], "0.request0.size": ["131072"]}')}, found
    found = conditions_of(tmp, "pauses", PAUSES, 1, 700 if soak else 150)
    assert found == {("pauses", '{"0.send_batch": ["64"], "0.request0.size": ["131072"], "0.request0.places": ["4"]}')}, found
    return "found"


soak = bool(os.environ.get("SOAK"))
case = {"conditions": conditions, "corner": compares if soak else climbs}[sys.argv[1]]
with tempfile.TemporaryDirectory() as tmp, topology(PLANTED) as devices:
    print(case(tmp))
print("passed")
