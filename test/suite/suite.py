# SPDX-License-Identifier: MIT
"""Builds the tree four times and runs the tests of all builds; see scripts/test.

    suite.py BOX [--soak K/N]

The builds follow each other. The tests of a build run while the next build compiles, so that no core is idle while
tests sleep. If root runs suite.py, each test has its own /dev/shm and network (box.c). The output ends with the CPU and
wall seconds of each build and suite and of the most expensive tests, then the tests that were skipped or failed.

--soak runs the K-th of N parts of the long form: tests of all builds, and mutants. The names and time limits of all
tests decide which part a test belongs to, so each machine divides the tests in the same way.
"""
import collections
import dataclasses
import fnmatch
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
MOST_EXPENSIVE = 20
BUDGET = 10  # CPU seconds of a test; those that are known to need more:
OVER_BUDGET = {"documents", "subproject", "delegrpc-model-ring"}
LINES_OF_A_FAILURE = 30
# A sanitizer's report needs only line numbers. More debug information, with optimisation, doubles the compile time.
SANITIZED = ["-Doptimization=0", "-Dc_args=-g1", "-Db_lundef=false", "-Dpeers=disabled"]


@dataclasses.dataclass
class Build:
    name: str
    suites: list
    options: list
    short: list = dataclasses.field(default_factory=list)  # more options of the default form,
    long: list = dataclasses.field(default_factory=list)  # and of the long form
    env: dict = dataclasses.field(default_factory=dict)
    steps: dict = dataclasses.field(default_factory=dict)  # name of a step: (CPU seconds, wall seconds)
    status: bool = False  # whether a test failed

    @property
    def dir(self):
        return TOP / f"build-{self.name}"


