#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`scripts/plot rails` draws each rail of a trace of tentbench, `scripts/plot makespan` each mode in the results of
`tentbench sim --json`.

    plot.py PLOT TENTBENCH
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

plot, exe = sys.argv[1:3]
if not shutil.which("gnuplot"):
    print("gnuplot is not installed")
    sys.exit(77)


def tentbench(*args):
    subprocess.run([exe, *args], check=True, stdout=subprocess.DEVNULL)


def drawn(kind, path, titles):
    subprocess.run([plot, kind, tmp / kind, path], check=True)
    svg = (tmp / kind).with_suffix(".svg").read_text()
    assert not [t for t in titles if f">{t}<" not in svg], svg[:3000]
    assert svg.count("<path") >= len(titles)
    assert (tmp / kind).with_suffix(".png").read_bytes().startswith(b"\x89PNG")


with tempfile.TemporaryDirectory() as name:
    tmp = pathlib.Path(name)
    tentbench("sim", "--case", "step-8m", "--mode", "pull", "--seeds", "1", "--trace", tmp / "sim")
    rows = (tmp / "sim").read_text().splitlines()
    assert rows[0] == "time_us,rail,bytes" and rows[1].startswith("0,local0,0"), rows[:3]
    last = {r.split(",")[1]: int(r.split(",")[2]) for r in rows[1:]}
    # The file has all rails of the case. A local rail was slow for a while, and has carried fewer bytes than others.
    assert len(last) == 8 and 3.8e9 < sum(last.values()) < 4.1e9, last
    assert min(v for k, v in last.items() if k[0] == "l") < 0.8 * max(last.values()), last
    drawn("rails", tmp / "sim", last)
    tentbench("client", "--fork", "--shm", "2", "--count", "20", "--size", "1M", "--trace", tmp / "real")
    rows = (tmp / "real").read_text().splitlines()
    assert rows[0] == "time_us,rail,bytes,up,outages", rows[0]
    last = {r.split(",")[1]: int(r.split(",")[2]) for r in rows[1:]}
    assert list(last) == ["shm0-shm0", "shm1-shm1"] and sum(last.values()) == 20 << 20, last
    drawn("rails", tmp / "real", last)
    tentbench("sim", "--case", "healthy-8m,one-1m", "--seeds", "2", "--json", tmp / "json")
    drawn("makespan", tmp / "json", ["baseline", "smart", "pull", "healthy-8m", "one-1m"])
    for args in ("--case", "step-8m,flap"), ("--seeds", "2"), ("--mode", "all"):
        r = subprocess.run([exe, "sim", "--case", "step-8m", "--mode", "pull", "--seeds", "1", "--trace",
                            tmp / "x", *args], capture_output=True, text=True)
        assert r.returncode == 2 and r.stderr.count("\n") == 1 and "--trace: give" in r.stderr, r
    assert subprocess.run([exe, "client", "--fork", "--shm", "1", "--trace", "/nowhere/x"],
                          capture_output=True).returncode == 1
print("passed")
