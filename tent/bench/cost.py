#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints what slices, requests and batches cost: instructions of the client by callgrind, and the median time.

    cost.py TENTBENCH [--rails N,...] [--threads N,...] [--batch N,...] [--size N,...] [--kind shm|tcp]

The instructions are those that the submitting threads execute in the functions of the library, without those of copying
and engine threads. Copied bytes count little, because an instruction copies at least 32 of them. The time is the median
of a batch in a run without callgrind, and includes the copying.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

COUNT = 200  # batches of each thread
INSIDE = [f"--toggle-collect={f}" for f in ("tent_submit", "tent_wait", "tent_batch_free")]


def run(args, extra, tool=()):
    """Runs the client. Returns its process id and output."""
    cmd = [*map(str, (*tool, *args, "--count", COUNT, *extra))]
    p = subprocess.Popen(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, err = p.communicate(timeout=300)
    if p.returncode:
        sys.exit(f"{' '.join(cmd)}: status {p.returncode}\n{out}{err}")
    return p.pid, out


def counted(args):
    """Returns the instructions and the slices of a run."""
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        stats = tmp / "stats"
        pid, _ = run(args, ["--prometheus", stats],
                     ["valgrind", "--tool=callgrind", *INSIDE, f"--callgrind-out-file={tmp}/out.%p"])
        total = re.search(r"^totals: (\d+)", (tmp / f"out.{pid}").read_text(), re.M)
        slices = re.findall(r"^tent_rail_slices_total\{.*\} (\d+)", stats.read_text(), re.M)
        return int(total[1]), sum(map(int, slices))


def numbers(text):
    return [int(n) for n in text.split(",")]


parser = argparse.ArgumentParser(usage=__doc__)
parser.add_argument("tentbench")
parser.add_argument("--kind", default="shm")
for name, default in ("rails", "1,2,4,8"), ("threads", "1,2,4,8"), ("batch", "1"), ("size", "65536,1048576"):
    parser.add_argument(f"--{name}", type=numbers, default=numbers(default))
o = parser.parse_args()
print(f"{'size, B':>9} {'rails':>5} {'threads':>7} {'batch':>5} {'slices':>7} {'instructions: slice':>19} {'request':>8} "
      f"{'batch':>8} {'ns: slice':>9} {'request':>8} {'batch':>8}")
for size in o.size:
    for rails in o.rails:
        for threads in o.threads:
            for batch in o.batch:
                args = [o.tentbench, "client", "--fork", f"--{o.kind}", rails, "--size", size, "--threads", threads,
                        "--batch", batch] + (["--alloc"] if o.kind == "shm" else [])
                instructions, slices = (n / COUNT / threads for n in counted(args))
                ns = 1000 * json.loads(run(args, ["--json", "-"])[1])["batch_p50_us"]
                print(f"{size:9} {rails:5} {threads:7} {batch:5} {slices / batch:7.1f} {instructions / slices:19.0f} "
                      f"{instructions / batch:8.0f} {instructions:8.0f} {ns / slices:9.0f} {ns / batch:8.0f} {ns:8.0f}",
                      flush=True)
