#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""rdmabench lat and bw beside perftest's programs on one software HCA, in turns: what each measures, and the ratio.

    perftest.py RDMABENCH SOFTHCA-RUN [--rounds N] [--only TEXT]

The figure of a cell is the best of the rounds, of the median latency of a run or of its average throughput: other
programs on the machine make a run slower, never faster.
"""
import argparse
import os
import shutil
import socket
import subprocess
import sys

SIZES = (2, 64, 1024, 16384, 262144, 1048576)
SEND = ["lat", "--op", "s", "-r", "2"]  # perftest receives into one buffer, which stays in the cache
# perftest's program, options for both, options of ours, sizes, or None for all
CELLS = [("ib_write_lat", [], ["lat", "--op", "w"], SIZES), ("ib_write_lat", ["-c", "UC"], ["lat", "--op", "w"], SIZES),
         ("ib_send_lat", [], SEND, SIZES), ("ib_send_lat", ["-c", "UC"], SEND, SIZES),
         ("ib_send_lat", ["-c", "UD"], SEND, (2, 64, 1024)),
         ("ib_read_lat", [], ["lat", "--op", "r"], SIZES),
         ("ib_atomic_lat", [], ["lat", "--op", "a"], (8,)),
         ("ib_send_lat", ["-e"], SEND, (2, 1024, 262144)),
         ("ib_send_lat", ["-e", "-c", "UD"], SEND, (2, 1024)),
         ("ib_read_lat", ["-e"], ["lat", "--op", "r"], (2, 1024, 262144)),
         ("ib_write_bw", [], ["bw", "--op", "w"], SIZES), ("ib_write_bw", ["-c", "UC"], ["bw", "--op", "w"], SIZES)]

parser = argparse.ArgumentParser()
parser.add_argument("rdmabench", type=os.path.abspath)
parser.add_argument("runner", type=os.path.abspath)
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--only", default="")
options = parser.parse_args()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def one_pair(program, args):
    """Returns what the client prints, or None if it fails; a client that comes before the server listens tries again."""
    run = [options.runner, "--fabric", f"perftest-{os.getpid()}"]
    port = ["-p", str(free_port())]
    server = subprocess.Popen([*run, *program, *args, *port], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            ended = server.poll() is not None
            client = subprocess.run([*run, *program, *args, *port, "127.0.0.1"], capture_output=True, text=True, timeout=60)
            if not client.returncode:
                return client.stdout
            if ended:
                return None
    except subprocess.TimeoutExpired:
        return None
    finally:
        server.kill()
        server.wait()


def pair(program, args):
    """As one_pair(). perftest's programs sometimes fail or hang with -e on a busy machine ("Couldn't post send")."""
    for _ in range(20):
        out = one_pair(program, args)
        if out:
            return out
    raise SystemExit(f"{program} {args} fails again and again")


def figure(out, size, column):
    """Returns a column of the row that begins with the size."""
    return next(float(r[column]) for r in map(str.split, out.splitlines()) if len(r) > column and r[0] == str(size))


def cell(program, both, ours, size):
    lat = ours[0] == "lat"
    n = ["-n", str(1000 if size <= 16384 else 200)]
    sizes = [] if "atomic" in program else ["-s", str(size)]
    theirs = ["-F", *(["--atomic_type=FETCH_AND_ADD"] if "atomic" in program else [])]
    runs = ([], [])
    for i in range(options.rounds):
        both_runs = [lambda: figure(pair([program], [*both, *n, *sizes, *theirs]), size, 4 if lat else 3),
                     lambda: figure(pair([options.rdmabench, *ours], [*both, *n, *sizes]), size, 4 if lat else 3)]
        for k in (0, 1) if i % 2 == 0 else (1, 0):  # neither is always the first
            runs[k].append(both_runs[k]())
    theirs, ours = map(min if lat else max, runs)
    print(f"{program:14} {' '.join(both):10} {size:8} {theirs:12.2f} {ours:12.2f} {ours / theirs:6.3f}", flush=True)
    return ours / theirs


def main():
    print(f"{'program':14} {'options':10} {'bytes':>8} {'perftest':>12} {'rdmabench':>12} {'ratio':>6}   us, or MiB/s")
    ratios = [cell(program, both, ours, size) for program, both, ours, sizes in CELLS for size in sizes
              if shutil.which(program) and options.only in " ".join([program, *both, str(size)])]
    near = sum(.95 <= r <= 1 / .95 for r in ratios)
    print(f"{near} of {len(ratios)} ratios within 5 %")


sys.exit(main())
