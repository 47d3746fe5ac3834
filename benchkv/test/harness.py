# SPDX-License-Identifier: MIT
"""Functions with which the cases of run.py start jobs of benchkv, read their output, and check that nothing is left.

The programs are arguments of run.py. `backend` is the backend of the next job, and a case may set it.
"""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from procs import clients_in_run, running

CASE, _, backend = sys.argv[1].partition(":")
backend = backend or "delegation"
BENCHKV, SOFTHCA_RUN = sys.argv[2:4]
FAULTY, KILLED, ORDERED, FIFTH = (f"{sys.argv[4]}/benchkv-{name}" for name in ("faulty", "killed", "ordered", "fifth"))
DELEGATED = ("delegation", "meta", "owner")  # backends whose daemons make the calls
UCX = [["ucx"]] if "HAVE_UCX" in os.environ else []
NO_CONTROL = ["--control", "none"] if backend in DELEGATED else []
MANY = int(os.environ.get("BENCHKV_TEST_MANY", 1000000))  # operations of long jobs; meson.build sets the variable
SOAK = os.environ.get("SOAK") == "1"
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe"]
GUARD = 240  # seconds until a job counts as hung; less than the time limits of the tests in meson.build
BUSY_NS = 5_000_000  # CPU time that each client uses in a run before a test acts: a few thousand operations
FIELDS = """backend np daemons clients queue_depth duration_s ops ops_per_s remote_ops
    verified errors latency_ns device control digest runs ranks audit
    version time host command requested""".split()
# BENCHKV knows the path of softhca-run; the other programs, which are not installed, find it in PATH.
os.environ["PATH"] += ":" + os.path.dirname(SOFTHCA_RUN)


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


def check(cond, what):
    if not cond:
        raise Failed(what)


class Result:
    def __init__(self, argv, status, out, err):
        self.argv, self.status, self.out, self.err = argv, status, out, err

    def __str__(self):
        return f"{' '.join(self.argv)}\nstatus {self.status}\n{self.out}\n{self.err}"

    def own_lines(self):
        """The lines of benchkv itself, without those of the launcher and the software HCA."""
        return [l for l in self.err.splitlines() if l.startswith("benchkv: ")
                and "software HCA" not in l and "no PMIx launcher" not in l]


def start(argv, env=None):
    """Starts a program. Each mpirun has its own directory: if two share one at the same time, one of them fails."""
    env = {**os.environ, **(env or {})}
    if argv[0] == "mpirun":
        own = tempfile.mkdtemp(prefix="ompi.", dir=env["TMPDIR"])
        env |= {"OMPI_MCA_orte_tmpdir_base": own, "PRTE_MCA_prte_tmpdir_base": own}
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env,
                            start_new_session=True)


def finish(proc, argv, guard=GUARD):
    try:
        out, err = proc.communicate(timeout=guard)
    except subprocess.TimeoutExpired:
        os.killpg(proc.pid, signal.SIGKILL)
        out, err = proc.communicate()
        raise Failed(f"hangs: {Result(argv, None, out, err)}")
    return Result(argv, proc.returncode, out, err)


def run(argv, env=None):
    return finish(start(argv, env), argv)


def job(np, *args, prog=None, default_keys=False):
    """Returns a command line: np ranks under mpirun; np 0: without a launcher. The default key range is not used,
    because its preload takes longer than most of these jobs."""
    head = MPIRUN + ["-np", str(np)] if np else []
    keys = [] if default_keys or {"--key-range", "--dry-run"} & set(args) else ["--key-range", 20000]
    return head + [prog or BENCHKV, backend, *map(str, (*args, *keys))]


