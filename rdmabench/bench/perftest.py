#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares rdmabench lat and bw with the programs of perftest and ibverbs-utils on the software HCA: their figures and the ratio.

    perftest.py RDMABENCH SOFTHCA-RUN [--only TEXT] [--rounds N] [--seconds S] [--mode MODE] [--turns]

A round is a run of each program; the program that runs first alternates. The figure of a run is its median latency or its average
throughput. A row contains each program's median over the rounds, and the median of the rounds' ratios with its confidence
interval (at least 95 %). Rounds end when the interval is narrower than 2 %, or after --rounds or --seconds. Both programs use the
HCA in the same mode. Server and client have a processor each and, if this is permitted, real-time priority, so that other programs
on the machine rarely interrupt them.

SENDs with events are compared with ibverbs-utils, because the sides of ib_send_lat do not alternate with events. Those programs
print a mean round trip, and half of it is compared with the mean of rdmabench. Server and client share a processor, so that a side
sleeps for each message. If each side had a processor, the answer might arrive while the side still takes the event of its send, and
chance would decide how often it sleeps.

--turns counts in a capture (needs tshark) how many SENDs of a ping-pong come from another side than the previous SEND.
"""
import argparse
import math
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

SIZES = (2, 64, 1024, 16384, 262144, 1048576)
SEND = ["lat", "--op", "s"]
# the other program, options for both, options of ours, sizes
CELLS = [("ib_write_lat", [], ["lat", "--op", "w"], SIZES), ("ib_write_lat", ["-c", "UC"], ["lat", "--op", "w"], SIZES),
         ("ib_send_lat", [], SEND, SIZES), ("ib_send_lat", ["-c", "UC"], SEND, SIZES),
         ("ib_send_lat", ["-c", "UD"], SEND, (2, 64, 1024)),
         ("ib_read_lat", [], ["lat", "--op", "r"], SIZES),
         ("ib_atomic_lat", [], ["lat", "--op", "a"], (8,)),
         ("ibv_rc_pingpong", ["-e"], SEND, (2, 1024, 262144)), ("ibv_uc_pingpong", ["-e"], [*SEND, "-c", "UC"], (2, 1024, 262144)),
         ("ibv_ud_pingpong", ["-e"], [*SEND, "-c", "UD"], (2, 1024)),
         ("ib_read_lat", ["-e"], ["lat", "--op", "r"], SIZES),
         ("ib_write_bw", [], ["bw", "--op", "w"], SIZES), ("ib_write_bw", ["-c", "UC"], ["bw", "--op", "w"], SIZES)]

parser = argparse.ArgumentParser()
parser.add_argument("rdmabench", type=os.path.abspath)
parser.add_argument("runner", type=os.path.abspath)
parser.add_argument("--rounds", type=int, default=24, help="at most, of a row")
parser.add_argument("--seconds", type=float, default=12, help="after which no round begins")
parser.add_argument("--mode", default="trap", help="of the HCA")
parser.add_argument("--only", default="")
parser.add_argument("--turns", action="store_true")
options = parser.parse_args()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def placed(side, shared, priority):
    """Returns a function that binds a new process to the processor of its side and sets its priority.

    Unless `shared` is set, each side has a processor, so that neither waits for the other.
    """
    cpus = sorted(os.sched_getaffinity(0))

    def place():
        os.sched_setaffinity(0, {cpus[-1 - side * (len(cpus) > 1 and not shared)]})
        os.sched_setscheduler(0, os.SCHED_RR if priority else os.SCHED_OTHER, os.sched_param(priority))
    return place


def one_pair(program, args, env=None, shared=False):
    """Returns the output of the client, or None. A client that starts before the server listens is started again."""
    run = [options.runner, "--fabric", f"perftest-{os.getpid()}", "--mode", options.mode]
    port = ["-p", str(free_port())]
    env = {**os.environ, **(env or {})}  # for both: either may be the first process of the fabric
    server = subprocess.Popen([*run, *program, *args, *port], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env,
                              preexec_fn=placed(0, shared, options.priority))
    try:
        while True:
            ended = server.poll() is not None
            client = subprocess.run([*run, *program, *args, *port, "127.0.0.1"], capture_output=True, text=True, timeout=10, env=env,
                                    preexec_fn=placed(1, shared, options.priority))
            if not client.returncode:
                return client.stdout
            if ended:
                return None
            time.sleep(.01)
    except subprocess.TimeoutExpired:
        return None
    finally:
        server.kill()
        server.wait()


def pair(program, args, shared):
    """Like one_pair(), but tries again, because perftest's programs sometimes fail or hang with -e ("Couldn't post send")."""
    for _ in range(20):
        out = one_pair(program, args, shared=shared)
        if out:
            return out
    raise SystemExit(f"{program} {args} fails again and again")


