# SPDX-License-Identifier: MIT
"""Counts the instructions of a round trip in regions of different sizes. With one client connected, the counts for 46
and 1024 places exceed that for 1 place by at most a tenth. The count for a short message does not grow with the room
for long ones."""
import sys

sys.path.insert(0, sys.path[0] + "/../../test/support")
from callgrind import collected  # noqa: E402

valgrind, program = sys.argv[1:3]
CALLS = 2000 * 9
LONG = 1 << 18  # bytes in the longest message of the second test


def instructions(*args):
    n = collected(program, *args, flags=["--toggle-collect=measure"], valgrind=valgrind)[1]
    print(f"{args}: {n / CALLS:6.1f} instructions per round trip")
    return n


counts = {places: instructions(places) for places in (1, 46, 1024)}
if min(counts.values()) < 20 * CALLS:
    raise SystemExit("too few instructions: the measured function was not seen")
if max(counts.values()) > 1.1 * counts[1]:
    raise SystemExit("the cost grows with the number of places without a client")
# In rings with room for long messages each message is published alone. This needs more instructions, but their number
# does not depend on the room.
if instructions(1, LONG) > 3 * counts[1]:
    raise SystemExit("the cost of a short message grows with the room for long ones")
