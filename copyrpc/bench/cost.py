#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Instructions per call and reply, counted by callgrind in libcopyrpc and libmlx5dv-lite.

    cost.py [--check] SOFTHCA-RUN COST-PROGRAM

Two runs that differ in the number of rounds only: the difference is free of everything
that is done once. The HCA is stepped by hand, as a trap does not go through valgrind.
--check fails when a round trip takes more instructions than LIMITS says for a depth, or when
1,023 idle endpoints make it more than 5 % more expensive. The program stops the clock, so that no
action falls due by time; the looks at the stopped clock, which follow the CPU's counter, are printed only.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

LIMITS = {32: 300, 1: 700}  # instructions per round trip, by calls per flush
BY_CLOCK = ("poll_rest", "copyrpc_poll_recv.cold", "ctx_look", "clock_ns")
CALLS = 1280
LIBRARIES = ("libcopyrpc", "libmlx5dv-lite")


def count(run, program, endpoints, depth, rounds):
    """Instructions by library and function, what they call not included."""
    with tempfile.TemporaryDirectory() as tmp:
        out = pathlib.Path(tmp) / "out"
        env = dict(os.environ, SOFTHCA_MODE="step")
        cmd = [run, "--fabric", f"copyrpc-cost-{os.getpid()}", "valgrind", "--tool=callgrind", "--compress-strings=no", "--compress-pos=no",
               f"--callgrind-out-file={out}", program, str(endpoints), str(depth), str(rounds)]
        r = subprocess.run(cmd, env=env, capture_output=True, text=True, timeout=300)
        if r.returncode:
            sys.exit(f"{' '.join(cmd)}: status {r.returncode}\n{r.stdout}{r.stderr}")
        cost, library, function, called = {}, "", "", False
        for line in out.read_text().splitlines():
            if line.startswith("ob="):
                library = os.path.basename(line[3:])
            elif line.startswith("fn="):
                function = line[3:].split("'")[0]
            elif line.startswith("calls="):
                called = True  # the next line is what the callee cost
            elif re.match(r"\d+ \d+$", line):
                if not called and library.startswith(LIBRARIES):
                    key = (library.split(".")[0], function)
                    cost[key] = cost.get(key, 0) + int(line.split()[1])
                called = False
        return cost


args = [a for a in sys.argv[1:] if a != "--check"]
if len(args) != 2:
    sys.exit(__doc__)


def per_call(endpoints, depth):
    """The same for one round trip, without what is done once."""
    few, many = (count(*args, endpoints, depth, n * CALLS // depth) for n in (1, 2))
    return {k: (v - few.get(k, 0)) / CALLS for k, v in many.items()}


for depth, limit in LIMITS.items():
    total = {}
    for endpoints in (1, 1024):
        each = per_call(endpoints, depth)
        total[endpoints] = sum(n for (library, function), n in each.items() if function not in BY_CLOCK)
        if endpoints == 1:
            for (library, function), n in sorted(each.items(), key=lambda i: -i[1]):
                if n >= 0.5:
                    print(f"{library:16} {function:36} {n:7.1f}")
        print(f"depth {depth:2}, {endpoints:4} endpoints: {total[endpoints]:.1f} instructions per round trip")
    if "--check" in sys.argv:
        if not 0 < total[1] <= limit:
            sys.exit(f"more than {limit}")
        if max(total.values()) > total[1] * 1.05:
            sys.exit("idle endpoints cost something")
