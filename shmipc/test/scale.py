# SPDX-License-Identifier: MIT
"""A client that is not there costs nothing: instructions of the same round trips with
places for 1, 46 and 1024 clients, one connected, differ by less than a tenth."""
import re
import subprocess
import sys
import tempfile

valgrind, program = sys.argv[1:3]
counts = {}
for places in (1, 46, 1024):
    with tempfile.NamedTemporaryFile() as out:
        r = subprocess.run(
            [valgrind, "--tool=callgrind", "--toggle-collect=measure",
             f"--callgrind-out-file={out.name}", program, str(places)],
            capture_output=True, text=True)
    found = re.search(r"Collected\s*:\s*(\d+)", r.stderr)
    if r.returncode or not found:
        raise SystemExit(r.stdout + r.stderr)
    counts[places] = int(found.group(1))

calls = 2000 * 9
for places, n in counts.items():
    print(f"{places:5} places: {n / calls:6.1f} instructions per round trip")
if min(counts.values()) < 20 * calls:
    raise SystemExit("too few instructions: the measured function was not seen")
if max(counts.values()) > 1.1 * counts[1]:
    raise SystemExit("the cost grows with clients that are not there")
