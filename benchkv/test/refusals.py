# SPDX-License-Identifier: MIT
"""Cases about errors: a bad command line, a closed stream, a rank that does not come or hangs."""
import json
import os
import re
import signal
import subprocess
import time

from harness import (BENCHKV, FAULTY, Failed, GUARD, MPIRUN, SOFTHCA_RUN, Skipped, UCX, check, finish, job,
                     nothing_left, of_test, refused, run, start, taken, wait_running)
from procs import rank_of


def case_bad():
    """A bad command line: one line that says what to give, and status 2."""
    for args in (["Meta"], ["delegation", "--net-daemons", "2"], ["direct", "--control", "none"],
                 ["delegation", "--daemons", "0"],
                 ["delegation", "--queue-depth", "0"], ["delegation", "--frobnicate"],
                 ["delegation", "--ring-size", "5000"], ["delegation", "--device", "nix"]):
        for head in [], MPIRUN + ["-np", "2"]:
            line = refused(run(head + [BENCHKV, *args]))
            check(re.search("give|--help", line), line)
    for np, status, *args in ((0, 2, "/nonexistent/x", "--duration", 86400),
                              (2, 2, "/nonexistent/x", "--duration", 86400),
                              (0, 1, "/dev/full", "--ops", 10)):
        r = run(job(np, "--json", *args))
        check(r.status == status and len(r.own_lines()) == 1, r)
        check(re.search("No such file|No space", r.err), r)
    for args in ["--help"], ["delegation", "--dry-run"], ["delegation", "--ops", "10"]:
        r = run(["sh", "-c", '"$0" "$@" >/dev/full', BENCHKV, *args])
        check(r.status == 1, r)
    r = run(job(0, "--seed", 2**63 - 1, "--ops", 10, "--json", "-"))
    check(json.loads(r.out)["seed"] == 2**63 - 1, r)
    for args in [], ["delegation"], ["meta"], ["direct"], *[[u[0]] for u in UCX]:
        r = run([BENCHKV, *args, "--help"])
        check(r.status == 0 and "--queue-depth N " in r.out and not r.err, r)
        check(("--control C " in r.out) == (args in ([], ["delegation"], ["meta"])), r)
        check(all(name in r.out for name in args), r)
    refused(run(MPIRUN + ["-np", "1", BENCHKV, "delegation", ":", "-np", "1", BENCHKV, "delegation",
                          "--clients", "3"]),  "has another --clients than rank 0")


def case_misfits():
    """A rank whose device, port or partition does not fit those of rank 0 is reported before the first run."""
    topology = of_test("topology")
    with open(topology, "w") as f:
        f.write("name=mlx5_0\nname=mlx5_1 pkey=0x8123\nname=mlx5_2 mtu=1024\nname=mlx5_3 state=down\n"
                "name=mlx5_4 link=roce\nname=mlx5_5 pkey=0x7fff\n")
    for second, said in (("mlx5_1", "mlx5_1 has the P_Key 0x8123, rank 0's mlx5_0 0xffff"),
                         ("mlx5_3", "mlx5_3 has no active port"), ("mlx5_5", "mlx5_5 is a full member of no partition"),
                         ("mlx5_4", "mlx5_4 uses RoCE, rank 0's mlx5_0 InfiniBand"),
                         ("mlx5_9", "has no mlx5 device mlx5_9: give"),
                         ("mlx5_2", "mlx5_2 has the MTU 1024, rank 0's mlx5_0 4096")):
        rest = ["delegation", "--ops", "100", "--device"]
        r = run([SOFTHCA_RUN, "-t", topology, *MPIRUN, "-np", "1", BENCHKV, *rest, "mlx5_0", ":", "-np", "1", BENCHKV, *rest, second])
        check(len(r.own_lines()) == 1 and "rank 1 (" in r.own_lines()[0] and said in r.own_lines()[0], r)
        check(r.status == (0 if second == "mlx5_2" else 2), r)
    os.unlink(topology)
    r = run([*MPIRUN, "-np", "1", FAULTY, "--ops", "100", ":", "-np", "1", "env", "BENCHKV_FAULT=version", FAULTY, "--ops", "100"])
    lines = [x for x in r.own_lines() if "rank 1" in x]
    check(r.status == 2 and len(lines) == 1 and "has version 99.1, this one" in lines[0] and "install the same" in lines[0], r)


