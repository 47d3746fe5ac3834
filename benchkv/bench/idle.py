#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures the CPU time of idle ranks: two ranks that have one request a second between them.

    idle.py BENCHKV SOFTHCA-RUN

Prints the CPU time of all threads of each rank, divided by the elapsed time: once with daemons that poll
with short sleeps (--wait poll), once with daemons that sleep on descriptors (--wait event). Fails if a
rank with --wait event uses more than 2 % of a core.
"""
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "test"))
from procs import clients_in_run, running, threads  # noqa: E402

BENCHKV, SOFTHCA_RUN = sys.argv[1:]
SECONDS = 10
START = 60  # the longest time until all clients are in a run, in seconds
MOST = 0.02  # share of a core that a rank with --wait event may use


def cpu_ns(pid):
    """Returns the CPU time of a process by kind of thread."""
    used = {}
    for t in os.listdir(f"/proc/{pid}/task"):
        name = open(f"/proc/{pid}/task/{t}/comm").read().strip()
        kind = next((k for k in ("daemon", "client") if name.startswith(k)), "others")
        ns = int(open(f"/proc/{pid}/task/{t}/schedstat").read().split()[0])
        used[kind] = used.get(kind, 0) + ns
    return used


def wait_running(proc, ranks, clients):
    end = time.monotonic() + START
    while time.monotonic() < end:
        pids = running(proc.pid, BENCHKV)
        if len(pids) == ranks and all(len(clients_in_run(p)) == clients for p in pids):
            return pids
        if proc.poll() is not None:
            sys.exit(f"benchkv has ended: {proc.communicate()}")
        time.sleep(0.1)
    proc.send_signal(signal.SIGTERM)
    sys.exit(f"benchkv does not start: {proc.communicate()}")


def measure(*args):
    """Prints each rank's share of a core, in total and by kind of thread. Yields the totals."""
    argv = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", BENCHKV, *args, "--daemons",
            "2", "--clients", "2", "--rate", "1", "--duration", "86400"]
    proc = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    pids = wait_running(proc, 2, 2)
    begin, before = time.monotonic(), [cpu_ns(p) for p in pids]
    time.sleep(SECONDS)
    after, passed = [cpu_ns(p) for p in pids], (time.monotonic() - begin) * 1e9
    count = [len(threads(p)) for p in pids]
    proc.send_signal(signal.SIGTERM)
    proc.communicate()
    for n, a, b in zip(count, after, before):
        shares = {kind: (a[kind] - b.get(kind, 0)) / passed for kind in a}
        print(f"{' '.join(args):36} {100 * sum(shares.values()):6.2f} % of a core, {n} threads: "
              + ", ".join(f"{k} {100 * s:.2f} %" for k, s in sorted(shares.items())))
        yield sum(shares.values())


os.environ["PATH"] += ":" + os.path.dirname(SOFTHCA_RUN)
worst = 0
for backend in "delegation", "meta", "direct":
    list(measure(backend, "--wait", "poll"))
    worst = max(worst, *measure(backend, "--wait", "event"))
sys.exit(f"an idle rank takes {100 * worst:.1f} % of a core" if worst > MOST else 0)
