# SPDX-License-Identifier: MIT
"""The numbers of instructions of an empty poll of a client, and of a round trip, with a resp_depth of 16,
256 and 4096 differ by at most a tenth.

    scale.py VALGRIND SCALE
"""
import sys

sys.path.insert(0, sys.path[0] + "/../../test/support")
from callgrind import collected  # noqa: E402

valgrind, program = sys.argv[1:3]
ROUNDS, CALLS = 2000, 8
DEPTHS = (16, 256, 4096)


def instructions(what, depth):
    return collected(program, what, depth, flags=["--toggle-collect=measure"], valgrind=valgrind)[1]


failed = False
for what, unit, per in (("empty", "empty poll", ROUNDS), ("calls", "round trip", ROUNDS * CALLS)):
    counts = [instructions(what, depth) / per for depth in DEPTHS]
    for depth, n in zip(DEPTHS, counts):
        print(f"resp_depth {depth:5}: {n:6.1f} instructions per {unit}")
    if min(counts) < 10:
        raise SystemExit("too few instructions: the measured function was not seen")
    failed |= max(counts) > 1.1 * min(counts)
if failed:
    raise SystemExit("the cost grows with resp_depth")
