#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs a program in chaos mode (SOFTHCA_CHAOS) with each seed from 1 to N, and names the first seed that fails.

    seeds.py N [VARIABLE=VALUE]... PROGRAM [ARGUMENT]...
"""
import os
import subprocess
import sys

n, command = int(sys.argv[1]), sys.argv[2:]
env = dict(os.environ)
while command and "=" in command[0]:
    name, value = command.pop(0).split("=", 1)
    env[name] = value
for seed in range(1, n + 1):
    env["SOFTHCA_CHAOS"] = str(seed)
    env["SOFTHCA_FABRIC"] = f"chaos-{os.getpid()}-{seed}"
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL)
    if done.returncode:
        print(f"{command[0]}: SOFTHCA_CHAOS={seed}: status {done.returncode}", file=sys.stderr)
        sys.exit(1)
