# SPDX-License-Identifier: MIT
"""Counts with callgrind how many instructions one sample costs, without clock reads and the loop. The work
at the end of a window is included, spread over the samples of the window.

    cost.py COST-PROGRAM
"""
import re
import subprocess
import sys

FEW, MANY = 100_000, 200_000
# "closed" records one latency per post and completion, "due" records two.
LIMITS = {"histogram": 22, "record": 30, "closed": 45, "due": 72}


def instructions(what, count):
    cmd = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.argv[1], what, count]
    r = subprocess.run([str(c) for c in cmd], capture_output=True, text=True, check=True)
    return int(re.search(r"Collected : (\d+)", r.stderr).group(1))


def per_sample(what):
    return (instructions(what, MANY) - instructions(what, FEW)) / (MANY - FEW)


loop = per_sample("nothing")
failed = False
print(f"{'loop':10} {loop:6.1f}")
for what, limit in LIMITS.items():
    cost = per_sample(what) - loop
    failed |= not 5 < cost <= limit
    print(f"{what:10} {cost:6.1f}, at most {limit}")
sys.exit(failed)
