#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""scripts/plot cdf draws the files of rdmabench collect --cdf; the test checks that each curve exists.

    plot.py PLOT RDMABENCH FIGURES
"""
import pathlib
import re
import shutil
import sys
import tempfile

from support import run

plot, exe, figures = sys.argv[1:4]
if not shutil.which("gnuplot"):
    print("gnuplot is not installed")
    sys.exit(77)
with tempfile.TemporaryDirectory() as directory:
    tmp = pathlib.Path(directory)
    for name, samples in (("a", range(1000, 9000, 10)), ("b-2", range(5000, 50000, 100))):
        run(figures, "file", tmp / name, "r", 0, *samples)
        run(exe, "collect", "--cdf", tmp / f"{name}.cdf", tmp / name)
    run(plot, "cdf", tmp / "out", *(f"{name}={tmp / name}.cdf" for name in ("a", "b-2")))
    svg = (tmp / "out.svg").read_text()
    assert ">b-2<" in svg and ">a<" in svg, svg[:3000]
    assert sum(path.count(" L") > 50 for path in re.findall("<path[^>]*", svg)) == 2  # other paths have fewer lines
    assert (tmp / "out.png").read_bytes().startswith(b"\x89PNG")
    assert run(plot, "cdf", tmp / "x", tmp / "none", status=None).returncode != 0
    assert run(plot, "cdf", status=None).returncode != 0
print("passed")