def verified(result, np):
    """Checks the result of a job with --json -, and returns its object."""
    check(result.status == 0, result)
    lines = result.out.splitlines()
    check(len(lines) == 1, f"not one line: {result}")
    j = json.loads(lines[0])
    for f in FIELDS:
        check(f in j, f"no '{f}' in {lines[0]}")
    check(j["backend"] == backend and j["np"] == max(np, 1), lines[0])
    check(j["ops"] > 0 and j["verified"] == j["ops"] and j["errors"] == 0, lines[0])
    check((j["remote_ops"] > 0) == (np > 1), lines[0])
    check(j["remote_ops"] < j["ops"], lines[0])
    check((j["device"] == "none") == (np < 2), lines[0])
    lat = j["latency_ns"]
    check((lat["p50"] > 0) == (j["ops"] > j["excluded"]), lines[0])  # on a busy machine all operations may be excluded
    check(lat["p50"] <= lat["p99"] <= lat["p999"] <= lat["max"], lines[0])
    check((lat["mean"] > 0) == (lat["p50"] > 0) and lat["mean"] <= lat["max"], lines[0])
    for rows in "runs", "ranks":
        for f in "ops", "verified", "remote_ops", "errors":
            check(sum(r[f] for r in j[rows]) == j[f], f"{rows}: {f} does not add up: {lines[0]}")
        check(abs(sum(r["cpu_s"] for r in j[rows]) - j["cpu_s"]) < 1e-6, f"{rows}: cpu_s: {lines[0]}")
    check(abs(j["cpu_us_per_op"] * j["ops"] / 1e6 - j["cpu_s"]) < 1e-6 * j["cpu_s"], lines[0])
    check(len(j["ranks"]) == j["np"], lines[0])
    check(result.argv[-len(j["command"]) + 1:] == j["command"][1:], f"{result.argv}: {lines[0]}")
    d, audit = j["daemon"], j["audit"]
    check(audit["verified"] == audit["keys"] and audit["errors"] == 0, lines[0])
    check((audit["keys"] > 0) == (j["read_ratio"] < 1), lines[0])
    check(audit["keys"] == audit["put"] + audit["compared"], lines[0])
    known = not j["rmw"] and not j["distribution"].startswith(("latest", "sequential"))
    check(j["rmw"] or j["swaps"] == j["remote_swaps"] == j["conflicts"] == 0, lines[0])
    check(("detection" in j) == known, lines[0])
    odds = [j["detection"][k] for k in ("one_lost_put", "one_in_10000", "one_in_1000")] if known else []
    check(all(0 <= p <= 1 for p in odds) and odds[1:2] <= odds[2:], lines[0])
    check(not known or (min(odds) > 0) == (j["read_ratio"] < 1), lines[0])
    remote = j["remote_ops"] + j["remote_swaps"] + audit["remote_keys"]
    asked = j["ops"] + j["swaps"] + audit["keys"]
    served = [s for r in j["ranks"] for s in r["served"]]
    check(len(served) == j["np"] * j["daemons"], lines[0])
    check(sum(served) == d["local"] + d["remote"] == asked, lines[0])
    check(d["remote"] == remote, lines[0])
    check(d["forwarded"] <= d["remote"], lines[0])
    # The path of each backend's requests, as counted by the libraries that carry them.
    ways = {"ipc": asked if backend in ("meta", "owner") else asked - remote,
            "ring": remote if backend == "delegation" else 0, "flux": d["forwarded"], "relay": d["relayed"]}
    check(j["ways"] == ways, f"not {ways}: {lines[0]}")
    by_daemons = remote if backend in DELEGATED else 0
    check(d["calls"] == d["responses"] == by_daemons, lines[0])
    check(("copyrpc" in j) == (backend != "ucx"), lines[0])
    if "copyrpc" in j:
        check(j["copyrpc"]["calls"] == j["copyrpc"]["replies"] == remote, lines[0])
    return j


def good(np, *args, env=None, **more):
    """Runs a job, checks that every operation is verified, and returns its object."""
    return verified(run(job(np, *args, "--json", "-", **more), env), np)


def in_time(attempt, *durations):
    """Calls attempt(duration) with one duration after the other until it returns true, because a busy machine does
    little in a short time."""
    check(any(attempt(duration) for duration in durations), f"not in {durations} s")


def refused(r, *words, status=2):
    """Checks that the program printed only one line, with these words. Returns the line."""
    lines = r.own_lines()
    check(r.status == status and r.out == "" and len(lines) == 1, r)
    check(all(word in lines[0] for word in words), r)
    return lines[0]


def taken(path):
    """Returns the lines of a file, and removes it."""
    with open(path) as f:
        lines = f.read().splitlines()
    os.unlink(path)
    return lines


def of_test(name):
    """The path of a file in the directory of this test."""
    return os.path.join(os.environ["TMPDIR"], name)


