#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""rdmabench lat and bw beside perftest's programs on one software HCA, in turns: what each measures, and the ratio.

    perftest.py RDMABENCH SOFTHCA-RUN [--rounds N] [--only TEXT] [--turns]

The figure of a cell is the best of the rounds, of the median latency of a run or of its average throughput: other
programs on the machine make a run slower, never faster. The last ratio is of the medians of the rounds.

--turns counts in a capture (needs tshark) how many SENDs of a ping-pong come from another side than the SEND before.
"""
import argparse
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile

SIZES = (2, 64, 1024, 16384, 262144, 1048576)
SEND = ["lat", "--op", "s"]
# perftest's program, options for both, options of ours, sizes, or None for all
CELLS = [("ib_write_lat", [], ["lat", "--op", "w"], SIZES), ("ib_write_lat", ["-c", "UC"], ["lat", "--op", "w"], SIZES),
         ("ib_send_lat", [], SEND, SIZES), ("ib_send_lat", ["-c", "UC"], SEND, SIZES),
         ("ib_send_lat", ["-c", "UD"], SEND, (2, 64, 1024)),
         ("ib_read_lat", [], ["lat", "--op", "r"], SIZES),
         ("ib_atomic_lat", [], ["lat", "--op", "a"], (8,)),
         ("ib_send_lat", ["-e"], SEND, (2, 1024, 262144)), ("ib_send_lat", ["-e", "-c", "UC"], SEND, (2, 1024, 262144)),
         ("ib_send_lat", ["-e", "-c", "UD"], SEND, (2, 1024)),
         ("ib_read_lat", ["-e"], ["lat", "--op", "r"], SIZES),
         ("ib_write_bw", [], ["bw", "--op", "w"], SIZES), ("ib_write_bw", ["-c", "UC"], ["bw", "--op", "w"], SIZES)]

parser = argparse.ArgumentParser()
parser.add_argument("rdmabench", type=os.path.abspath)
parser.add_argument("runner", type=os.path.abspath)
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--only", default="")
parser.add_argument("--turns", action="store_true")
options = parser.parse_args()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def one_pair(program, args, env=None):
    """Returns what the client prints, or None if it fails; a client that comes before the server listens tries again."""
    run = [options.runner, "--fabric", f"perftest-{os.getpid()}"]
    port = ["-p", str(free_port())]
    env = {**os.environ, **(env or {})}  # of both: either may be the first of the fabric
    server = subprocess.Popen([*run, *program, *args, *port], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
    try:
        while True:
            ended = server.poll() is not None
            client = subprocess.run([*run, *program, *args, *port, "127.0.0.1"], capture_output=True, text=True, timeout=60, env=env)
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
    n = ["-n", str((400 if lat else 1000) if size <= 16384 else 50 if lat else 200)]  # short: other programs interrupt
    sizes = [] if "atomic" in program else ["-s", str(size)]
    theirs = ["-F", *(["--atomic_type=FETCH_AND_ADD"] if "atomic" in program else [])]
    runs = ([], [])
    for i in range(options.rounds):
        both_runs = [lambda: figure(pair([program], [*both, *n, *sizes, *theirs]), size, 4 if lat else 3),
                     lambda: figure(pair([options.rdmabench, *ours], [*both, *n, *sizes]), size, 4 if lat else 3)]
        for k in (0, 1) if i % 2 == 0 else (1, 0):  # neither is always the first
            runs[k].append(both_runs[k]())
    theirs, ours = map(min if lat else max, runs)
    middle = statistics.median(runs[1]) / statistics.median(runs[0])
    print(f"{program:14} {' '.join(both):10} {size:8} {theirs:12.2f} {ours:12.2f} {ours / theirs:6.3f} {middle:6.3f}", flush=True)
    return ours / theirs


def turns():
    """A run that fails counts up to there."""
    for program in (["ib_send_lat", "-F"], [options.rdmabench, *SEND]):
        for more in ([], ["-e"]):
            with tempfile.TemporaryDirectory() as tmp:
                one_pair(program, [*more, "-n", "1000", "-s", "64"], {"SOFTHCA_CAPTURE": f"{tmp}/pcap"})
                sent = subprocess.run(["tshark", "-r", f"{tmp}/pcap", "-Y", "infiniband.bth.opcode == 4", "-T", "fields", "-e",
                                       "infiniband.bth.destqp"], capture_output=True, text=True, check=True).stdout.split()
            n = sum(a != b for a, b in zip(sent, sent[1:]))
            print(os.path.basename(program[0]), *more, f"{len(sent)} SENDs, {n} of them by another side than the one before")


def main():
    if options.turns:
        return turns()
    print(f"{'program':14} {'options':10} {'bytes':>8} {'perftest':>12} {'rdmabench':>12} {'ratio':>6} {'median':>6}   us, or MiB/s")
    ratios = [cell(program, both, ours, size) for program, both, ours, sizes in CELLS for size in sizes
              if shutil.which(program) and options.only in " ".join([program, *both, str(size)])]
    near = sum(.95 <= r <= 1 / .95 for r in ratios)
    print(f"{near} of {len(ratios)} ratios within 5 %")


sys.exit(main())
