# SPDX-License-Identifier: MIT
"""Counts with callgrind the instructions per sample, without clock reads and the loop. The work at the end
of a window is included, spread over the samples of the window.

    cost.py COST-PROGRAM
"""
import sys

sys.path.insert(0, sys.path[0] + "/../../test/support")
from callgrind import collected  # noqa: E402

FEW, MANY = 100_000, 200_000
# "closed" records one latency per post and completion, "due" records two.
LIMITS = {"histogram": 22, "record": 30, "closed": 45, "due": 72}


def per_sample(what):
    many, few = (collected(sys.argv[1], what, count)[1] for count in (MANY, FEW))
    return (many - few) / (MANY - FEW)


loop = per_sample("nothing")
failed = False
print(f"{'loop':10} {loop:6.1f}")
for what, limit in LIMITS.items():
    cost = per_sample(what) - loop
    failed |= not 5 < cost <= limit
    print(f"{what:10} {cost:6.1f}, at most {limit}")
sys.exit(failed)
