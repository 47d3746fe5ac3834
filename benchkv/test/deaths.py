# SPDX-License-Identifier: MIT
"""Cases about ranks that are killed and jobs that are told to stop."""
import json
import os
import re
import signal
import socket
import tempfile
import time

import harness
import slurm as private_slurm
from harness import (BENCHKV, GUARD, KILLED, MPIRUN, SOAK, Skipped, UCX, check, finish, good, is_program, job,
                     left_in_shm, nothing_left, processes_left, run, start, verified, wait_running)
from procs import listening_ports, rank_of, threads

# Seconds between mpirun's SIGTERM and SIGKILL to the ranks. mpirun always waits that long. The second number is for a
# busy machine, on which rank 0 needs more time to write the report.
PATIENCES = 4, 60


def patient(seconds):
    return {f"{launcher}_MCA_odls_base_sigkill_timeout": str(seconds) for launcher in ("OMPI", "PRTE")}


def reported(attempt):
    """Returns the result of attempt(environment). If mpirun has killed rank 0 before its report, tries again with more
    patience."""
    for seconds in PATIENCES:
        r = attempt(patient(seconds))
        if r.out:
            break
    return r


def killed_start(argv, rank, at, env=None, fabric=False):
    """Runs a job of which a rank is killed at call `at` of those that kill.c replaces. Returns False if there are fewer
    calls. The rank may leave only the file of the region that it was creating, and the next start removes this file.
    fabric: the launcher also kills the process that would remove the software HCA's files."""
    r = run(argv, dict(env or {}, BENCHKV_KILL_AT=str(at), BENCHKV_KILL_RANK=str(rank)))
    if r.status == 0:
        return False
    nothing_left(processes_left)
    left = [f for f in left_in_shm() if not (fabric and f.startswith("softhca-"))]
    check(len(left) <= 1 and all(re.match(rf"(shmipc|delegrpc)\.benchkv\..*\.{rank}(\.|$)", f)
                                 for f in left), f"point {at}: left {left}: {r}")
    if left_in_shm():
        print(f"point {at}: {left_in_shm()} until the next start")
        run(job(2 if fabric else 0, "--ops", 10))
        check(not left_in_shm(), f"point {at}: {left_in_shm()} survived the next start")
    return True


def killed_starts(argv, rank, env=None):
    at = 1
    while killed_start(argv, rank, at, env):
        at += 1
    print(f"{at - 1} points: {' '.join(argv)}")
    check(at > 10, "there are too few points at which the rank was killed")


def case_start():
    """A rank is killed while it starts, at each of the calls that kill.c replaces."""
    for np in 0, 2:
        argv = job(np, "--ops", 100, "--daemons", 2 - np // 2, "--clients", 1, prog=KILLED)
        killed_starts(argv, max(np - 1, 0))


def partial(r, reason, runs=1):
    """Checks the JSON object of a job that was stopped early, which has the results until then. Returns the object."""
    lines = r.out.splitlines()
    check(len(lines) == 1, f"not one line: {r}")
    j = json.loads(lines[0])
    check(j["partial"] is True and re.fullmatch(reason, j["partial_reason"]), r)
    check(len(j["runs"]) == runs and j["run_count"] >= runs and j["audit"]["keys"] == 0, r)
    # A reply that cannot be delivered counts in addition to the error of its operation.
    errors = j["errors"] - j["error_kinds"]["undeliverable"]
    check(j["ops"] > 0 and j["verified"] + j["unfinished"] + errors == j["ops"], r)
    check(sum(row["ops"] for row in j["runs"]) == sum(row["ops"] for row in j["ranks"]) == j["ops"], r)
    for rank, row in enumerate(j["ranks"]):
        check((row["ops"] == 0) == (rank in j["missing_ranks"]), r)
    return j


def interrupted(np, sig):
    """Sends a signal, as from Ctrl-C, to the launcher of a job, or to the job if it has no launcher."""
    argv = job(np, "--daemons", 2, "--clients", 3, "--duration", 600, "--runs", 2, "--interval", 1, "--json", "-")

    def attempt(env):
        proc = start(argv, env)
        wait_running(proc, np, 3)
        os.kill(proc.pid, sig)
        return finish(proc, argv)

    r = reported(attempt)
    # mpirun sends SIGTERM, whichever signal it gets.
    name = signal.Signals(sig).name if not np else "SIGTERM"
    j = partial(r, f"told to stop by {name}")
    check(r.status == 128 + sig if not np else r.status != 0, r)
    check(j["errors"] == 0 and not r.own_lines(), r)
    check(sum(row["ops"] for row in j["intervals"]) == j["verified"], r)


def interrupted_later():
    """A signal in a later run: the results of the earlier runs are reported, and the table names what is missing."""
    argv = job(0, "--clients", 3, "--duration", 0.1, "--runs", 1000)
    proc = start(argv)
    end = time.monotonic() + GUARD
    while "client0/1" not in "".join(threads(proc.pid)):
        check(time.monotonic() < end and proc.poll() is None, "no second run")
        os.sched_yield()
    os.kill(proc.pid, signal.SIGINT)
    r = finish(proc, argv)
    check(r.status == 130 and re.search(r"\nPARTIAL +told to stop by SIGINT; run (?!1 )\d+ of 1000; \d+ op", r.out), r)
    check("\naudit         not made\n" in r.out and re.search(r"\nrun .*\n0 +\d+", r.out), r)


def interrupted_pair():
    """A signal only to run-pair ends the current job, with its launcher and ranks."""
    argv = [BENCHKV, "run-pair", " ".join(job(2, "--clients", 3, "--duration", 600)), "true"]
    proc = start(argv, patient(PATIENCES[0]))
    wait_running(proc, 2, 3)
    proc.send_signal(signal.SIGINT)
    r = finish(proc, argv)
    check(r.status == 130 and r.own_lines() == ["benchkv: told to stop by SIGINT"], r)
    nothing_left(processes_left)


def next_start():
    """Runs a job that removes a fabric which was left behind: some time after its SIGTERM, mpirun kills all processes,
    including the process that would remove the fabric."""
    good(2, "--ops", 100)


def case_signals():
    for sig in signal.SIGINT, signal.SIGTERM:
        interrupted(0, sig)
        if SOAK or sig == signal.SIGINT:  # the launcher sends SIGTERM for both
            interrupted(2, sig)
    interrupted_later()
    interrupted_pair()
    next_start()


def killed(np, launcher, victim, env=None, find=None, before=None):
    """Kills a rank in a run that does not end by itself, after calling before() with rank 0's pid."""
    argv = launcher + job(0, "--daemons", 2, "--clients", 3, "--duration", 86400, "--timeout", 86400,
                          "--json", "-")
    proc = start(argv, env)
    pids = wait_running(proc, np, 3, find)
    if before:
        before(next(p for p in pids if rank_of(p) == "0"))
    os.kill(next(p for p in pids if not np or rank_of(p) == str(victim)), signal.SIGKILL)
    return finish(proc, argv)


def dead_is_named(launcher, np, victim, env=None, find=None, before=None, sooner=None):
    """Kills a rank under a launcher that does not kill the others. The others end. Rank 0 prints which rank has died,
    and the report has their measurements; if rank 0 was killed, rank 1 prints that, and there is no report. sooner:
    patterns of the launcher's messages, for a launcher that can kill rank 0 before it reports."""
    r = killed(np, launcher, victim, env, find, before)
    if sooner and not r.out and all(re.search(words, r.err) for words in sooner):
        return
    said = [l for l in r.own_lines() if "has died" in l]
    check(len(said) == 1 and re.fullmatch(rf"benchkv: rank {int(not victim)}: rank {victim} \(.+\) has died",
                                          said[0]), r)
    if victim:
        check(partial(r, rf"rank {victim} \(.+\) has died")["missing_ranks"] == [victim], r)
    else:
        check(r.out == "", r)


def case_strangers():
    """Strangers connect to rank 0 and send nothing, half a message or nonsense. Rank 0 still detects a dead rank."""
    held = []

    def visit(pid):
        said = [b"", b"x", b"\0" * 32, b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096)]
        for port in listening_ports(pid):
            for i in range(300):
                held.append(socket.create_connection(("127.0.0.1", port)))
                held[-1].sendall(said[i % len(said)])

    dead_is_named([*MPIRUN, "--enable-recovery", "-np", "3"], 3, 2, before=visit)
    check(len(held) >= 300, "rank 0 does not listen")
    for s in held:
        s.close()


