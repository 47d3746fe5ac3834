# SPDX-License-Identifier: MIT
"""Counts instructions with callgrind."""
import re
import subprocess


def collected(*command, flags=(), valgrind="valgrind"):
    """Runs the command under callgrind. Returns what it has written, and the number of instructions."""
    done = subprocess.run([valgrind, "--tool=callgrind", "--callgrind-out-file=/dev/null", *flags, *map(str, command)],
                          capture_output=True, text=True)
    found = re.search(r"Collected\s*:\s*(\d+)", done.stderr)
    if done.returncode or not found:
        raise SystemExit(done.stdout + done.stderr)
    return done.stdout, int(found.group(1))
