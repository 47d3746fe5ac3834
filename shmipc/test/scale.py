# SPDX-License-Identifier: MIT
"""Counts the instructions of a round trip in regions of different sizes. Places without a client cost nothing: with
one client connected, the counts for 1, 46 and 1024 places differ by less than a tenth. The cost of a short message
does not grow with the room for long ones."""
import re
import subprocess
import sys
import tempfile

valgrind, program = sys.argv[1:3]
CALLS = 2000 * 9
LONG = 1 << 18  # bytes in the longest message of the second test


def instructions(*args):
    with tempfile.NamedTemporaryFile() as out:
        r = subprocess.run(
            [valgrind, "--tool=callgrind", "--toggle-collect=measure",
             f"--callgrind-out-file={out.name}", program, *map(str, args)],
            capture_output=True, text=True)
    found = re.search(r"Collected\s*:\s*(\d+)", r.stderr)
    if r.returncode or not found:
        raise SystemExit(r.stdout + r.stderr)
    print(f"{args}: {int(found.group(1)) / CALLS:6.1f} instructions per round trip")
    return int(found.group(1))


counts = {places: instructions(places) for places in (1, 46, 1024)}
if min(counts.values()) < 20 * CALLS:
    raise SystemExit("too few instructions: the measured function was not seen")
if max(counts.values()) > 1.1 * counts[1]:
    raise SystemExit("the cost grows with the number of places without a client")
# In rings with room for long messages each message is published alone. The code is different, but the cost does
# not grow with the size.
if instructions(1, LONG) > 3 * counts[1]:
    raise SystemExit("the cost of a short message grows with the room for long ones")
