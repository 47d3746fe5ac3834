# SPDX-License-Identifier: MIT
"""shmipc-loan-bench prints a line per size and direction. If its exit status is 0, it has checked every
payload. It fails with one line if an option is bad, or if its output cannot be written. It leaves no region behind,
even if it cannot create all of them.

    loan.py BENCH
"""
import pathlib
import resource
import subprocess
import sys

bench = sys.argv[1]
SHORT = ["--seconds", ".001", "--queue-depth", "2"]


def run(*args, out=subprocess.PIPE):
    return subprocess.run([bench, *args], stdout=out, stderr=subprocess.PIPE, text=True, timeout=60)


for more in ([], ["--step"]):
    done = run(*SHORT, "--size", "16,4K", "--read", *more)
    assert done.returncode == 0 and not done.stderr, done
    rows = [line.split() for line in done.stdout.splitlines()[1:]]
    assert [row[:2] for row in rows] == [[b, d] for b in ("16", "4096") for d in ("request", "response")], rows
    assert all(float(column) > 0 for row in rows for column in row[3:6]), rows

for bad in (["--size", "12"], ["--size", "17"], ["--queue-depth", "0"], ["more"]):
    done = run(*bad)
    assert done.returncode == 2 and not done.stdout and done.stderr.count("\n") == 1, (bad, done)

statuses = set()
for most in range(3, 16):  # descriptors
    bad = subprocess.Popen([bench, *SHORT, "--size", "64"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most)))
    statuses.add(bad.wait(timeout=60))
    left = list(pathlib.Path("/dev/shm").glob(f"*loan-bench.{bad.pid}.*"))
    for region in left:
        region.unlink()
    assert not left, (most, left)
assert statuses >= {0, 1}, statuses

with open("/dev/full", "w") as full:
    for args in ([*SHORT, "--size", "64"], ["--help"]):
        done = run(*args, out=full)
        assert done.returncode == 1 and done.stderr.count("\n") == 1, (args, done)
        assert "standard output" in done.stderr, done