def case_killed():
    if harness.backend == "delegation":
        r = killed(0, [], 0)
        check(r.status == -signal.SIGKILL and r.out == "", r)
        dead_is_named([*MPIRUN, "--enable-recovery", "-np", "3"], 3, 0)
    dead_is_named([*MPIRUN, "--enable-recovery", "-np", "3"], 3, 2)
    r = reported(lambda env: killed(2, [*MPIRUN, "-np", "2"], 1, env))
    check(r.status != 0, r)
    # The launcher's signal or the death of the rank ends the job, whichever comes first.
    check(partial(r, r"told to stop by SIGTERM|rank 1 \(.+\) has died")["missing_ranks"] == [1], r)
    next_start()


def killed_in_slurm(slurm):
    """A rank is killed in the middle of a run: the other rank detects it, unless Slurm ends the other rank first."""
    dead_is_named(slurm.srun(2, 2), 2, 1, slurm.env(),
                  lambda: [p for p in processes_left() if is_program(p, BENCHKV)],
                  sooner=["task 1: (Exited with exit code 137|Killed)", "task 0: Killed"])
    nothing_left(processes_left)
    check(all(f.startswith("softhca-") for f in left_in_shm()), left_in_shm())


def case_slurm():
    """Ranks on several nodes, where a fence of PMIx also needs messages between the nodes."""
    missing = private_slurm.missing()
    if missing:
        raise Skipped(f"not installed: {missing}; scripts/deps test installs it")
    with tempfile.TemporaryDirectory() as tmp, private_slurm.Slurm(tmp, 4) as slurm:
        if not slurm.has_pmix():
            raise Skipped("Slurm has no PMIx plugin; scripts/deps test installs it")
        # Slurm kills the other rank too, so no rank cleans up.
        argv = slurm.srun(2, 2) + ["--kill-on-bad-exit", KILLED, "delegation", "--ops", "100"]
        for at in range(1, 7) if SOAK else (1, 4):
            check(killed_start(argv, 1, at, slurm.env(), fabric=True), f"no point {at}")
        for nodes, ranks in ((1, 2), (2, 2), (4, 4), (2, 3), (4, 8)) if SOAK else ((1, 2), (2, 3), (4, 4)):
            argv = slurm.srun(nodes, ranks) + [BENCHKV, "delegation", "--ops", "4000",
                                               "--daemons", "2", "--runs", "2", "--json", "-"]
            j = verified(run(argv, slurm.env()), ranks)
            hosts = [r["host"] for r in j["ranks"]]
            check(j["host"] == hosts[0] and len(set(hosts)) == nodes, j)
            check(set(hosts) <= {"n0", "n1", "n2", "n3"}, j)
        for harness.backend in ("delegation", "meta", "direct", *[u[0] for u in UCX]) if SOAK else ("delegation", "direct"):
            killed_in_slurm(slurm)
        harness.backend = "delegation"
        good(2, "--ops", 10)  # removes the files that the killed jobs have left
    nothing_left(lambda: processes_left(tmp))
