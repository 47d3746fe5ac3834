# SPDX-License-Identifier: MIT
"""The cost of an empty poll of a client, or of a round trip, does not depend on resp_depth: the numbers
of instructions with 16, 256 and 4096 calls in flight per client differ by less than a tenth.

    scale.py VALGRIND SCALE
"""
import re
import subprocess
import sys
import tempfile

valgrind, program = sys.argv[1:3]
ROUNDS, CALLS = 2000, 8
DEPTHS = (16, 256, 4096)


def instructions(what, depth):
    with tempfile.NamedTemporaryFile() as out:
        r = subprocess.run(
            [valgrind, "--tool=callgrind", "--toggle-collect=measure",
             f"--callgrind-out-file={out.name}", program, what, str(depth)],
            capture_output=True, text=True)
    found = re.search(r"Collected\s*:\s*(\d+)", r.stderr)
    if r.returncode or not found:
        raise SystemExit(r.stdout + r.stderr)
    return int(found.group(1))


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
