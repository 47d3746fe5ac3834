#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A server that sleeps between calls wakes up about once per call, and does not poll in between.

    sleeps.py SOFTHCA-RUN COPYRPC-BENCH
"""
import json
import os
import subprocess
import sys

if len(sys.argv) != 3:
    sys.exit(__doc__)
run, bench = sys.argv[1:]
r = subprocess.run([run, "--fabric", f"copyrpc-sleeps-{os.getpid()}", bench, "--fork", "--events", "--rate", "100",
                    "-q", "1", "-D", "1", "--json", "-"], capture_output=True, text=True, timeout=60)
if r.returncode:
    sys.exit(f"status {r.returncode}: {r.stderr}")
row = json.loads(r.stdout)
sleeps = row["server_sleeps_per_call"]
print(f"{row['calls']} calls, {sleeps} sleeps a call, {row['server_cpu_percent']} % of a core")
# The server wakes up for the request; on a busy machine also for the completion of the reply and
# for credits. With a timer of one millisecond it would wake up ten times per call.
if not row["calls"] or not 0 < sleeps < 8:
    sys.exit("not about one")