RDMA = ["-Drdma=enabled", "-Dpmix=enabled"]
CROSS_CCACHE = ["--cross-file", "scripts/aarch64-ccache.ini"] if shutil.which("ccache") else []
BUILDS = [
    # -Dhwcheck builds mlx5rpc-hw-check, which otherwise only the Debian packages contain.
    Build("test", ["unit", "integration", "stress", "conformance", "layers"], RDMA + ["-Dhwcheck=enabled"]),
    # -Dpeers=disabled leaves out the programs with which benches compare: these builds run no bench.
    Build("tsan", ["unit", "integration"], ["-Db_sanitize=thread"] + SANITIZED + RDMA,
          env={"TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1"}),
    Build("asan", ["unit", "integration"], ["-Db_sanitize=address,undefined"] + SANITIZED + RDMA,
          env={"ASAN_OPTIONS": "verify_asan_link_order=0:detect_stack_use_after_return=0",
               "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}),
    # arm64 by cross compiler and qemu-user: everything that needs no device. With -O2 compiling takes twice as long.
    # This build is the last one because its tests take the least time: nothing is compiled while the last tests run.
    Build("arm64", ["unit"], ["--cross-file", "scripts/aarch64.ini", *CROSS_CCACHE, "-Dpeers=disabled", "-Dc_args=-g1",
                             "-Dlayers=latrec,delegrpc,shmipc,flux"],
          ["-Doptimization=1"], ["-Doptimization=2"]),
]


def step(build, name, command, log):
    """Runs a command of a build and records its time. Returns true if it ended with 0."""
    begun = time.monotonic()
    env = dict(os.environ, **build.env)
    softhcactl = build.dir / "subprojects/softhca/src/run/softhcactl"
    if softhcactl.exists():
        env["BOX_CLEANER"] = f"{softhcactl} list >/dev/null"
    with open(log, "w") as out:
        p = subprocess.Popen(command, cwd=TOP, env=env, stdout=out,
                             stderr=subprocess.STDOUT)
        _, status, used = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    build.steps[name] = (used.ru_utime + used.ru_stime, time.monotonic() - begun)
    return p.returncode == 0


def compile_it(build, soak):
    log = TOP / f"build-{build.name}.log"
    options = [f"-Dsoak={str(soak).lower()}"] + build.options + (build.long if soak else build.short)
    if (build.dir / "build.ninja").exists():
        setup = ["meson", "configure", str(build.dir)] + [o for o in options if o.startswith("-D")]
    else:
        setup = ["meson", "setup", str(build.dir)] + options
    # Compiles with the same priority as the tests that run meanwhile. With a lower priority the last build ended so
    # late that its tests ran alone, on half of the cores.
    ninja = ["ninja", "-C", str(build.dir), "--quiet", "-j", str(os.cpu_count())]
    for name, command in {"setup": lambda: setup, "compile": lambda: ninja + targets(build, soak)}.items():
        if not step(build, name, command(), log):
            print(log.read_text())
            sys.exit(f"test: {build.name} does not build")
    log.unlink()
    say(build, "is built")


def targets(build, soak):
    """Returns the targets to build; [] means all. Builds other than `test` build only what their tests need,
    because building everything would take twice as long."""
    if build.name == "test" or soak:
        return [] if build.name == "test" else ["meson-test-prereq"]
    files = {t["id"]: t["filename"] for t in introspect(build, "targets")}
    needed = {f for t in without_left_out(build, of_suites(build)) for i in t["depends"] for f in files.get(i, [])}
    return sorted(os.path.relpath(f, build.dir) for f in needed)


def introspect(build, what):
    return json.loads((build.dir / f"meson-info/intro-{what}.json").read_text())


def of_suites(build):
    return [t for t in introspect(build, "tests") if {s.split(":")[-1] for s in t["suite"]} & set(build.suites)]


def tests_of(build, soak):
    rows = of_suites(build)
    if soak:
        return rows
    one_thread = {t["name"] for t in rows if build.name == "tsan" and has_one_thread(build, t)}
    return [t for t in without_left_out(build, rows) if t["name"] not in one_thread]


def without_left_out(build, rows):
    """Returns the tests, except those that left-out.txt lists for this build. A pattern in left-out.txt that fits no
    test is an error."""
    out = set()
    for line in (TOP / "test/suite/left-out.txt").read_text().splitlines():
        builds, _, patterns = line.partition(":")
        if line.startswith("#") or build.name not in builds.split():
            continue
        for pattern in patterns.split():
            fits = {t["name"] for t in rows if fnmatch.fnmatchcase(t["name"], pattern.removeprefix("+"))}
            if not fits:
                sys.exit(f"test: left-out.txt: {build.name} has no test {pattern}")
            out = out - fits if pattern.startswith("+") else out | fits
    return [t for t in rows if t["name"] not in out]


def has_one_thread(build, test):
    """Returns true if a test is one program of C that starts no thread, itself or by a library of this build."""
    program, *more = test["cmd"]
    if not program.startswith(str(build.dir)) or not os.path.exists(program) or "LD_PRELOAD" in test["env"] or any("/" in text for text in more):
        return False
    needed = subprocess.run(["ldd", program], capture_output=True, text=True).stdout.split()
    files = [program] + [f for f in needed if str(build.dir) in f]
    return b"pthread_create" not in subprocess.run(["nm", "-D", "-u", *files], capture_output=True, check=True).stdout


@functools.cache
def boxed(box):
    """Returns true if box.c can give each test namespaces of its own, for which it needs root."""
    return subprocess.run([box, "true"], capture_output=True).returncode == 0


def streams_of(tests, box):
    """Returns lists of tests, which run at the same time, each with a number of processes and the wrapper of its tests.
    Tests that meson would run alone share ports and files. In boxes they do not disturb each other, so they form two
    more lists. Tests of packages install from the network, so they have no box."""
    # More processes than cores, because many tests sleep.
    processes = os.cpu_count() + 1
    if not boxed(box):
        return [(sorted({t["name"] for t in tests}), processes, f"{box} -n")]
    outside = [t["name"] for t in tests if any(s.endswith(":package") for s in t["suite"])]
    tests = [t for t in tests if t["name"] not in outside]
    alone = [t["name"] for t in sorted(tests, key=lambda t: -t["timeout"]) if not t["is_parallel"]]
    others = sorted({t["name"] for t in tests} - set(alone))
    lists = (others, processes, box), (alone[::2], 1, box), (alone[1::2], 1, box), (outside, 1, f"{box} -n")
    return [stream for stream in lists if stream[0]]


def run_tests(build, box, tests):
    """Runs these tests of a build."""
    def run(number, names, processes, wrapper):
        command = ["meson", "test", "-C", str(build.dir), "--no-rebuild", "--quiet",
                   "--wrapper", wrapper, "--logbase", f"stream-{number}", "--num-processes", str(processes),
                   # Time limits only end tests that hang, so they allow for other work on the machine.
                   "--timeout-multiplier", "20"]
        good = step(build, f"tests {number}", command + names, build.dir / f"stream-{number}.log")
        build.status |= not good

    for log in build.dir.glob("meson-logs/stream-*"):
        log.unlink()
    threads = [threading.Thread(target=run, args=(i, *stream)) for i, stream in enumerate(streams_of(tests, box))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    say(build, f"{len(tests)} tests have ended" + (", some failed" if build.status else ""))


def say(build, what):
    print(f"{time.strftime('%H:%M:%S')} {build.name}: {what}", flush=True)


@dataclasses.dataclass
class Result:
    build: str
    suite: str
    name: str
    word: str
    wall: float
    cpu: float
    said: str


def results(build):
    logs = sorted(build.dir.glob("meson-logs/stream-*.json"))
    for row in (json.loads(line) for log in logs for line in log.read_text().splitlines()):
        suite, _, name = row["name"].rpartition(" / ")
        said, errors = row.get("stdout") or "", row.get("stderr") or ""
        cpu = re.search(r"^box: cpu ([0-9.]+)$", errors, re.M)
        suites = re.split("[:+]", suite)
        main = next((s for s in build.suites if s in suites), suites[-1])
        yield Result(f"build-{build.name}", main, name, row["result"], row["duration"],
                     float(cpu[1]) if cpu else 0.0, said + re.sub(r"^box: cpu .*\n", "", errors, flags=re.M))


def expected_skips():
    lines = (TOP / "scripts/expected-skips").read_text().splitlines()
    entries = [line.split(None, 2) for line in lines if line.strip() and line[0] != "#"]
    return {(build, name): reason.strip() for build, name, reason in entries}


def print_outcome(rows):
    """Returns true if each test passed or was skipped as expected, and a line with the numbers of tests."""
    expected, good = expected_skips(), True
    counts = collections.Counter()
    for r in rows:
        if r.word in ("OK", "EXPECTEDFAIL"):
            counts["passed"] += 1
        elif r.word == "SKIP":
            counts["skipped"] += 1
            reason = expected.get((r.build, r.name))
            last = " ".join(r.said.strip().splitlines()[-1:])
            print(f"skipped in {r.build}: {r.name}:", reason or f"UNEXPECTED: {last}")
            good = good and bool(reason)
        else:
            counts["failed"] += 1
            good = False
            print(f"failed in {r.build}: {r.name}: {r.word} after {r.wall:.1f} s")
            for line in r.said.splitlines()[-LINES_OF_A_FAILURE:]:
                print("   ", line)
    return good, f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"


def print_times(builds, rows, soak):
    print(f"\n{'':31}{'tests':>6}{'CPU s':>9}{'wall s':>9}")
    total = 0.0
    for b in builds:
        tested = sum(r.cpu for r in rows if r.build == f"build-{b.name}")
        meson = [t for name, t in b.steps.items() if name.startswith("tests")]
        b.steps["meson test"] = max(0, sum(c for c, _ in meson) - tested), max((w for _, w in meson), default=0)
        for name in ("setup", "compile", "meson test"):
            cpu, wall = b.steps.get(name, (0, 0))
            total += cpu
            print(f"{'build-' + b.name:13}{name:18}{'':6}{cpu:9.0f}{wall:9.0f}")
        suites = collections.defaultdict(list)
        for r in rows:
            if r.build == f"build-{b.name}":
                suites[r.suite].append(r)
        for suite, mine in suites.items():
            cpu = sum(r.cpu for r in mine)
            total += cpu
            print(f"{'build-' + b.name:13}{suite:18}{len(mine):6}{cpu:9.0f}{sum(r.wall for r in mine):9.0f}")
    print(f"\nThe {MOST_EXPENSIVE} most expensive tests:")
    for r in sorted(rows, key=lambda r: -r.cpu)[:MOST_EXPENSIVE]:
        print(f"{r.build:13}{r.name:36}{r.cpu:7.1f}{r.wall:9.1f}")
    for r in rows:
        if r.cpu > BUDGET and r.name not in OVER_BUDGET and not soak:
            print(f"over the budget of {BUDGET} CPU seconds: {r.name} in {r.build}")
    return total


def divide(costs, parts):
    """Divides the names, so that the sums of their costs are about the same."""
    sums, names = [0.0] * parts, [[] for _ in range(parts)]
    for cost, name in sorted(((c, n) for n, c in costs.items()), reverse=True):
        least = sums.index(min(sums))
        sums[least] += cost
        names[least].append(name)
    return names


def share(builds, k, n):
    """Returns the K-th of N parts: a dict from each build to the names of its tests."""
    costs = {(b.name, t["name"]): t["timeout"] for b in builds for t in tests_of(b, True)}
    mine = collections.defaultdict(list)
    for build, name in divide(costs, n)[k - 1]:
        mine[build].append(name)
    return mine


def mutants(part):
    command = [sys.executable, str(TOP / "test/mutants/run.py"), str(TOP), "--part", part]
    return subprocess.run(command, cwd=TOP).returncode == 0


def shared_files(box):
    """Returns the files in /dev/shm, or nothing if tests run in boxes: box.c checks for such files."""
    return set() if boxed(box) else set(os.listdir("/dev/shm"))


def run_all(box, part):
    begun = time.monotonic()
    threads, good, before = [], True, shared_files(box)
    if part:
        for b in BUILDS:
            # The first build contains what the tests of packages need.
            b.suites = b.suites + (["package"] if b.name == "test" else [])
            compile_it(b, True)
        mine = share(BUILDS, *part)
        for b in BUILDS:
            run_tests(b, box, [t for t in tests_of(b, True) if t["name"] in mine[b.name]])
        good = mutants("%d/%d" % part)
    else:
        for b in BUILDS:
            compile_it(b, False)
            threads.append(threading.Thread(target=run_tests, args=(b, box, tests_of(b, False))))
            threads[-1].start()
            if not boxed(box):
                threads[-1].join()
        for t in threads:
            t.join()
    rows = [r for b in BUILDS for r in results(b)]
    cpu = print_times(BUILDS, rows, bool(part))
    passed, counts = print_outcome(rows)
    wall = time.monotonic() - begun
    print(f"{counts}; {cpu:.0f} CPU seconds in {wall:.0f} s")
    left = shared_files(box) - before
    if left:
        print(f"left behind in /dev/shm: {' '.join(sorted(left))}")
    return good and passed and not left and not any(b.status for b in BUILDS)


def main():
    box, part = sys.argv[1], None
    if sys.argv[2:]:
        found = re.fullmatch(r"([0-9]+)/([0-9]+)", sys.argv[3] if sys.argv[2] == "--soak" and sys.argv[3:] else "")
        if not found or not 1 <= int(found[1]) <= int(found[2]):
            sys.exit("test: give --soak K/N, with K from 1 to N, or nothing")
        part = int(found[1]), int(found[2])
    return 0 if run_all(box, part) else 1


if __name__ == "__main__":
    sys.exit(main())