@contextlib.contextmanager
def going(np, clients, *args):
    """Starts a job, and yields the processes of its ranks when all clients are in a run. At the end stops the job."""
    argv = job(np, *args, "--clients", clients, "--duration", 86400)
    proc = start(argv)
    yield wait_running(proc, np, clients)
    proc.send_signal(signal.SIGTERM)
    finish(proc, argv)


def unverified(r, kinds):
    """Checks that the run failed with an error of these kinds, and that one line names it. Returns the object."""
    check(r.status == 1 and r.out, f"not noticed: {r}")
    j = json.loads(r.out)
    found = [k for k in kinds if j["error_kinds"][k]]
    check(found and j["errors"] > 0, f"none of {kinds}: {r}")
    lines = r.own_lines()
    check(len(lines) == 1 and "not every operation was verified: " in lines[0], r)
    check(any(k.replace("_", " ") in lines[0] for k in found), r)
    return j


def private_shm():
    """Executes this program again with an empty /dev/shm of its own, if that is possible."""
    if "BENCHKV_TEST_PRIVATE" in os.environ or not shutil.which("unshare"):
        return
    probe = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /dev/shm"]
    if subprocess.run(probe, stderr=subprocess.DEVNULL, check=False).returncode:
        return
    os.environ["BENCHKV_TEST_PRIVATE"] = "1"
    os.execvp("unshare", ["unshare", "--mount", "sh", "-c",
                          'mount -t tmpfs none /dev/shm && exec "$@"', "sh", sys.executable]
              + sys.argv)


def left_in_shm():
    if "BENCHKV_TEST_PRIVATE" in os.environ:
        return os.listdir("/dev/shm")
    return [f for f in os.listdir("/dev/shm") if "benchkv" in f]


def processes_left(tmp=None):
    """Returns the processes that have our temporary directory in their environment, whatever their parent is now."""
    mark, found = f"TMPDIR={tmp or os.environ['TMPDIR']}".encode(), []
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            environ = open(f"/proc/{p}/environ", "rb").read().split(b"\0")
        except OSError:
            continue
        if mark in environ and int(p) != os.getpid():
            found.append(int(p))
    return found


def nothing_left(*kinds):
    """Waits until no file and no process is left: the fabric of a killed job is removed later by another process."""
    end = time.monotonic() + GUARD
    while any(left() for left in kinds or (left_in_shm, processes_left)):
        check(time.monotonic() < end, f"left in /dev/shm: {left_in_shm()}, "
              f"processes: {processes_left()}")
        time.sleep(0.1)


def ranks_of(pid, prog=None):
    return running(pid, prog or BENCHKV)


def is_program(pid, prog):
    try:
        return os.readlink(f"/proc/{pid}/exe") == os.path.realpath(prog)
    except OSError:
        return False


def wait_running(proc, np, clients, find=None):
    """Waits until every client of every rank has worked in a run for a while. Returns the processes of the ranks."""
    first, end = {}, time.monotonic() + GUARD
    while time.monotonic() < end:
        pids = find() if find else ranks_of(proc.pid)
        now = {(p, t): ns for p in pids for t, ns in clients_in_run(p).items()}
        for client, ns in now.items():
            first.setdefault(client, ns)
        busy = [c for c, ns in now.items() if ns - first[c] >= BUSY_NS]
        if len(busy) == max(np, 1) * clients:
            return pids
        if proc.poll() is not None:
            raise Failed(f"ended by itself: {finish(proc, proc.args)}")
        time.sleep(0.01)
    raise Failed("the job does not start")


def main(cases):
    """Runs the case. Returns the exit status, which is 77 if the case is skipped."""
    private_shm()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # from meson, when the time of the test is over
    with tempfile.TemporaryDirectory(prefix="benchkv-test-") as tmp:
        os.environ["TMPDIR"] = tmp
        try:
            cases["case_" + CASE]()
            nothing_left()
            left = [f for f in os.listdir(tmp) if not f.startswith(("ompi.", "prte."))]
            check(not left, f"left in the temporary directory: {left}")
        except Failed as e:
            print(f"failed: {e}", file=sys.stderr)
            return 1
        except Skipped as e:
            print(f"skipped: {e}", file=sys.stderr)
            return 77
        finally:
            for pid in processes_left():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    return 0
