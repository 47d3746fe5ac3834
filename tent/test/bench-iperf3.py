#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs, in turn, rails over TCP and iperf3 with as many connections on the loopback device. Prints the ratio of the rates.

    bench-iperf3.py TENTBENCH [RAILS [SIZE [BATCH [TURNS]]]]
"""
import json
import os
import shutil
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../test/support"))
from ports import free_port  # noqa: E402

exe, rails, size, batch, turns = (sys.argv[1:] + ["1", "8M", "4", "5"][len(sys.argv) - 2:])[:5]
STREAMS = 4  # connections of a rail
if not shutil.which("iperf3"):
    print("there is no iperf3")
    sys.exit(77)


def output(*args):
    return subprocess.run(args, capture_output=True, text=True, timeout=60, check=True).stdout


def iperf3(port):
    """Returns GB/s."""
    text = output("iperf3", "-c", "127.0.0.1", "-p", port, "-P", str(STREAMS * int(rails)), "-t", "1", "-J")
    return json.loads(text)["end"]["sum_received"]["bits_per_second"] / 8e9


def tent():
    """Returns GB/s."""
    return json.loads(output(exe, "client", "--fork", "--tcp", rails, "--size", size, "--batch", batch, "--seconds", "1",
                             "--json", "-"))["gb_per_s"]


port = str(free_port())
with subprocess.Popen(["iperf3", "-s", "-p", port, "--forceflush"], stdout=subprocess.PIPE, text=True) as server:
    try:
        while "listening" not in (line := server.stdout.readline()):
            assert line, "iperf3 has ended"
        pairs = [(iperf3(port), tent()) for _ in range(int(turns))]
    finally:
        server.kill()
ratios = sorted(t / i for i, t in pairs)
print(f"rails {rails}, size {size}, batch {batch}: iperf3 {statistics.median(i for i, _ in pairs):.2f} GB/s, tent / iperf3 "
      f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")
