#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts, with callgrind, the instructions that mlx5dv-lite and libibverbs execute per request and per completion.

    instructions.py [--check] SOFTHCA_RUN MLX5DVL_BENCH

--check fails unless mlx5dv-lite executes at most as many instructions as libibverbs in every row,
and at most half as many in the row with 16 requests per doorbell.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

args = [a for a in sys.argv[1:] if a != "--check"]
check = len(args) < len(sys.argv) - 1
if len(args) != 2:
    sys.exit(__doc__)
run, bench = args

rows = {}
with tempfile.TemporaryDirectory() as tmp:
    cmd = [run, "--fabric", f"mlx5dvl-callgrind-{pathlib.Path(tmp).name}", "valgrind",
           "--tool=callgrind", "--collect-atstart=no", f"--callgrind-out-file={tmp}/out", bench]
    r = subprocess.run(cmd, capture_output=True, text=True, timeout=240)
    if r.returncode:
        sys.exit(f"{' '.join(cmd)}\n{r.stdout}{r.stderr}")
    for dump in sorted(pathlib.Path(tmp).glob("out.*"), key=lambda p: int(p.suffix[1:])):
        text = dump.read_text()
        who = re.search(r"^desc: Trigger: Client Request: (\w+)\|(.*)\|(\d+)$", text, re.M)
        if who:
            lib, row, count = who.groups()
            total = int(re.search(r"^(?:summary|totals): (\d+)", text, re.M)[1])
            rows.setdefault(row, {})[lib] = total / int(count)

if not rows:
    sys.exit("callgrind wrote no section")
failed = False
print(f"{'instructions per request or completion':40} {'mlx5dvl':>8} {'verbs':>8} {'ratio':>6}")
for row, n in rows.items():
    ratio = n["ours"] / n["verbs"]
    limit = 0.5 if "16 per doorbell" in row else 1
    bad = ratio > limit
    failed |= bad
    print(f"{row:40} {n['ours']:8.1f} {n['verbs']:8.1f} {ratio:6.2f}{'  too many' if bad else ''}")
sys.exit(1 if check and failed else 0)
