#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""scripts/plot cdf draws the files of rdmabench collect --cdf; the test checks that each curve exists.

    plot.py PLOT RDMABENCH FIGURES
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

plot, exe, figures = sys.argv[1:4]
if not shutil.which("gnuplot"):
    print("gnuplot is not installed")
    sys.exit(77)
with tempfile.TemporaryDirectory() as name:
    tmp = pathlib.Path(name)
    for run, samples in (("a", range(1000, 9000, 10)), ("b-2", range(5000, 50000, 100))):
        subprocess.run([figures, "file", tmp / run, "r", "0", *map(str, samples)], check=True,
                       stdout=subprocess.DEVNULL)
        subprocess.run([exe, "collect", "--cdf", tmp / f"{run}.cdf", tmp / run], check=True,
                       stdout=subprocess.DEVNULL)
    subprocess.run([plot, "cdf", tmp / "out", *(f"{run}={tmp / run}.cdf" for run in ("a", "b-2"))], check=True)
    svg = (tmp / "out.svg").read_text()
    assert ">b-2<" in svg and ">a<" in svg, svg[:3000]
    assert svg.count("<path") >= 2 and (tmp / "out.png").read_bytes().startswith(b"\x89PNG")
    assert subprocess.run([plot, "cdf", tmp / "x", tmp / "none"], capture_output=True).returncode != 0
    assert subprocess.run([plot, "cdf"], capture_output=True).returncode != 0
print("passed")
