#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests `benchkv compare` and `run-pair` with made-up reports, for which this program computes the expected figures.

    compare.py BENCHKV
"""
import json
import math
import os
import random
import re
import select
import signal
import subprocess
import sys
import tempfile
import time

BENCHKV = sys.argv[1]


def check(cond, what):
    if not cond:
        sys.exit(f"compare: {what}")


def report(i, rate, second=0, **other):
    at = 2 * i + second
    return {"time": f"2026-01-01T{at // 3600:02}:{at // 60 % 60:02}:{at % 60:02}Z", "ops_per_s": rate, "errors": 0,
            "backend": "meta", "latency_ns": {"p50": 1e9 / rate}, **other}


def write(name, reports):
    with open(name, "w") as f:
        for r in reports:
            f.write(r if isinstance(r, str) else json.dumps(r) + "\n")
    return name


def run(*args):
    r = subprocess.run([BENCHKV, *map(str, args)], capture_output=True, text=True, timeout=240)
    check(not r.stderr or r.stderr.startswith("benchkv: ") and r.stderr.count("\n") == 1, r)
    return r


def compare(a, b, *args):
    return run("compare", write("a.json", a), write("b.json", b), *args)


def rows(r):
    """Returns the table as a dictionary: by figure, (ratio, lower end of the interval, upper end, verdict)."""
    found = re.findall(r"^([a-z_.0-9]+) +\S+ +\S+ +(\S+)  (?:(\S+) to (\S+))? +(\S.*)$", r.stdout, re.M)
    return {name: (float(ratio), low and float(low), high and float(high), words) for name, ratio, low, high, words in found}


def rank(n):
    """Returns the largest k for which the interval from the k-th to the (n + 1 - k)-th value contains the true median
    with a probability of at least 95 %."""
    k, ways, below = 0, 1, 0  # number of ways for exactly k, and for fewer than k, of n values to be below the median
    while 40 * (below + ways) <= 2**n:
        below += ways
        ways = ways * (n - k) // (k + 1)
        k += 1
    return k


def sides(n, factor, noise, seed):
    draw = random.Random(seed)
    weather = [1000 * math.exp(draw.gauss(0, .5)) for _ in range(n)]  # speed of the machine: the same for both jobs of a pair
    return ([report(i, w * math.exp(draw.gauss(0, noise))) for i, w in enumerate(weather)],
            [report(i, w * factor * math.exp(draw.gauss(0, noise)), 1) for i, w in enumerate(weather)])


def case_intervals():
    for n in *range(10, 40), 100, 1074, 1075, 10000:  # 2**-1075 is 0 as a double
        a, b = sides(n, 1, .1, n)
        of_pairs = sorted(y["ops_per_s"] / x["ops_per_s"] for x, y in zip(a, b))
        k = rank(n)
        ratio, low, high, _ = rows(compare(a, b))["ops_per_s"]
        median = (of_pairs[(n - 1) // 2] + of_pairs[n // 2]) / 2
        for seen, wanted in (ratio, median), (low, of_pairs[k - 1]), (high, of_pairs[n - k]):
            check(abs(seen - wanted) <= .0005001, f"{n} pairs: {seen}, not {wanted}")


def case_verdicts():
    for factor, tolerance, words, status in (
            (.8, .05, "worse by more than 5 %", 3), (1.25, .05, "better by more than 5 %", 0),
            (.8, .5, "the same within 50 %", 0), (1, .05, "the same within 5 %", 0),
            (.9525, .05, "worse", 0), (1.0525, .05, "better", 0), (.93, .06, "worse by more than 6 %", 3)):
        a, b = sides(40, factor, .005, 1)
        r = compare(a, b, "--tolerance", tolerance)
        check(r.returncode == status, r)
        for name in "ops_per_s", "latency_ns.p50":  # a lower latency is better
            check(rows(r)[name][3] == words, f"{factor} {tolerance} {name}: {r.stdout}")
        again = compare(a, b, "--tolerance", tolerance, "--json", "-")
        j = json.loads(again.stdout)
        check(again.returncode == status and j["pairs"] == 40 and j["sides"] == ["a.json", "b.json"], again)
        check({f["figure"]: (f["ratio"], *f["interval"], f["verdict"]) for f in j["figures"]}.keys() == rows(r).keys(), again)
        for f in j["figures"]:
            seen = [f"{x:.3f}" for x in (f["ratio"], *f["interval"])]
            check(seen == [f"{x:.3f}" for x in rows(r)[f["figure"]][:3]] and f["verdict"] == rows(r)[f["figure"]][3], again)
    a, b = sides(10, .99, .2, 1)
    check(rows(compare(a, b))["ops_per_s"][3] == "not decided", "wide")


def case_no_difference():
    """A hundred comparisons of equal settings: in few of them 1 is outside the interval (2 % are expected)."""
    seen = [rows(compare(*sides(10, 1, .05, seed)))["ops_per_s"] for seed in range(100)]
    check(sum(not low <= 1 <= high for _, low, high, _ in seen) <= 6, seen)
    check(not any("more than" in words for *_, words in seen), seen)


def case_too_few():
    a, b = sides(10, .5, .01, 1)
    for what, x, y in (("nine", a[:9], b), ("one after the other", a, [report(i + 100, 1, 1) for i in range(10)]),
                       ("without times", a, [{**r, "time": 5} for r in b])):
        r = compare(x, y)
        check(r.returncode == 0 and rows(r)["ops_per_s"][1:] == ("", "", "too few pairs"), f"{what}: {r}")
    r = compare(a[:1], b[:1])
    check("pairs of jobs that took turns: 1 " in r.stdout, r)
    turned = [{**x, "time": y["time"]} for x, y in zip(a, b)], [{**y, "time": x["time"]} for x, y in zip(a, b)]
    check(rows(compare(*turned))["ops_per_s"][3] == "worse by more than 5 %", "B may be the first of a pair")


def case_settings():
    a, b = sides(10, 1, .01, 1)
    r = compare([{**x, "queue_depth": 8, "software_hca": True} for x in a], [{**x, "backend": "direct"} for x in b])
    check('backend: "meta", "direct"\n' in r.stdout and "queue_depth: 8, none\n" in r.stdout, r)
    check("software HCA" in r.stdout and "host:" not in r.stdout, r)
    check("the jobs of" not in r.stdout, r)
    j = json.loads(compare([{**x, "queue_depth": 8} for x in a], [{**x, "control": "none"} for x in b[:9]] + b[9:], "--json", "-").stdout)
    check(j["differences"] == [{"parameter": "queue_depth", "jobs": "A and B", "values": [8, None]},
                               {"parameter": "control", "jobs": "A and B", "values": [None, "none"]},
                               {"parameter": "control", "jobs": "B", "values": ["none", None]}], j)
    check(json.loads(compare(a, b, "--json", "-").stdout)["differences"] == [], "equal settings differ")
    r = compare([{**x, "control": f"auto:{i // 5},8"} for i, x in enumerate(a)], [{**x, "control": "none"} for x in b])
    check('the jobs of A differ in control: "auto:0,8", "auto:1,8"\n' in r.stdout and "the jobs of B" not in r.stdout, r)
    rung = [[{**x, "copyrpc": {"doorbells_per_op": 1}} for x in side] for side in (a, b)]
    check("copyrpc.doorbells_per_op" in rows(compare(*rung)), "a figure of backends with copyrpc")
    del rung[1][3]["copyrpc"]
    check(rows(compare(*rung)).keys() == {"ops_per_s", "latency_ns.p50"}, "a figure that one report lacks")


def case_bad():
    good = report(0, 5)
    for what, text in (("early", {**good, "partial": True}), ("errors", {**good, "errors": 1}), ("not a report", {}),
                       ("not a report", "[1]"), ("not a report", '{"ops_per_s": 1'), ("not a report", "x"),
                       ("not a report", {**good, "ops_per_s": "5"}), ("not a report", {**good, "ops_per_s": -1}),
                       ("not a report", {**good, "errors": "0"}), ("empty", " \n")):
        for pair in ([good], [good, text]), ([text], [good]):
            if what == "empty" and pair[0] == [good]:
                continue
            r = compare(*pair)
            check(r.returncode == 2 and what in r.stderr and "benchkv: " in r.stderr, f"{text}: {r}")
            check("b.json" in r.stderr if pair[0] == [good] else "a.json" in r.stderr, r)
    for line, said in (("compare", "not 0"), ("compare a.json", "not 1"), ("compare a.json b.json a.json", "not 3"),
                       ("run-pair x", "not 1"), ("compare /nonexistent a.json", "/nonexistent: No such file"),
                       ("compare --pairs 3 a.json b.json", "--pairs does not apply"),
                       ("compare --tolerance 2 a.json b.json", "--tolerance '2' is not valid"), ("direct a.json", "'a.json'"),
                       ("run-pair --save /nonexistent/x true true", "/nonexistent/x.A.json: No such file"),
                       ("run-pair --json /nonexistent/x true true", "/nonexistent/x': No such file")):
        r = run(*line.split())
        check(r.returncode == 2 and said in r.stderr and not r.stdout, f"{line}: {r}")
    write("a.json", [good])
    r = subprocess.run(f"{BENCHKV} compare a.json a.json >/dev/full", shell=True, capture_output=True, text=True)
    check(r.returncode == 1 and "standard output" in r.stderr, r)


def case_run_pair():
    """The commands append to a log, and print a report with 100 or 50 operations per second."""
    def command(letter, rate):
        return f"echo {letter} >>log; cat {write(letter, [report(0, rate)])}; true"
    a, b = command("A", 100), command("B", 50)
    r = run("run-pair", "--save", "saved", a, b)
    check(r.returncode == 3 and rows(r)["ops_per_s"] == (.5, .5, .5, "worse by more than 5 %"), r)
    check(open("log").read().split() == list("ABBA" * 5), open("log").read())
    again = run("compare", "saved.A.json", "saved.B.json")
    check(rows(again) == rows(r) and again.returncode == 3, again)
    check(len(open("saved.A.json").readlines()) == 10, "a line for each report")
    r = run("run-pair", "--save", "saved", a, b)
    check(r.returncode == 2 and "saved.A.json: File exists" in r.stderr, r)
    os.unlink("saved.A.json")
    r = run("run-pair", "--save", "saved", a, b)
    check(r.returncode == 2 and "saved.B.json: File exists" in r.stderr and not os.path.exists("saved.A.json"), r)
    r = run("run-pair", "--save", "failed", "exit 7; true", b)
    check(r.returncode == 1 and not [x for x in os.listdir() if x.startswith("failed")], r)
    r = run("run-pair", "--save", "raced", f"echo mine >raced.A.json; {a}", b)
    check(r.returncode == 1 and "raced.A.json: File exists" in r.stderr and open("raced.A.json").read() == "mine\n", r)
    r = run("run-pair", "--pairs", 3, "--json", "cmp.json", a, b)
    check(r.returncode == 0 and rows(r)["ops_per_s"][3] == "too few pairs", r)
    figure = json.load(open("cmp.json"))["figures"][0]
    check(figure["verdict"] == "too few pairs" and "interval" not in figure, figure)
    for bad, said in (("exit 7; true", "status 7"), ("kill -9 $$; true", "signal 9"), ("echo nothing; true", "not a report")):
        r = run("run-pair", a, bad)
        check(r.returncode == 1 and said in r.stderr, r)
    real = f"{BENCHKV} --ops 1000 --key-range 1000 2>/dev/null"
    r = run("run-pair", "--pairs", 2, real, real)
    check(r.returncode == 0 and rows(r)["latency_ns.p999"][3] == "too few pairs", r)


def stop(command, sig, again=False):
    """Signals a run-pair while its first command runs, and checks that both end. The command opens a FIFO and writes a line
    to it; when the FIFO has no writer any more, all processes of the command have ended. again: repeats the signal."""
    os.mkfifo("fifo")
    proc = subprocess.Popen([BENCHKV, "run-pair", "--save", "stopped", f"exec 3>fifo; {command}; true", "true"],
                            stdin=open(write("input", ["line\n"])), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, start_new_session=True)
    try:
        with open(os.open("fifo", os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as fifo:
            check(select.select([fifo], [], [], 60)[0] and fifo.read(3) == b"up\n", "the command has not begun")
            proc.send_signal(sig)
            end = time.monotonic() + 60
            while not select.select([fifo], [], [], .1 if again else 60)[0]:
                check(again and time.monotonic() < end, f"{sig}: the job goes on")
                proc.send_signal(sig)
            check(not fifo.read(1), "the command has written more")
            out, err = proc.communicate(timeout=60)
    finally:
        os.unlink("fifo")
        proc.kill()
    check(not [x for x in os.listdir() if x.startswith("stopped")], "a report of the job that was stopped")
    check(proc.returncode == 128 + sig and not out and err == f"benchkv: told to stop by {sig.name}\n",
          (proc.returncode, out, err))


def case_stopped():
    """A signal to run-pair ends its job with all processes. A second signal ends a job that ignores the first one."""
    job = "read -r line || { tail -f /dev/null & echo up >&3; wait; }"  # standard input is empty
    for sig in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
        stop(job, sig)
    stop(f"trap '' TERM; {job}", signal.SIGTERM, again=True)


with tempfile.TemporaryDirectory() as directory:
    BENCHKV = os.path.abspath(BENCHKV)
    os.chdir(directory)
    for name, case in list(globals().items()):
        if name.startswith("case_"):
            case()