def own_options(program):
    """Returns the options that make the other program do the same as rdmabench does by default."""
    if "atomic" in program:
        return ["-F", "--atomic_type=FETCH_AND_ADD"]
    if "pingpong" in program:
        return ["-g", "0", "-r", "1", *([] if "ud" in program else ["-m", "4096"])]
    return ["-F"]


def half_trip(out):
    """Returns half of the mean round trip that a program of ibverbs-utils reports."""
    return float(re.search(r"= ([0-9.]+) usec/iter", out)[1]) / 2


def figure(out, size, column):
    """Returns a column of the row that begins with the size."""
    return next(float(r[column]) for r in map(str.split, out.splitlines()) if len(r) > column and r[0] == str(size))


def interval(values):
    """Returns the median and its confidence interval by the binomial distribution (None, None: too few values)."""
    values, n = sorted(values), len(values)
    outside = .5 ** n  # the probability that all values are above the median
    k = 0
    while outside + math.comb(n, k + 1) * .5 ** n <= .025:
        k += 1
        outside += math.comb(n, k) * .5 ** n
    return statistics.median(values), *((values[k], values[-1 - k]) if outside <= .025 else (None, None))


def iterations(lat, events, size):
    """Returns the iterations of a run. Runs are short, because figures differ more between runs than within a run."""
    if size > 16384:
        return 100 if size > 262144 else 400
    return 2000 if not lat or events else 4000 if size > 1024 else 10000


def cell(program, both, ours, size):
    """Prints a row and returns the ratio."""
    lat = ours[0] == "lat"
    common = [*both, "-n", str(iterations(lat, "-e" in both, size)), *([] if "atomic" in program else ["-s", str(size)])]
    lines = (([program], [*common, *own_options(program)]), ([options.rdmabench, *ours], common))
    mean = "pingpong" in program
    read = (half_trip if mean else lambda out: figure(out, size, 4 if lat else 3),
            lambda out: figure(out, size, 5 if mean else 4 if lat else 3))
    runs, end, low, high = ([], []), time.monotonic() + options.seconds, None, None
    while len(runs[0]) < options.rounds and time.monotonic() < end and (low is None or high > 1.02 * low):
        for k in (0, 1) if len(runs[0]) % 2 == 0 else (1, 0):  # neither is always the first
            runs[k].append(read[k](pair(*lines[k], mean)))
        ratio, low, high = interval([b / a for a, b in zip(*runs)])
    certain = f"{low:.3f} to {high:.3f}" if low else "-"
    print(f"{program:14} {' '.join(both):8} {size:8} {statistics.median(runs[0]):10.2f} {statistics.median(runs[1]):10.2f} {ratio:6.3f}"
          f"   {certain:15} {len(runs[0]):6}", flush=True)
    return ratio


def turns():
    """Counts SENDs in captures. If a run fails, its SENDs up to the failure are counted."""
    ours = [options.rdmabench, *SEND]
    for line in (["ib_send_lat"], ["ib_send_lat", "-e"], ["ibv_rc_pingpong", "-e"], ours, [*ours, "-e"]):
        more = [] if line[0] == ours[0] else own_options(line[0])
        with tempfile.TemporaryDirectory() as tmp:
            one_pair(line, [*more, "-n", "1000", "-s", "64"], {"SOFTHCA_CAPTURE": f"{tmp}/pcap"})
            sent = subprocess.run(["tshark", "-r", f"{tmp}/pcap", "-Y", "infiniband.bth.opcode == 4", "-T", "fields", "-e",
                                   "infiniband.bth.destqp"], capture_output=True, text=True, check=True).stdout.split()
        n = sum(a != b for a, b in zip(sent, sent[1:]))
        print(os.path.basename(line[0]), *line[1:], f"{len(sent)} SENDs, {n} of them by another side than the one before")


def priority():
    """Returns the real-time priority of the programs, or 0 if there is none. This program's is higher: it starts and ends them."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(2))
    except PermissionError:
        return 0
    return 1


def main():
    options.priority = 0
    if options.turns:
        return turns()
    options.priority = priority()
    print(f"mode {options.mode}, {'real-time' if options.priority else 'normal'} priority, load {os.getloadavg()[0]:.1f}")
    print(f"{'program':14} {'options':8} {'bytes':>8} {'perftest':>10} {'rdmabench':>10} {'ratio':>6}   {'interval':15} {'rounds':>6}   "
          "us, or MiB/s")
    ratios = [cell(program, both, ours, size) for program, both, ours, sizes in CELLS for size in sizes
              if shutil.which(program) and options.only in " ".join([program, *both, str(size)])]
    near = sum(.95 <= r <= 1 / .95 for r in ratios)
    print(f"{near} of {len(ratios)} ratios within 5 %")
    return 0


sys.exit(main())
