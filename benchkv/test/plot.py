#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that scripts/plot draws each curve of benchkv's files, as SVG and as PNG.

    plot.py PLOT
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

PLOT = sys.argv[1]
HGRM = """       Value     Percentile TotalCount 1/(1-Percentile)

       1.000 0.000000000000          1           1.00
       7.000 0.900000000000          9          10.00
      90.000 1.000000000000         10            inf
#[Mean    =        8.000, StdDeviation   =        2.000]
"""
TRACE = "daemon,time_us,outstanding,waiting\n0,0,1,0\n0,1000,5,2\n2,10,3,0\n2,1010,4,0\n"


SIMULATED = "time_us,outstanding,gathered,cqes\n0.0,3,0,1\n10.5,40,7,2\n20.1,41,9,2\n"


def row(backend, np, software=False):
    spread = {"min": 90.0 * np, "median": 100.0 * np, "max": 120.0 * np, "stddev": 9.0}
    return json.dumps({"backend": backend, "np": np, "ops_per_s_spread": spread,
                       "software_hca": software}) + "\n"


def cell(control, np, qd, init, mops):
    return json.dumps({"control": control, "np": np, "qd": qd, "init": init, "mops": mops, "machine": "hdr100"}) + "\n"


def over_time(software=False):
    rows = [{"run": run, "start_s": s / 4, "duration_s": .25, "ops": 5, "ops_per_s": 20. + s,
             "latency_ns": {"p50": 1000 + s, "p99": 2000, "p999": 9000, "max": 9999}} for run in (0, 1) for s in range(4)]
    return json.dumps({"intervals": rows, "software_hca": software}) + "\n"


def comparison(software=False):
    figures = [{"figure": "ops_per_s", "ratio": 1.2, "interval": [1.1, 1.4]}, {"figure": "latency_ns.p50", "ratio": .9}]
    return json.dumps({"figures": figures, "tolerance": .05, "software_hca": software}) + "\n"


def drawn(kind, args, titles):
    out = pathlib.Path(tmp, kind)
    subprocess.run([PLOT, kind, out, *args], check=True)
    svg = out.with_suffix(".svg").read_text()
    missing = [t for t in titles if t not in svg]
    if missing or not out.with_suffix(".png").read_bytes().startswith(b"\x89PNG"):
        sys.exit(f"{kind}: no {missing or 'PNG'}")
    if svg.count("<path") < len(titles):
        sys.exit(f"{kind}: no curves")


if not shutil.which("gnuplot"):
    sys.exit(77)
with tempfile.TemporaryDirectory() as tmp:
    files = {"a.json": row("meta", 2) + row("meta", 1), "b.json": row("direct", 2), "c.hgrm": HGRM,
             "trace.0": TRACE, "sim.csv": SIMULATED}
    files["map.json"] = "".join(cell(c, n, q, i, n * (1 + (i == "high"))) for c in ("none", "auto:10,9")
                                for n in (2, 4) for q in (1, 32) for i in ("low", "high"))
    for name, text in files.items():
        pathlib.Path(tmp, name).write_text(text)
    drawn("throughput", [f"{tmp}/a.json", f"{tmp}/b.json"], ["meta", "direct", "ranks"])
    drawn("latency", [f"one={tmp}/c.hgrm", f"{tmp}/c.hgrm"], ["one", "c.hgrm", "percentile"])
    drawn("outstanding", [f"{tmp}/trace.0"], ["daemon 0: outstanding", "daemon 2: waiting"])
    drawn("outstanding", [f"{tmp}/sim.csv"], ["simulated: outstanding", "simulated: gathered"])
    # A picture names the software HCA if the figures were measured on it, and only then.
    for kind, object_of, shown in (("throughput", lambda software: row("direct", 2, software), ["direct", "benchkv: throughput"]),
                                   ("series", over_time, ["one, p50", "one, p99.9", "time in the run, s", "latency, us"]),
                                   ("compare", comparison, ["one", "ops_per_s", "latency p50", "B/A"])):
        for software in False, True:
            pathlib.Path(tmp, "one.json").write_text(object_of(software))
            drawn(kind, [f"{tmp}/one.json" if kind == "throughput" else f"one={tmp}/one.json"], shown)
            if ("software HCA" in pathlib.Path(tmp, f"{kind}.svg").read_text()) != software:
                sys.exit(f"{kind}: the title")
    pathlib.Path(tmp, "two.json").write_text(2 * over_time())
    drawn("series", [f"{tmp}/two.json"], ["two.json 1", "two.json 2, p99"])
    odd = 'a"b`touch x`\'c'  # is a title, and no command
    drawn("latency", [f"{odd}={tmp}/c.hgrm"], ["touch x"])
    # A file that is not a result is named in an error of one line, and no picture is written.
    pathlib.Path(tmp, "text").write_text("no result\n")
    pathlib.Path(tmp, "empty").write_text("")
    for kind in "throughput latency outstanding map cdf rails makespan series compare".split():
        for name in "text", "empty", "absent":
            r = subprocess.run([PLOT, kind, f"{tmp}/bad", f"{tmp}/{name}"], capture_output=True, text=True)
            if r.returncode != 1 or r.stderr.count("\n") != 1 or f"{tmp}/{name}" not in r.stderr:
                sys.exit(f"{kind} {name}: {r}")
            if list(pathlib.Path(tmp).glob("bad*")):
                sys.exit(f"{kind} {name}: left a picture")
    r = subprocess.run([PLOT, "latency", f"{tmp}/nowhere/x", f"{tmp}/c.hgrm"], capture_output=True, text=True)
    if r.returncode != 1 or r.stderr.count("\n") != 1 or "nowhere" not in r.stderr:
        sys.exit(f"no directory: {r}")
    drawn("map", [f"{tmp}/map.json"], ["none, from low", "none, from high", "auto:10,9, from low", "depth 1", "depth 32", "Simulated", "hdr100"])
for bad in [], ["throughput"], ["pie", "x", "y"]:
    r = subprocess.run([PLOT, *bad], capture_output=True, text=True)
    if r.returncode != 1 or not r.stderr.startswith("Draws "):
        sys.exit(f"{bad}: {r}")