def case_closed():
    """With a closed standard stream nothing is written to a wrong file, and output that cannot be
    written is an error."""
    path = of_test("out.json")
    for np in 0, 2:
        for stream, status in ("<&-", 0), ("2>&-", 0), (">&-", 1), ("<&- >&- 2>&-", 1):
            shell = ["sh", "-c", f'exec "$0" "$@" {stream}', BENCHKV, "delegation", "--ops", "2000",
                     "--trace", path, "--json", path]
            r = run((MPIRUN + ["-np", str(np)] if np else []) + shell)
            check(r.status == status and ("verified" in r.out) == (status == 0), r)
            check(status == 0 or "2>" in stream or "standard output" in r.err, r)
            lines = taken(path)
            check(len(lines) == 1 and json.loads(lines[0])["verified"] == 2000, lines)
            for rank in range(np):
                check(taken(f"{path}.{rank}")[0].startswith("daemon,time_us,"), "the trace")


def case_absent():
    """The second rank is another program: one that sleeps, and one that ends."""
    r = run(job(1, "--timeout", 1) + [":", "-np", "1", "sleep", "60"])
    check(r.status == 1 and "rank 1 did not come within 1 s" in r.err, r)
    r = run(job(1, "--timeout", 1) + [":", "-np", "1", "true"])
    check(r.status != 0, r)


def all_come(argv):
    """Starts a job with a short --timeout, and starts it again if a rank did not come in time on a busy machine. Returns
    the process, and its ranks when they are in a run."""
    for tries in range(10, 0, -1):
        proc = start(argv)
        try:
            return proc, wait_running(proc, 2, 4)
        except Failed as e:
            if tries == 1 or "did not come within 2 s" not in str(e):
                raise


def case_stopped():
    """A rank that hangs in the middle of a run, which is limited by operations or by time."""
    for end in ["--duration", 60], ["--ops", 3 * 10 ** 10]:
        argv, begin = job(2, "--timeout", 2, "--clients", 4, "--json", "-", *end), time.monotonic()
        proc, pids = all_come(argv)
        rank = rank_of(pids[-1])
        os.kill(pids[-1], signal.SIGSTOP)
        # A rank that has ended its operations waits for the others, four times as long as its own run took.
        r = finish(proc, argv, GUARD + 5 * (time.monotonic() - begin))
        said = [l for l in r.own_lines() if f"no answer from rank {rank} for" in l]
        check(len(said) == 1, r)
        # When mpirun of Open MPI 4.1 had to abort a job with a stopped process, it sometimes crashed in
        # its own PMIx server, after benchkv's message. Any other crash is an error.
        check(r.status == 1 or (r.status == -signal.SIGSEGV and "libpmix" in r.err), r)


def case_small():
    """If /dev/shm is too small, benchkv prints one line, and does not die of a bus error."""
    if "BENCHKV_TEST_PRIVATE" not in os.environ:
        raise Skipped("no /dev/shm of its own: run it as root")
    for np, size in (0, "8k"), (2, "256k"):
        subprocess.run(["mount", "-o", f"remount,size={size}", "/dev/shm"], check=True)
        r = run(job(np, "--duration", 86400))
        said = [l for l in r.err.splitlines() if "/dev/shm" in l or "No space left" in l]
        check(r.status == (2 if np else 1) and r.out == "" and len(said) == 1, r)


def case_runner():
    """No device and no software HCA: one line, status 2."""
    path = [d for d in os.environ["PATH"].split(":") if d != os.path.dirname(SOFTHCA_RUN)]
    r = run(job(2, "--duration", 86400, prog=FAULTY), {"PATH": ":".join(path)})
    said = [l for l in r.err.splitlines() if "neither beside this program nor in PATH" in l]
    check(r.status == 2 and r.out == "" and len(said) == 1, r)


def case_launcher():
    """mpirun is killed: the ranks detect it, and end. One rank prints that to a file, the other one to
    a pipe whose reader was mpirun."""
    tmp = os.environ["TMPDIR"]
    shell = (f'[ $PMIX_RANK = 1 ] || exec 2>{tmp}/err; "$0" "$@"; echo $? >{tmp}/part.$PMIX_RANK; '
             f'mv {tmp}/part.$PMIX_RANK {tmp}/status.$PMIX_RANK')
    argv = MPIRUN + ["-np", "2", "sh", "-c", shell, BENCHKV, "delegation", "--clients", "2",
                     "--duration", "86400"]
    proc = start(argv)
    wait_running(proc, 2, 2)
    proc.kill()
    finish(proc, argv)
    nothing_left()
    err = taken(f"{tmp}/err")
    check(err.count("benchkv: rank 0: the launcher has ended") == 1, err)
    for rank in 0, 1:
        status = taken(f"{tmp}/status.{rank}")
        check(status == ["129"], f"rank {rank}: status {status}")
