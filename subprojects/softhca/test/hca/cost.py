# SPDX-License-Identifier: MIT
"""Counts with callgrind the instructions per message in the adapter.

    cost.py [--check] COST-PROGRAM LIBSOFTHCA

A message moves 64 bytes between two QPs of one process. In poll mode the work of the polling thread for a QP that has
been rung is counted (engine_serve_qp()), in step mode a whole call of softhca_step(): the timers, the pass that finds
the QP, and a pass that finds nothing. --check fails if a message takes more than its limit. Without --check the program
also prints the times of a trap (store, signal, return), of messages in trap and poll mode, and of registrations, and
the cost of handing over a WQE to the polling thread, which mode auto compares with a trap (src/sched/choose.h).

A whole pass of the polling thread, without its work for a queue that was rung, must cost the same with and without idle
queues.

A message under the fabric's mutex must cost the same whether 60 contexts are open and have sent messages, or two.

A registration (cmd_reg_mr()) must cost the same after many others.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

COUNT, REGIONS = 256, 64  # messages of each kind, and regions of a phase, in the program
LIST = 16  # as in the program
MANY = 100_000
SAME = 1.3
ALIKE = 0.03  # allowed difference of costs, as a part of the cost of an atomic
KINDS = ["WRITE", "WRITE_IMM, receive and both CQEs", "SEND, receive and both CQEs"]
LIMITS = {("poll", "engine_serve_qp"): [1800, 2500, 2600], ("step", "softhca_step"): [3040, 3710, 3810]}


def run(command, mode, library):
    env = dict(os.environ, SOFTHCA_MODE=mode, SOFTHCA_IDLE="never", SOFTHCA_STRICT="0", LD_PRELOAD=library)
    r = subprocess.run(command, env=env, capture_output=True, text=True)
    if r.returncode:
        sys.exit(f"{' '.join(command)}: status {r.returncode}\n{r.stdout}{r.stderr}")
    return r.stdout


def totals(mode, function, part, phases):
    """Returns the instructions in the function and in registrations, by phase of a part of the program."""
    with tempfile.TemporaryDirectory() as tmp:
        out = pathlib.Path(tmp) / "out"
        run(["valgrind", "--tool=callgrind", f"--toggle-collect={function}", "--toggle-collect=cmd_reg_mr",
             "--dump-after=phase_*", f"--callgrind-out-file={out}", args[0], part], mode, args[1])
        dumps = [out.with_suffix(f".{i + 1}").read_text() for i in range(phases)]
        return [int(re.search(r"^totals: (\d+)", text, re.M)[1]) for text in dumps]


def passes():
    """Yields the instructions of a pass of the polling thread, by phase of the program."""
    with tempfile.TemporaryDirectory() as tmp:
        out = pathlib.Path(tmp) / "out"
        run(["valgrind", "--tool=callgrind", "--dump-after=phase_*", "--compress-strings=no", "--compress-pos=no",
             f"--callgrind-out-file={out}", args[0], "pass"], "poll", args[1])
        for text in [out.with_suffix(f".{i + 1}").read_text() for i in range(2)]:
            calls = re.findall(r"^cfn=engine_(\w+)\ncalls=(\d+) .*\n\S+ (\d+)$", text, re.M)
            cost = sum(int(n) if f == "pass" else -int(n) for f, _, n in calls)
            yield cost / sum(int(n) for f, n, _ in calls if f == "pass")


args = [a for a in sys.argv[1:] if a != "--check"]
check = len(args) < len(sys.argv) - 1
failed = False
for (mode, function), limits in LIMITS.items():
    *messages, first, _, last = totals(mode, function, "count", len(KINDS) + 3)
    for kind, total, limit in zip(KINDS, messages, limits):
        print(f"{mode}: {kind}: {total / COUNT:.0f} instructions, at most {limit}")
        failed |= not 300 < total / COUNT <= limit
    print(f"{mode}: registrations: {first / REGIONS:.0f} instructions, after many others {last / REGIONS:.0f}")
    failed |= not 100 < first / REGIONS or last > first * SAME
atomic, long, _, *crowd = totals("poll", "engine_serve_qp", "crowd", 5)
for kind, alone, crowded in zip(["FETCH_ADD", "long WRITE"], [atomic, long], crowd):
    print(f"poll: {kind} under the mutex: {alone / COUNT:.0f} instructions, beside 60 contexts {crowded / COUNT:.0f}")
    failed |= not 300 < crowded / COUNT <= (alone + ALIKE * atomic) / COUNT
alone, crowded = passes()
print(f"poll: a pass: {alone:.0f} instructions, beside idle queues {crowded:.0f}")
failed |= not 20 < crowded <= alone * SAME
if check:
    sys.exit(failed)
more = {}  # ns for each additional WQE in a list
for mode in "trap", "poll":
    trap, write, imm, writes = map(float, run([args[0], "time"], mode, args[1]).split())
    more[mode] = (writes - write) / (LIST - 1)
    print(f"{mode}: a trap alone {trap:.0f} ns; a WRITE {write:.0f} ns, {write / trap:.2f} traps; "
          f"a WRITE_IMM, its receive and both CQEs {imm:.0f} ns, {imm / trap:.2f} traps; {more[mode]:.0f} ns for each more WRITE of a list")
handover = more["poll"] - more["trap"]
print(f"handover of a WQE to the polling thread: {handover:.0f} ns; a trap costs as much as {trap / handover:.1f} of them")
first, last = map(float, run([args[0], "many", str(MANY)], "trap", args[1]).split())
print(f"{MANY} registrations: the first ones {first:.0f} ns, the last ones {last:.0f} ns: {last / first:.2f}")
sys.exit(failed or last > first * SAME)
