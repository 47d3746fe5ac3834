#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts with callgrind the instructions per call and reply in libcopyrpc and libmlx5dv-lite.

    cost.py [--check] SOFTHCA-RUN COST-PROGRAM [ENDPOINTS]

The HCA runs in step mode, because traps do not work under valgrind. --check fails if a round trip
takes more instructions than LIMITS allows; or over 5 % more with ENDPOINTS - 1 (default 1,023) idle
endpoints or with 1,023 other pending calls; or over 25 % more when all endpoints are used in turn,
because each is then used too rarely for the fastest path. The program stops the clock, so that no
timed action is due. The functions that read the clock are printed, but not counted, because how
often they run depends on the CPU's counter.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

LIMITS = {"depth 32": 300, "depth 1": 700}  # instructions per round trip
BY_CLOCK = ("poll_rest", "copyrpc_poll_recv.cold", "ctx_look", "clock_ns")
CALLS = 2720  # per phase
LIBRARIES = ("libcopyrpc", "libmlx5dv-lite")


def costs(dump):
    """Returns the instructions per round trip by library and function, without called functions."""
    cost, library, function, called = {}, "", "", False
    for line in dump.read_text().splitlines():
        if line.startswith("ob="):
            library = os.path.basename(line[3:])
        elif line.startswith("fn="):
            function = line[3:].split("'")[0]
        elif line.startswith("calls="):
            called = True  # the next line is the cost of the callee
        elif re.match(r"\d+ \d+$", line):
            if not called and library.startswith(LIBRARIES):
                key = (library.split(".")[0], function)
                cost[key] = cost.get(key, 0) + int(line.split()[1]) / CALLS
            called = False
    return cost


def count(run, program, *args):
    """Returns costs() for each phase."""
    with tempfile.TemporaryDirectory() as tmp:
        out = pathlib.Path(tmp) / "out"
        cmd = [run, "--fabric", f"copyrpc-cost-{os.getpid()}", "valgrind", "--tool=callgrind", "--compress-strings=no",
               "--compress-pos=no", "--instr-atstart=no", f"--callgrind-out-file={out}", program, *map(str, args)]
        r = subprocess.run(cmd, env=dict(os.environ, SOFTHCA_MODE="step"), capture_output=True, text=True, timeout=300)
        if r.returncode:
            sys.exit(f"{' '.join(cmd)}: status {r.returncode}\n{r.stdout}{r.stderr}")
        return {phase: costs(out.with_suffix(f".{i}")) for i, phase in enumerate(r.stdout.splitlines(), 1)}


def total(cost):
    return sum(n for (library, function), n in cost.items() if function not in BY_CLOCK)


args = [a for a in sys.argv[1:] if a != "--check"]
if len(args) not in (2, 3):
    sys.exit(__doc__)
args, endpoints = args[:2], int((args[2:] or [1024])[0])
usual = count(*args, 1, 1 << 20, 1023)  # default rings
one, many = (count(*args, n, 16384, 0) for n in (1, endpoints))  # small rings, so that the memory suffices
for phase, limit in LIMITS.items():
    for (library, function), n in sorted(usual[phase].items(), key=lambda i: -i[1]):
        if n >= 0.5:
            print(f"{library:18} {function:36} {n:7.1f}")
    print(f"{phase}: {total(usual[phase]):.1f} instructions per round trip")
    if "--check" in sys.argv and not 0 < total(usual[phase]) <= limit:
        sys.exit(f"more than {limit}")
for what, less, more, factor in ((f"depth 32, {endpoints - 1:,} idle endpoints", one["depth 32"], many["depth 32"], 1.05),
                                 (f"depth 1, {endpoints - 1:,} idle endpoints", one["depth 1"], many["depth 1"], 1.05),
                                 (f"depth 1, {endpoints:,} endpoints in turn", one["in turn"], many["in turn"], 1.25),
                                 ("depth 1, 1,023 calls pending", usual["depth 1"], usual["pending"], 1.05)):
    print(f"{what}: {total(more):.1f} instructions per round trip, {total(less):.1f} without")
    if "--check" in sys.argv and total(more) > total(less) * factor:
        sys.exit(f"more than {factor} times as many")
