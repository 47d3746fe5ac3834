# SPDX-License-Identifier: MIT
"""Jobs that end well, of each size and backend: every operation is verified."""
import calendar
import csv
import json
import os
import re
import resource
import time

import harness
from harness import (BENCHKV, FIFTH, MANY, NO_CONTROL, SOAK, UCX, check, finish, good, job, of_test, run, start, taken,
                     verified)


def children_cpu_s():
    """The CPU time of the children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def case_alone():
    start_s, used_s = time.time(), children_cpu_s()
    j = good(0, "--daemons", 2, "--clients", 2, "--ops", 200000, "--runs", 2, default_keys=True)
    used_s = children_cpu_s() - used_s
    # cpu_s does not include the start, the audit and the end.
    check(used_s / 4 < j["cpu_s"] <= used_s, f"{used_s} s: {j}")
    j = good(0, "--daemons", 2, "--clients", 2, "--duration", 0.25)
    check(0.225 < j["duration_s"] and j["requested"] == {"duration_s": 0.25}, j)
    check(j["host"] == j["ranks"][0]["host"] == os.uname().nodename, j)
    check(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", j["time"]), j)
    at = calendar.timegm(time.strptime(j["time"], "%Y-%m-%dT%H:%M:%SZ"))
    check(int(start_s) <= at <= time.time(), j)
    check(run([BENCHKV, "--version"]).out == f"benchkv {j['version']}\n", j)
    r = run(job(0, "--duration", 0.2))
    check(r.status == 0 and "single rank" in r.err and "verified" in r.out and "--mpi" not in r.err, r)
    r = run(job(0, "--ops", 100), {"SLURM_STEP_NUM_TASKS": "4"})
    check(r.status == 0 and "give srun --mpi=pmix" in r.err, r)
    path = of_test("out.json")
    r = run(job(0, "--ops", 1000, "--json", path))
    check(r.status == 0 and "verified" in r.out, r)
    j = json.loads(taken(path)[0])
    check(j["verified"] == 1000 and j["requested"] == {"ops": 1000}, r)


def issue_command(np):
    """Runs a job with default options, except for the size and the time. A quarter of a second suffices for thousands
    of operations. With SOAK, the default backend runs for three seconds."""
    seconds = 3 if SOAK and harness.backend == "delegation" else 0.25
    j = good(np, "--daemons", 2, "--clients", 2, "--queue-depth", 8, "--duration", seconds, default_keys=True)
    check(j["duration_s"] >= seconds, j)
    check(harness.backend == "ucx" or j["copyrpc"]["credit_stalls"] == 0, j)


def case_one():
    issue_command(1)


def case_two():
    issue_command(2)


def case_four():
    issue_command(4)


def case_sixteen():
    good(16, "--daemons", 2, "--key-range", 20000, "--ops", 20000)


def case_hundred():
    """A hundred ranks start, run and end on one machine."""
    argv = job(100, "--clients", 1, "--duration", 2, "--key-range", 10000, "--timeout", 300, "--json", "-")
    r = finish(start(argv), argv, 600)
    check(r.status == 0, r)
    j = json.loads(r.out)
    check(j["np"] == 100 and len(j["ranks"]) == 100 and j["errors"] == 0 and j["verified"] == j["ops"] > 0, j)


def case_digest():
    """The operations are the same each time, however they are carried out."""
    seen = {}
    for np, ops in (0, 9000), (1, 9001), (2, 9000), (3, 5001):
        for more in [], ["--daemons", 2, "--queue-depth", 3, *NO_CONTROL]:
            j = good(np, "--ops", ops, *more)
            check(j["ops"] == ops and seen.setdefault((np, ops), j["digest"]) == j["digest"], j)
    check(good(0, "--ops", 9000, "--seed", 2)["digest"] != seen[0, 9000], seen)


def case_backends():
    """The operations are the same with every backend and number of daemons."""
    seen = set()
    for harness.backend, *more in (["delegation"], ["delegation", "--daemons", 4, "--net-daemons", 3],
                           ["meta"], ["meta", "--daemons", 4], ["direct", "--daemons", 2],
                           ["meta", "--daemons", 4, "--net-daemons", 2], *UCX):
        for np in 0, 3:
            seen.add((np, good(np, "--ops", 9000, *more)["digest"]))
    check(len(seen) == 2, seen)


def case_fifth():
    """A further backend is one file and its line in the list. The program prints its name and help, and runs it."""
    said = run([FIFTH, "--help"]).out
    check("\n  owner                client, shmipc, daemon, copyrpc\n" in said, said)
    said = run([FIFTH, "owner", "--help"]).out
    check("to the daemon of the endpoint.\n" in said and "--ring-size" in said, said)
    harness.backend = "owner"
    for size in [], ["--daemons", 2], ["--daemons", 3, "--net-daemons", 2]:
        good(2, *size, "--ops", 20000, prog=FIFTH)


def case_shared():
    """Daemons that share a rank's endpoints: the owner of an endpoint makes all its calls, no request overtakes
    another one, and tiny rings and full channels stop no daemon."""
    for args in (["--daemons", 3, "--net-daemons", 2], ["--daemons", 4, "--net-daemons", 4]):
        path = of_test("trace")
        j = good(3, *args, "--ring-size", 4096, "--queue-depth", 300, "--clients", 4, "--key-range", 300,
                 "--ops", MANY // 20, "--trace", path)
        check(j["daemon"]["stalled"] > MANY / 2000, f"no backlog: {j}")
        for rank in range(3):
            owners = {str(peer % args[3]) for peer in range(3) if peer != rank}
            found = {l.split(",")[0] for l in taken(f"{path}.{rank}")[1:]}
            check(found == owners if harness.backend == "delegation" else owners <= found, found)


def case_variants():
    """Every control and distribution at least once, in jobs of various sizes. One job must have a backlog."""
    base = ["--json", "-", "--ops", 6000]
    for args in (
        ["--control", "none", "--distribution", "sequential"],
        ["--control", "budget:8", "--distribution", "hotspot:0.01,0.9"],
        ["--control", "threshold:4,8"],
        ["--control", "adaptive-budget", "--queue-depth", 32],
        ["--control", "hold:20", "--queue-depth", 1],
        ["--control", "adaptive-hold", "--daemons", 2],
        ["--control", "little", "--queue-depth", 32, "--clients", 4, "--daemons", 2, "--net-daemons", 2],
        ["--control", "auto:1,1000", "--queue-depth", 32],
        ["--workload", "ycsb-b"],
        ["--preload", "no", "--key-range", 1000, "--daemons", 3, "--workload", "ycsb-d"],
        ["--workload", "ycsb-f", "--key-range", 300, "--daemons", 2, "--runs", 2],
        ["--preload", "no", "--key-range", 1000, "--rmw", "yes", "--read-ratio", 0.2, "--control", "hold:20"],
        ["--key-range", 1, "--daemons", 4],
        ["--ring-size", 4096, "--queue-depth", 300, "--clients", 4, "--daemons", 2],
        ["--queue-depth", 1, "--clients", 1, "--pin", "no"],
        ["--runs", 3, "--clients", 3],
    ):
        r = run(job(2, *base, *args))
        if "--key-range" in args and args[args.index("--key-range") + 1] == 1:
            check(r.status == 0 and json.loads(r.out)["verified"] == 6000, r)
            continue
        j = verified(r, 2)
        check(len(j["runs"]) == (args[args.index("--runs") + 1] if "--runs" in args else 1), r)
        check((j["swaps"] > 0) == bool({"--rmw", "ycsb-f"} & set(args)), r)
        check((j["not_found"] > 0) == ("no" == j_preload(args)), r)
        if "--ring-size" in args:
            check(j["daemon"]["stalled"] > 0, f"no backlog was tried: {r}")


def case_values():
    """Values of more than 8 bytes, in messages or moved by READ and WRITE, also with several daemons and with --rmw.
    put_off, which counts delays of requests, is the sum over the ranks."""
    jobs = [(1 / 2, "8:5,1000-65536:5", "--daemons", 2, "--key-range", 300, "--workload", "ycsb-a"),
            (1 / 6, "8:5,1000:1", "--key-range", 2000, "--workload", "ycsb-d", "--preload", "no"),
            (1 / 2, "64-3000", "--key-range", 200, "--workload", "ycsb-f", "--daemons", 2)]
    for long, size, *args in jobs if harness.backend == "delegation" else jobs[:1]:
        j = good(2, "--ops", 2000, "--queue-depth", 16, "--value-size", size, *args)
        check(j["value_size"] == size, j)
        # Long values must not overtake each other. Swaps may.
        check(j["put_off"] > 0 or "ycsb-f" in args, j)
        check(j["put_off"] == sum(row["put_off"] for row in j["ranks"]), j)
        # A long value needs a WQE of its own. Half of the expected number allows for chance.
        found = j["remote_ops"] * (1 - j["not_found"] / j["ops"])
        c = j["copyrpc"]
        check(c["wqes"] - c["batches"] > found * long / 2, j)
        check(c["moved"] > found * long / 2 * 992, j)
        per_op = (c["bytes"] + c["moved"]) / (j["ops"] + j["audit"]["keys"])
        check(abs(c["bytes_per_op"] - per_op) < 1e-6 * per_op, j)


def j_preload(args):
    return args[args.index("--preload") + 1] if "--preload" in args else "yes"


def case_paths():
    """Requests take the path that their key determines, and every shard gets its share."""
    for np, daemons in (2, 4), (4, 2), (1, 3):
        j = good(np, "--daemons", daemons, "--ops", 40000)
        d, n = j["daemon"], j["ops"] + j["audit"]["keys"]
        check(d["local"] + d["remote"] == n, j)
        near(d["remote"], n, 1 - 1 / np, j)
        # Clients with endpoints of their own send to the daemon of the key.
        forwarded = harness.backend in ("delegation", "meta")
        near(d["forwarded"], d["remote"], forwarded * (1 - 1 / daemons), j)
        # With meta a daemon relays a request if it does not have the endpoint.
        near(d["relayed"], d["calls"], (harness.backend == "meta") * (1 - 1 / daemons), j)
        for rank in j["ranks"]:
            for served in rank["served"]:
                near(served, n, 1 / np / daemons, j)


def near(count, n, p, j):
    """Checks that count of n trials had an event of probability p, within six standard deviations. Each key that was put
    is counted twice, by its put and in the audit, which at most doubles the variance."""
    check(abs(count - n * p) <= 6 * (2 * n * p * (1 - p)) ** 0.5, f"{count} of {n}, not {p}: {j}")


def case_intervals():
    """Throughput and latency over time, of each run: every measured operation is in one interval."""
    names = [of_test("a.csv"), of_test("a.json")]
    for args in (["--duration", 0.5, "--interval", 0.1, "--warmup", 0.2, "--runs", 2],
                 ["--ops", 6000, "--interval", 0.05, "--rate", 20000]):
        for np, path in (0, names[0]), (2, names[1]):
            j = good(np, *args, "--series", path)
            rows, lines = j["intervals"], taken(path)
            check(sum(r["ops"] for r in rows) == j["ops"] - j["excluded"], j)
            for k, run_row in enumerate(j["runs"]):
                of_run = [r for r in rows if r["run"] == k]
                end = 0
                for r in of_run:
                    check(abs(r["start_s"] - end) < 1e-9 and (r["duration_s"] == args[3] or r is of_run[-1]), j)
                    check(abs(r["ops_per_s"] * r["duration_s"] - r["ops"]) <= 1e-6 * r["ops"], j)
                    end = r["start_s"] + r["duration_s"]
                check(abs(end - run_row["duration_s"]) < 1e-9 and of_run[-1]["start_s"] < end, j)
                check(args[0] == "--ops" or len(of_run) == 5, j)
                high = max(r["latency_ns"]["max"] for r in of_run)
                whole = run_row["latencies_ns"].get("due", run_row["latency_ns"])["max"]
                check(whole <= high <= whole * 33 / 32, j)
            if path == names[1]:
                check([json.loads(line) for line in lines] == rows, lines)
            else:
                fields = [[float(x) for x in line.split(",")] for line in lines[1:]]
                check(lines[0] == "run,start_s,duration_s,ops,ops_per_s,p50_ns,p99_ns,p999_ns,max_ns", lines)
                check(len(fields) == len(rows) and all(
                    f[0] == r["run"] and f[3] == r["ops"] and f[5:] == list(r["latency_ns"].values())
                    for f, r in zip(fields, rows)), lines)
    r = run(job(0, "--duration", 0.2, "--interval", 0.1))
    check(len(re.findall(r"^0 +0\.[01]00 +0\.", r.out, re.M)) == 2, r)


def case_tiny():
    """Both sides always have more to send than the rings hold: no side waits for ever, and no
    request overtakes an earlier one for the same key (there are few keys)."""
    j = good(2, "--ring-size", 4096, "--queue-depth", 300, "--clients", 4, "--daemons", 2, "--key-range", 300,
             "--ops", MANY)
    check(j["ops"] == MANY and j["daemon"]["stalled"] > MANY / 100, f"no backlog: {j}")
    check(j["copyrpc"]["ring_stalls"] + j["copyrpc"]["credit_stalls"] > MANY / 100, j)


def case_held():
    """Daemons forward more requests to another daemon than it has room for: the requests keep their order."""
    path = of_test("trace")
    good(2, "--queue-depth", 2000, "--clients", 4, "--daemons", 2, "--key-range", 300, "--ops", MANY // 2,
         "--trace", path)
    rows = [row for rank in (0, 1) for row in csv.DictReader(taken(f"{path}.{rank}"))]
    check(max(int(row["held"]) for row in rows) > 0, "no worker was short of room")


def case_deep():
    """46 clients with 256 requests each."""
    good(2, "--clients", 46, "--queue-depth", 256, "--ops", MANY // 4, "--timeout", 90)


def case_stream():
    """Operations do not repeat: with many keys, nearly all puts have keys of their own. With few keys, the reported
    probabilities to find a loss agree with each other."""
    j = good(0, "--key-range", 2**32 - 1, "--preload", "no", "--read-ratio", 0, "--ops", MANY)
    check(j["audit"]["put"] >= 0.999 * j["ops"], j["audit"])
    check(j["detection"]["one_lost_put"] > 0.99, j["detection"])
    j = good(0, "--key-range", 100, "--ops", 20000)
    check(j["audit"]["put"] == j["audit"]["compared"] == 200, j["audit"])
    one, many, more = (j["detection"][k] for k in ("one_lost_put", "one_in_10000", "one_in_1000"))
    check(0 < one < 0.6 and abs(many - (1 - (1 - one / 1e4) ** 10000)) < 1e-6 and more > 0.9, j)


def case_crowd():
    """Hundreds of threads on few cores come to an end."""
    for args in ["--clients", 256], ["--daemons", 64, "--clients", 64]:
        r = run(job(2, "--ops", 2000, *args, "--json", "-"))
        check(r.status == 0 and json.loads(r.out)["verified"] == 2000, r)
