#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Simulates many random jobs, and compares auto with the best fixed control of each job.

    search.py BENCHKV-SIM [--cells N] [--seed S] [--ranks N] [--windows] [--least F] [--equal F] [--jobs N]

A cell is a machine, 2 to --ranks ranks (64), a depth of 1 to 64, 1 to 46 clients and 1 to 4 daemons, drawn by --seed. The
rivals of auto are none, and hold, budget and threshold with many numbers; with --windows also little and auto:K,B. They
start from the good state. Successive halving finds the best rival. It is then measured again with other seeds, because the best
of many noisy figures is too high. auto is measured with the same seeds from both initial states; its share is the
lower of the two throughputs, divided by the rival's. The second figure of a cell is the lowest throughput of auto
divided by the highest, over both states and all seeds. It is about 1 if auto has one equilibrium. Where this ratio is below .98,
it is measured again after 40 ms, because few calls over long wires settle late. Prints share and ratio of each cell, the
number of cells with shares of .95 or more, the ten cells with the lowest shares, and the three with the lowest ratios. Fails if
a share is below --least, or a ratio below --equal.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import sys
import tempfile

from results import Jobs

MACHINES = {"hdr100": None, "cx7": None,
            "wire x 10": {"wire_ns": 8500},
            "wire 50 us": {"wire_ns": 50000},
            "WRITE / 4": {"send_ns": 150, "recv_ns": 150},
            "WRITE x 3": {"send_ns": 1700, "recv_ns": 1700},
            "loop / 10": {"loop_ns": 46, "cqe_ns": 10, "write_ns": 20},
            "message x 3": {"request_ns": 135, "incoming_ns": 135, "response_ns": 135, "local_ns": 345}}
FIXED = (["none"] + ["hold:%d" % us for us in (1, 2, 5, 10, 20, 50)] +
         ["budget:%d" % 2 ** n for n in range(1, 9)] + ["threshold:8,4", "threshold:16,16", "threshold:64,16"])
WINDOWS = ["little"] + ["auto:%d,%d" % (k, b) for k in (2, 3, 5, 8, 12, 20, 40, 100, 400) for b in (4, 8, 16, 48, 200)]
ROUNDS = [({"warmup": 3, "duration": 1}, 6), ({"warmup": 4, "duration": 3}, 2), ({"warmup": 4, "duration": 8}, 1)]
FRESH = {"warmup": 6, "duration": 6}
LATER = {"warmup": 40, "duration": 40}
FRESH_SEEDS = (101, 102)
INITS = ("high", "low")


def draw_cells(n, seed, ranks):
    """Draws n cells. A size is as likely between 1 and 2 as between 2 and 4, and so on."""
    rng = random.Random(seed)

    def size(low, high):
        return min(high, int(low * ((high + 1) / low) ** rng.random()))

    return [(rng.choice(list(MACHINES)), size(2, ranks), size(1, 64), size(1, 46), rng.randint(1, 4)) for _ in range(n)]


class Search:
    def __init__(self, jobs, folder, rivals):
        self.jobs, self.rivals, self.files = jobs, rivals, {}
        for name, values in MACHINES.items():
            self.files[name] = name
            if values is not None:
                self.files[name] = pathlib.Path(folder, name.replace(" ", "-").replace("/", "by"))
                self.files[name].write_text(json.dumps(values))

    def key(self, cell, control, init, seed, times):
        machine, np, qd, clients, daemons = cell
        return self.jobs.key(np, qd, control, daemons, init, machine=self.files[machine], clients=clients, seed=seed, **times)

    def measure(self, cell, control, init, times):
        """Returns the throughputs with each of FRESH_SEEDS."""
        return [*self.jobs.mops({seed: self.key(cell, control, init, seed, times) for seed in FRESH_SEEDS}).values()]

    def best(self, cell):
        """Returns the name of the best rival, simulated from the good state."""
        left = self.rivals
        for seed, (times, keep) in enumerate(ROUNDS, 1):
            mops = self.jobs.mops({c: self.key(cell, c, "high", seed, times) for c in left})
            left = sorted(left, key=lambda c: -mops[c])[:keep]
        return left[0]

    def equal(self, cell, times):
        """Returns auto's lowest throughput divided by its highest."""
        found = [x for init in INITS for x in self.measure(cell, "auto", init, times)]
        return min(found) / max(found)

    def share(self, cell):
        """Returns auto's share, the ratio of its lowest to its highest throughput, the best rival, and the rival's throughput."""
        rival = self.best(cell)
        top = statistics.mean(self.measure(cell, rival, "high", FRESH))
        low = min(statistics.mean(self.measure(cell, "auto", init, FRESH)) for init in INITS)
        equal = self.equal(cell, FRESH)
        return low / top, equal if equal >= .98 else self.equal(cell, LATER), rival, top


def text_of(cell, share, equal, rival, top):
    return "%.3f  %.3f  %-11s ranks %2d  depth %2d  clients %2d  daemons %d: best %s, %.3g M/s" % (
        share, equal, *cell, rival, top)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("sim")
    p.add_argument("--cells", type=int, default=100)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--ranks", type=int, default=64)
    p.add_argument("--windows", action="store_true")
    p.add_argument("--least", type=float, default=0)
    p.add_argument("--equal", type=float, default=0)
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    o = p.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        search = Search(Jobs(o.sim, o.jobs), folder, FIXED + (WINDOWS if o.windows else []))
        for cell in draw_cells(o.cells, o.seed, o.ranks):
            found.append((*search.share(cell), cell))
            print(text_of(cell, *found[-1][:4]), flush=True)
    found.sort()
    print("\n%d of %d cells at .95 and more; the worst:" % (sum(f[0] >= .95 for f in found), len(found)))
    apart = sorted(found, key=lambda f: f[1])
    for *figures, cell in found[:10]:
        print(text_of(cell, *figures))
    print("farthest apart:")
    for *figures, cell in apart[:3]:
        print(text_of(cell, *figures))
    sys.exit(found[0][0] < o.least or apart[0][1] < o.equal)


if __name__ == "__main__":
    main()
