# SPDX-License-Identifier: MIT
"""Cases about the parts of ranks: threads, rings and regions; and about jobs that run at the same time."""
import os
import re
import signal
import time

from harness import (BENCHKV, GUARD, KILLED, SOFTHCA_RUN, check, finish, going, good, job, left_in_shm,
                     ranks_of, run, start, verified)
from plans import plan
from procs import asleep, clients_in_run, rank_of, resident, state, threads


def all_named(proc, np):
    """Waits until each rank of a job has stopped itself, just before it removes the name of its first region. Returns
    their pids."""
    pids, end = [], time.monotonic() + GUARD
    while len(pids) < max(np, 1) or any(state(p) != "T" for p in pids):
        check(time.monotonic() < end and proc.poll() is None, "no rank stops")
        os.sched_yield()
        pids = ranks_of(proc.pid, KILLED)
    return pids


def go_on(pids):
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


def case_jobs():
    """Two jobs, or two programs without a launcher, do not disturb each other. Each job has its own
    fabric of the software HCA, and removes it."""
    sizes = 2, 2, 0, 0
    argvs = [job(n, "--daemons", 2, "--duration", 0.5, "--json", "-", prog=KILLED) for n in sizes]
    procs = [start(a, {"BENCHKV_STOP_NAMED": "1"}) for a in argvs]
    pids = [pid for p, n in zip(procs, sizes) for pid in all_named(p, n)]
    check(fabrics() == 2, f"{fabrics()} fabrics")
    go_on(pids)
    for p, a, n in zip(procs, argvs, sizes):
        verified(finish(p, a), n)
    check(fabrics() == 0, "a fabric is left")


def case_names():
    """Regions have names only for a moment. Two jobs whose regions have names at the same time do not disturb each other."""
    for np in 0, 2:
        argv = job(np, "--ops", 1000, "--json", "-", prog=KILLED)
        proc = start(argv, {"BENCHKV_STOP_NAMED": "1"})
        pids = all_named(proc, np)
        check(sum("benchkv" in f for f in left_in_shm()) == len(pids), left_in_shm())
        good(np, "--ops", 1000)
        go_on(pids)
        verified(finish(proc, argv), np)


def fabrics():
    ctl = os.path.join(os.path.dirname(SOFTHCA_RUN), "softhcactl")
    return len(run([ctl, "list"]).out.splitlines())


def case_ring():
    """By default the ring of an endpoint, once it has grown, has room for all messages that can be in flight to a rank."""
    for clients, depth in (1, 1), (2, 8), (46, 256), (100, 33):
        args = ["--clients", clients, "--queue-depth", depth]
        for text in plan(2, *args):
            size = int(re.search(r"ring size (\d+) bytes", text).group(1))
            check(size >= 4 * clients * depth * 64 and size & (size - 1) == 0, text)
    net = good(2, "--clients", 46, "--queue-depth", 256, "--ops", 100000)["copyrpc"]
    # If rings did not grow, there would be more stalls than calls.
    check(net["credit_stalls"] + net["ring_stalls"] < net["calls"] / 2, net)


def case_threads():
    """A rank has a thread for each daemon and each client, as the plan says, and the main thread. PMIx has one
    thread more, and so has the software HCA, for its timers. A single rank has no ring for requests to other
    ranks, which a daemon would poll in vain."""
    of_tsan = b"__tsan_init" in open(BENCHKV, "rb").read()
    for np, of_others in (0, 0), (2, 2):
        said = plan(np, "--daemons", 3, "--clients", 5)
        check(all("  threads 9: main, 3 daemons, 5 clients\n" in r for r in said), "plan")
        with going(np, 5, "--daemons", 3) as pids:
            for pid in pids:
                names = threads(pid)
                for what, n in ("daemon", 3), ("client", 5):
                    check(sum(x.startswith(what) for x in names) == n, names)
                check(len(names) == 9 + of_others + of_tsan, names)
                mapped = open(f"/proc/{pid}/maps").read()
                check("shmipc.benchkv" in mapped and ("delegrpc.benchkv" in mapped) == (np > 1), mapped)


def case_memory():
    """benchkv sets the sizes of UCX's pools for its messages: with UCX's defaults a worker needs 76 MiB."""
    with going(2, 3, "--daemons", 2) as pids:
        for pid in pids:
            check(resident(pid) < 5 * 40 << 20, f"{resident(pid) >> 20} MiB")


def case_barrier():
    """No client begins before every rank is ready to begin: one rank is held back, while the other rank
    polls for it ten times or more."""
    argv = job(2, "--clients", 3, "--ops", 3000, "--json", "-", prog=KILLED)
    proc = start(argv, {"BENCHKV_KILL_RANK": "1", "BENCHKV_HOLD_FENCE": "3"})
    first, end = {}, time.monotonic() + GUARD
    while True:
        check(time.monotonic() < end and proc.poll() is None, "the job does not wait")
        os.sched_yield()
        pids = {rank_of(p): p for p in ranks_of(proc.pid, KILLED)}
        if "0" not in pids or sum(x.startswith("client") for x in threads(pids["0"])) < 3:
            continue
        check(not clients_in_run(pids["0"]), "a client has begun")
        now = asleep(pids["0"])
        first = first or now
        if now and now.get(str(pids["0"]), 0) >= first[str(pids["0"])] + 10:
            break
    os.kill(pids["1"], signal.SIGCONT)
    verified(finish(proc, argv), 2)
