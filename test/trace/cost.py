# SPDX-License-Identifier: MIT
"""Measures the cost of a trace point that is not traced: one nop, and its effect on the code around it.

	cost.py SOFTHCA-RUN ROUNDS-TRACED ROUNDS-UNTRACED COPYRPC-TRACED COPYRPC-UNTRACED

Runs the same programs with and without trace points, and counts instructions with callgrind. Where a trace point needs
values, the compiler uses other registers and another order of instructions. So the difference between the counts is not
exactly the number of nops. It may be at most MOST instructions for each trace point that is executed. The program with
trace points may also execute fewer instructions, by at most one in a hundred.

The same runs show the cost of the records for `shmls --live`: the instructions of base/live.h and live.c, inlined or
not, are at most one in a hundred of a round.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

MOST = 3
ROUNDS = 400
# Functions that execute more instructions when much time has passed, as under valgrind. Theirs are not counted.
BY_CLOCK = ("ctx_look", "clock_ns", "poll_rest", "copyrpc_poll_recv.cold", "delegrpc_priv_server_busy")
hca, rounds, copyrpc = sys.argv[1], sys.argv[2:4], sys.argv[4:6]

# Layer, depth, and the number of trace points that a round executes.
CASES = [("flux", 32, 8), ("shmipc", 32, 8), ("delegrpc", 32, 8), ("copyrpc", 1, 4),
         ("copyrpc", 32, 4)]
if os.environ.get("SOAK") == "1":
    CASES += [("flux", 1, 2), ("shmipc", 1, 2), ("delegrpc", 1, 2)]


def counted(command, env):
    """Returns the number of instructions in the program itself, without libraries, and how many of them are of the live
    records (for `shmls --live`)."""
    with tempfile.TemporaryDirectory() as tmp:
        out = pathlib.Path(tmp) / "out"
        at = next(i for i, word in enumerate(command) if word in rounds + copyrpc)
        tool = ["valgrind", "--tool=callgrind", "--compress-strings=no", "--compress-pos=no",
                f"--callgrind-out-file={out}"]
        subprocess.run(command[:at] + tool + command[at:], env=env, check=True, capture_output=True)
        total, live, ours, function, file, called = 0, 0, False, "", "", False
        for line in out.read_text().splitlines():
            if line.startswith("ob="):
                ours = os.path.realpath(line[3:]) == os.path.realpath(command[at])
            elif line.startswith("fn="):
                function = line[3:].split("'")[0]
            elif line.startswith(("fl=", "fi=", "fe=")):
                file = line[3:]  # fi= begins code inlined from this file, fe= ends inlined code
            elif line.startswith("calls="):
                called = True  # the next line has the cost of the callee
            elif re.match(r"\d+ \d+$", line):
                if ours and not called and function not in BY_CLOCK:
                    total += int(line.split()[1])
                    live += int(line.split()[1]) * file.endswith(("/base/live.h", "/base/src/live.c"))
                called = False
        return total, live


def per_round(layer, depth, which, fewest):
    """Returns the instructions per round, without those of the program's start, and how many of them are of live
    records. Extra reads of the clock only add instructions, so @fewest keeps the least count of several runs."""
    env = dict(os.environ, SOFTHCA_MODE="step")

    def run(n):
        if layer == "copyrpc":
            command = [hca, "--fabric", f"trace-cost-{os.getpid()}", copyrpc[which], "1", "16384", "0",
                       str(depth), str(n)]
        else:
            command = [rounds[which], layer, str(depth), str(n)]
        fewest[which, n] = min(counted(command, env), fewest.get((which, n), (sys.maxsize, 0)))
        return fewest[which, n]

    (more, more_live), (less, less_live) = run(2 * ROUNDS), run(ROUNDS)
    if not less_live:
        sys.exit(f"{layer}: no instruction of base/live.h was counted")
    return (more - less) / ROUNDS, (more_live - less_live) / ROUNDS


failed = False
for layer, depth, passed in CASES:
    fewest = {}
    for attempt in range(5):
        (traced, live), (untraced, _) = (per_round(layer, depth, which, fewest) for which in (0, 1))
        difference = traced - untraced
        right = untraced > 100 * depth and -untraced / 100 <= difference <= MOST * passed
        if right:
            break
    print(f"{layer:8} depth {depth:2}: {untraced:8.1f} instructions a round, {difference:+6.1f} with {passed} trace points, "
          f"{live:.1f} of live records")
    failed |= not right or live > traced / 100
sys.exit(failed)
