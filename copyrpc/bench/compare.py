#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares copyrpc with UCX active messages on the same software HCA: doorbells and work requests.

    compare.py SOFTHCA-RUN COPYRPC-BENCH

Fails when copyrpc needs more than a fifth of UCX's doorbells, or of its work requests, per
call at a queue depth of 32. The rates are only printed, because they depend on the machine.
"""
import json
import os
import subprocess
import sys

if len(sys.argv) != 3:
    sys.exit(__doc__)
run, bench = sys.argv[1:]
for duration in 1, 10, 100:
    cmd = [run, "--fabric", f"copyrpc-compare-{os.getpid()}", bench, "--fork", "--peer=ucx",
           "--queue-depth=32", f"--duration={duration}", "--json=-"]
    r = subprocess.run(cmd, capture_output=True, text=True, timeout=200 + 2 * duration)
    if r.returncode:
        sys.exit(f"{' '.join(cmd)}: status {r.returncode}\n{r.stdout}{r.stderr}")
    row = {o["impl"]: o for o in map(json.loads, r.stdout.splitlines())}
    ours, ucx = row["copyrpc"], row["ucx"]
    if ucx["calls_per_s"]:  # on a busy machine UCX needs some seconds to connect
        break
failed = False
for key, limit in ("doorbells_per_call", 0.2), ("wqes_per_call", 0.2), ("calls_per_s", None):
    ratio = ours[key] / ucx[key]
    bad = limit is not None and not ratio <= limit
    failed |= bad
    print(f"{key:20} {ours[key]:12.4f} {ucx[key]:12.4f}  {ratio:8.4f}{'  too many' if bad else ''}")
sys.exit(failed)
