#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tentbench as a user runs it: its output, as JSON and as a table, and its status."""
import json
import pathlib
import subprocess
import sys
import tempfile

exe = sys.argv[1]
QUICK = ["--seeds", "2", "--bytes", "100000000"]
KEYS = ["case", "mode", "default", "seeds", "makespan_ratio", "p99_slice_us", "adapt_ms",
        "remote_share_excess", "recovery_ms", "duplicate_bytes"]


def run(*args, status=0):
    r = subprocess.run([exe, *args], capture_output=True, text=True)
    assert r.returncode == status, (args, r.returncode, r.stdout, r.stderr)
    return r


def one_line(r):
    assert r.stderr.startswith("tentbench") and r.stderr.count("\n") == 1, r.stderr
    assert "give" in r.stderr, r.stderr


with tempfile.TemporaryDirectory() as tmp:
    out = pathlib.Path(tmp) / "out"
    names = [line.split()[0] for line in run("sim", "--list").stdout.splitlines()]
    assert len(names) == len(set(names)) > 15, names

    rows = [json.loads(line) for line in run(
        "sim", *QUICK, "--case", "healthy-8m,one-1m", "--json", "-").stdout.splitlines()]
    assert [(r["case"], r["mode"]) for r in rows] == [
        (c, m) for c in ("healthy-8m", "one-1m") for m in ("baseline", "smart", "pull")], rows
    for r in rows:
        assert all(k in r for k in KEYS), r
        assert r["default"] == (r["mode"] == "pull") and r["seeds"] == 2
        assert r["makespan_ratio"] >= 1 and r["adapt_ms"] is None and r["recovery_ms"] is None

    # The fault comes after 5 to 6 ms; 1.6 GB take longer than that.
    run("sim", "--seeds", "1", "--bytes", "1600000000", "--case", "dies-silent", "--mode", "pull",
        "--json", str(out), "--check")
    row = json.loads(out.read_text())
    assert 0 < row["recovery_ms"] <= 50 and row["duplicate_bytes"] >= 0, row

    table = run("sim", *QUICK, "--case", "mixed", "--mode", "smart").stdout.splitlines()
    assert len(table) == 3 and table[2].split()[:2] == ["mixed", "smart"], table
    assert "us" in table[0] and "ms" in table[1] and "bytes" in table[1], table

    # The bound does not contain the latency that --jitter adds, so a limit is exceeded.
    over = run("sim", *QUICK, "--case", "one-64k", "--mode", "pull", "--jitter", "5", "--check",
               status=1)
    assert "over the limit" in over.stderr, over.stderr

    config = pathlib.Path(tmp) / "config.json"
    config.write_text('{"strict_numa": true}')
    run("sim", *QUICK, "--case", "healthy-1m", "--mode", "pull", "--config", str(config),
        "--json", str(out))
    assert json.loads(out.read_text())["remote_share_excess"] < -0.3
    config.write_text('{"strict_numa": 1}')
    one_line(run("sim", "--config", str(config), status=2))

    assert "sim" in run("--help").stdout and "--jitter" in run("sim", "--help").stdout
    assert run("--version").stdout.startswith("tentbench ")
    one_line(run(status=2))
    one_line(run("serve", status=2))
    one_line(run("sim", "--case", "nothing", status=2))
    assert "No space left" in run("sim", *QUICK, "--case", "one-64k", "--mode", "pull", "--json",
                           "/dev/full", status=1).stderr
    assert "nowhere" in run("sim", "--json", "/nowhere/x", status=1).stderr
    one_line(run("sim", "--case", ",", status=2))
    one_line(run("sim", "--mode", ",", status=2))

    # Output that cannot be written is an error, explained in one line.
    with open("/dev/full", "w") as full:
        for line in (["--help"], ["--version"], ["client", "--help"], ["sim", "--help"], ["sim", "--list"],
                     ["sim", *QUICK, "--case", "one-64k", "--mode", "pull"],
                     ["sim", *QUICK, "--case", "one-64k", "--mode", "pull", "--json", str(out)],
                     ["sim", *QUICK, "--case", "one-64k", "--mode", "pull", "--json", "-"]):
            r = subprocess.run([exe, *line], stdout=full, stderr=subprocess.PIPE, text=True)
            assert r.returncode == 1 and r.stderr.count("\n") == 1, (line, r)
print("passed")
