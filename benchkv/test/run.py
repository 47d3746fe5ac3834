#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""benchkv as it is used: started by mpirun and without it, on the software HCA.

    run.py CASE[:BACKEND] BENCHKV SOFTHCA-RUN DIRECTORY-OF-TEST-PROGRAMS

Every case runs with a /dev/shm and a temporary directory of its own, which must be
empty at the end, and must leave no process.
"""
import calendar
import json
import os
import re
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import decisions
import harness
import plans
import slurm as private_slurm
from harness import (BENCHKV, FAULTY, FIFTH, GUARD, KILLED, MANY, MPIRUN, NO_CONTROL, ORDERED, SOFTHCA_RUN,
                     Skipped, UCX, check, finish, is_program, job, left_in_shm, main, nothing_left,
                     processes_left, ranks_of, run, start, unverified, verified, wait_running)
from plans import plan
from procs import asleep, clients_in_run, listening_ports, rank_of, resident, state, threads

PHASES = "local channels network calls retry flush forward".split()  # A to G
# Faults of the store, and what each of them counts as, at least one of the kinds.
STORE_FAULTS = {"lose-all": ["forgotten"], "lose": ["forgotten"], "replay": ["stale"],
                "age": ["forgotten", "stale"], "invent": ["invented"], "forget": ["forgotten"],
                "vanish": ["forgotten"], "wrong-key": ["invented"]}
# Faults with which clients share nothing or look at nothing, and what each must count as, of all
# kinds that are named; "unsent" only where there are other ranks.
UNSHARED = {"private": ["stale", "forgotten"], "client-private": ["stale", "unsent"],
            "client-remote": ["stale", "unsent"], "client-cache": ["stale", "unsent"],
            "client-run": ["stale", "unsent"], "lag": ["stale"],
            "skip-half": ["skipped"], "skip-one": ["skipped"], "skip-all": ["skipped"]}


def children_cpu_s():
    """The CPU time of the children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def case_alone():
    start_s, used_s = time.time(), children_cpu_s()
    j = verified(run(job(0, "--daemons", 2, "--clients", 2, "--duration", 1, "--json", "-")), 0)
    used_s = children_cpu_s() - used_s
    # The rest is the start, the audit and the end.
    check(used_s / 4 < j["cpu_s"] <= used_s, f"{used_s} s: {j}")
    check(0.9 < j["duration_s"] and j["requested"] == {"duration_s": 1}, j)
    check(j["host"] == j["ranks"][0]["host"] == os.uname().nodename, j)
    check(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", j["time"]), j)
    at = calendar.timegm(time.strptime(j["time"], "%Y-%m-%dT%H:%M:%SZ"))
    check(int(start_s) <= at <= time.time(), j)
    check(run([BENCHKV, "--version"]).out == f"benchkv {j['version']}\n", j)
    r = run(job(0, "--duration", 0.2))
    check(r.status == 0 and "single rank" in r.err and "verified" in r.out, r)
    path = os.path.join(os.environ["TMPDIR"], "out.json")
    r = run(job(0, "--ops", 1000, "--json", path))
    check(r.status == 0 and "verified" in r.out, r)
    j = json.load(open(path))
    check(j["verified"] == 1000 and j["requested"] == {"ops": 1000}, r)
    os.unlink(path)


def issue_command(np):
    args = ["--daemons", 2, "--clients", 2, "--queue-depth", 8, "--duration", 3, "--json", "-"]
    j = verified(run(job(np, *args)), np)
    check(j["duration_s"] >= 3, j)
    check(harness.backend == "ucx" or j["copyrpc"]["credit_stalls"] == 0, j)


def case_one():
    issue_command(1)


def case_two():
    issue_command(2)


def case_four():
    issue_command(4)


def case_sixteen():
    verified(run(job(16, "--daemons", 2, "--key-range", 20000, "--ops", 20000, "--json", "-")), 16)


def case_digest():
    """The same operations each time, however they are carried out."""
    seen = {}
    for np, ops in (0, 9000), (1, 9001), (2, 9000), (3, 5001):
        for more in [], ["--daemons", 2, "--queue-depth", 3, *NO_CONTROL]:
            r = run(job(np, "--ops", ops, "--json", "-", *more))
            j = verified(r, np)
            check(j["ops"] == ops, r)
            check(seen.setdefault((np, ops), j["digest"]) == j["digest"], r)
    r = run(job(0, "--ops", 9000, "--seed", 2, "--json", "-"))
    check(verified(r, 0)["digest"] != seen[0, 9000], r)


def case_backends():
    """The same operations, whatever their way, and by however many daemons."""
    seen = set()
    for harness.backend, *more in (["delegation"], ["delegation", "--daemons", 4, "--net-daemons", 3],
                           ["meta"], ["meta", "--daemons", 4], ["direct", "--daemons", 2],
                           ["meta", "--daemons", 4, "--net-daemons", 2], *UCX):
        for np in 0, 3:
            j = verified(run(job(np, "--ops", 9000, "--json", "-", *more)), np)
            seen.add((np, j["digest"]))
    check(len(seen) == 2, seen)


def case_fifth():
    """A backend more is one file and its line in the list: the program knows it by name and help, and runs it."""
    said = run([FIFTH, "--help"]).out
    check("\n  owner                client, shmipc, daemon, copyrpc\n" in said, said)
    said = run([FIFTH, "owner", "--help"]).out
    check("to the daemon of the endpoint.\n" in said and "--ring-size" in said, said)
    harness.backend = "owner"
    for size in [], ["--daemons", 2], ["--daemons", 3, "--net-daemons", 2]:
        verified(run(job(2, *size, "--ops", 20000, "--json", "-", prog=FIFTH)), 2)


def case_shared():
    """Daemons that share a rank's endpoints: each call is one of the owner's, no request overtakes
    another one, and tiny rings and full channels stop nobody."""
    for args in (["--daemons", 3, "--net-daemons", 2], ["--daemons", 4, "--net-daemons", 4]):
        path = os.path.join(os.environ["TMPDIR"], "trace")
        r = run(job(3, *args, "--ring-size", 4096, "--queue-depth", 300, "--clients", 4, "--key-range",
                    300, "--ops", MANY // 20, "--trace", path, "--json", "-"))
        j = verified(r, 3)
        check(j["daemon"]["stalled"] > MANY / 2000, f"no backlog: {r}")
        for rank in range(3):
            lines = open(f"{path}.{rank}").read().splitlines()
            os.unlink(f"{path}.{rank}")
            owners = {str(peer % args[3]) for peer in range(3) if peer != rank}
            found = {l.split(",")[0] for l in lines[1:]}
            check(found == owners if harness.backend == "delegation" else owners <= found, found)


def case_variants():
    """Every control, distribution and size at least once, backlogs included."""
    base = ["--json", "-", "--ops", 6000]
    for args in (
        ["--control", "none"],
        ["--control", "budget:8"],
        ["--control", "threshold:4,8"],
        ["--control", "adaptive-budget", "--queue-depth", 32],
        ["--control", "hold:20", "--queue-depth", 1],
        ["--control", "adaptive-hold", "--daemons", 2],
        ["--control", "little", "--queue-depth", 32, "--clients", 4, "--daemons", 2, "--net-daemons", 2],
        ["--control", "auto:1,1000", "--queue-depth", 32],
        ["--distribution", "zipf:0.99", "--read-ratio", 0.95],
        ["--preload", "no", "--key-range", 1000, "--daemons", 3],
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
        check(len(j["runs"]) == (3 if "--runs" in args else 1), r)
        check((j["not_found"] > 0) == ("no" == j_preload(args)), r)
        if "--ring-size" in args:
            check(j["daemon"]["stalled"] > 0, f"no backlog was tried: {r}")


def j_preload(args):
    return args[args.index("--preload") + 1] if "--preload" in args else "yes"


def case_paths():
    """Requests take the way that their key says, and every shard gets its share."""
    for np, daemons in (2, 4), (4, 2), (1, 3):
        r = run(job(np, "--daemons", daemons, "--ops", 40000, "--json", "-"))
        j = verified(r, np)
        d, n = j["daemon"], j["ops"] + j["audit"]["keys"]
        check(d["local"] + d["remote"] == n, r)
        near(d["remote"], n, 1 - 1 / np, r)
        # Clients that have endpoints of their own know the daemon of a key.
        forwarded = harness.backend in ("delegation", "meta")
        near(d["forwarded"], d["remote"], forwarded * (1 - 1 / daemons), r)
        # A daemon of meta has the request and not the endpoint, as often as it is not the owner.
        near(d["relayed"], d["calls"], (harness.backend == "meta") * (1 - 1 / daemons), r)
        for rank in j["ranks"]:
            for served in rank["served"]:
                near(served, n, 1 / np / daemons, r)


def near(count, n, p, r):
    """n tosses with probability p, within six standard deviations; each key that was put is
    counted twice, as its put and in the audit, which at most doubles the variance."""
    check(abs(count - n * p) <= 6 * (2 * n * p * (1 - p)) ** 0.5, f"{count} of {n}, not {p}: {r}")


def case_tiny():
    """Both sides always have more to send than the rings hold: nobody waits for ever, and no
    request overtakes an earlier one for the same key, of which there are few."""
    r = run(job(2, "--ring-size", 4096, "--queue-depth", 300, "--clients", 4, "--daemons", 2,
                "--key-range", 300, "--ops", MANY, "--json", "-"))
    j = verified(r, 2)
    check(j["ops"] == MANY and j["daemon"]["stalled"] > MANY / 100, f"no backlog: {r}")
    check(j["copyrpc"]["ring_stalls"] + j["copyrpc"]["credit_stalls"] > MANY / 100, r)


def case_held():
    """More requests for a worker than it has room for: they keep their order, too."""
    path = os.path.join(os.environ["TMPDIR"], "trace")
    verified(run(job(2, "--queue-depth", 2000, "--clients", 4, "--daemons", 2, "--key-range", 300,
                     "--ops", MANY // 2, "--trace", path, "--json", "-")), 2)
    held = 0
    for rank in 0, 1:
        lines = open(f"{path}.{rank}").read().splitlines()
        os.unlink(f"{path}.{rank}")
        column = lines[0].split(",").index("held")
        held = max(held, *(int(l.split(",")[column]) for l in lines[1:]))
    check(held > 0, "no worker was short of room")


def case_deep():
    """46 clients with 256 requests each; what the rings could not take at once is counted."""
    j = verified(run(job(2, "--clients", 46, "--queue-depth", 256, "--ops", MANY // 4,
                         "--timeout", 90, "--json", "-")), 2)
    check(j["put_off"] == sum(row["put_off"] for row in j["ranks"]), j)


def check_batches(j):
    """Loops by the messages that their polls brought: the messages were as many as those loops can bring."""
    batches, messages = j["daemon"]["batch_loops"], j["copyrpc"]["calls"] + j["copyrpc"]["replies"]
    least = sum(n * low for n, low in zip(batches, (0, 1, 2, 11, 101)))
    most = sum(n * high for n, high in zip(batches, (0, 1, 10, 100, messages)))
    check(len(batches) == 5 and least <= messages <= most, f"{messages} messages: {j}")


def case_trace():
    path = os.path.join(os.environ["TMPDIR"], "trace")
    r = run(job(2, "--duration", 1, "--trace", path, "--json", "-"))
    check_batches(verified(r, 2))
    # Hardly a loop finds something, and where much is under way, most find much.
    check_batches(verified(run(job(2, "--rate", 100, "--duration", 0.5, "--json", "-")), 2))
    j = verified(run(job(2, "--queue-depth", 256, "--clients", 4, "--ops", 100000, "--json", "-")), 2)
    check_batches(j)
    check(j["daemon"]["batch_loops"][3] + j["daemon"]["batch_loops"][4] > 0, j)
    for rank in 0, 1:
        lines = open(f"{path}.{rank}").read().splitlines()
        os.unlink(f"{path}.{rank}")
        rows = [dict(zip(lines[0].split(","), l.split(","))) for l in lines[1:]]
        check(all(x.pop("cqe_bucket") in ("0", "1", "2-10", "11-100", ">100") for x in rows), "buckets")
        rows = [{k: float(v) for k, v in x.items()} for x in rows]
        # A completion may bring credit only, or a wrap marker, and no message.
        check(all(x["cqes"] > 0 or x["messages"] == 0 for x in rows), "messages without a completion")
        check(any(x["messages"] > 0 for x in rows), "no message")
        check(10 < len(rows) < 100000, f"{len(rows)} samples")
        check(all(a["time_us"] < b["time_us"] for a, b in zip(rows, rows[1:])), "order")
        check(0 < max(x["outstanding"] for x in rows) <= 16, "outstanding beyond the depth")
        check(all(x["waiting"] <= x["outstanding"] for x in rows), "waiting")
        for x in rows:
            began = [x[p + "_us"] for p in PHASES] + [x["loop_us"]]
            check(began == sorted(began) and began[0] >= 0, f"the phases' order: {x}")
    for option in "--trace", "--decisions":
        refused_csv(option, "/nonexistent/x", "/nonexistent/x.0")
        for rank in 0, 1:
            full_csv(option, path, rank)
        os.mkdir(f"{path}.1")  # what rank 0 would not notice by itself
        refused_csv(option, path, f"{path}.1")
        os.rmdir(f"{path}.1")
        os.unlink(f"{path}.0")


def case_order():
    """What the daemons do comes in the order of the phases, in every loop: not only their names."""
    path = os.path.join(os.environ["TMPDIR"], "order")
    for harness.backend, size, loops in (("delegation", [], {"ACDEFG"}),
                                         ("delegation", ["--daemons", 2], {"ABCDEFG", "AB"}),
                                         ("meta", ["--daemons", 2], {"ABCDEFG", "ABDE"}),
                                         ("direct", [], {"ACDEFG"})):
        argv = job(2, *size, "--ops", 20000, "--json", "-", prog=ORDERED)
        verified(run(argv, {"BENCHKV_ORDER": path}), 2)
        for rank in 0, 1:
            lines = [l.split() for l in open(f"{path}.{rank}").read().splitlines()]
            os.unlink(f"{path}.{rank}")
            check({order for order, _ in lines} == loops, f"{argv}: {lines}")
            check(all(int(n) > 100 for _, n in lines), lines)


def case_decisions():
    """What the control decided follows from what it observed, and it says why."""
    path = os.path.join(os.environ["TMPDIR"], "decisions")
    for control, *more in (["auto"], ["auto:1,3", "--clients", 4], ["little", "--clients", 4],
                           ["budget:4"], ["threshold:3,8"], ["adaptive-budget"], ["hold:20"],
                           ["adaptive-hold", "--net-daemons", 2], ["none"]):
        # A tenth of a second is some ten thousand loops.
        r = run(job(3, "--control", control, "--daemons", 2, "--duration", 0.1, "--decisions", path,
                    "--json", "-", *more))
        j, reasons = verified(r, 3), set()
        for rank in range(3):
            found, first, why = decisions.check_file(f"{path}.{rank}", 3)
            check(control != "little" or decisions.hears_peers(f"{path}.{rank}"), "peers unheard")
            os.unlink(f"{path}.{rank}")
            reasons |= why
            check(found == j["control"], f"{found}: {r}")
            check(("measured by rank 0" in first["reason"]) == (control == "auto"), first)
        if control == "auto":
            window, full = map(int, found.partition(":")[2].split(","))
            t, s, c = (first["seen"][x] for x in ("round_trip_ns", "write_ns", "message_ns"))
            # Two clients with eight requests each, at one daemon with endpoints.
            most = decisions.halves_up(1.5 * 16 ** 0.5, 5, 65536)
            check(window == min(decisions.halves_up(1.15 * t / s, 2, 12), most), first)
            check(full == decisions.halves_up(s / c, 8, 65536), first)
        check(len(reasons) >= {"none": 0}.get(control, 2), f"{control}: only {reasons}")


def case_round_trip():
    """The round trip that the control is told of is that of this network: adapters 2 ms apart."""
    topology, path = (os.path.join(os.environ["TMPDIR"], name) for name in ("topology", "decisions"))
    with open(topology, "w") as f:
        f.write("name=mlx5_0 link=ib numa=0 rate_mbps=10000 latency_ns=2000000\n")
    # Without puts there is no audit, which takes long over such adapters.
    verified(run(job(2, "--control", "adaptive-budget", "--read-ratio", 1, "--duration", 1,
                     "--decisions", path, "--json", "-"),
                 {"SOFTHCA_TOPOLOGY": topology, "SOFTHCA_LINK": "real"}), 2)
    for rank in 0, 1:
        seen = [row["seen"]["rtt_us"] for row in decisions.read(f"{path}.{rank}")[2] if row["what"] == "budget"]
        # They are filtered, from 0 on; a daemon reads the clock once in a loop, which is long on a busy machine.
        check(len(seen) > 3 and statistics.median(seen) >= 2000, seen)
        check(len(set(seen)) > len(seen) / 2, f"it does not follow the network: {seen}")
        os.unlink(f"{path}.{rank}")
    os.unlink(topology)


def full_csv(option, path, rank):
    """The disk is full at the end: the result is there, and one line says which file is not."""
    os.symlink("/dev/full", f"{path}.{rank}")
    r = run(job(2, "--duration", 0.3, option, path, "--json", "-"))
    lines = r.own_lines()
    check(r.status == 1 and len(lines) == 1, r)
    check(f"{option} '{path}.{rank}': No space left" in lines[0], r)
    j = json.loads(r.out)
    check(0 < j["ops"] == j["verified"] and len(j["ranks"]) == 2, r)
    for i in 0, 1:
        os.unlink(f"{path}.{i}")


def refused_csv(option, path, culprit):
    """Before the run: nobody waits for its end. Rank 0 says it, for all."""
    r = run(job(2, "--duration", 86400, option, path))
    lines = r.own_lines()
    check(r.status == 2 and r.out == "", r)
    check(len(lines) == 1 and f"{option} '{culprit}'" in lines[0] and "give" in lines[0], r)


def case_measured():
    """Open loop, warm-up, spread, the kinds of latency, percentiles in a file."""
    path = os.path.join(os.environ["TMPDIR"], "latency")
    j = verified(run(job(2, "--rate", 2000, "--duration", 0.5, "--runs", 3, "--hgrm", path, "--json",
                         "-")), 2)
    check(len(j["runs"]) == 3 and all(r["ops"] + r["missed"] == 1000 for r in j["runs"]), j)
    parts = j["latencies_ns"]
    check(set(parts) == {"local_get", "local_put", "remote_get", "remote_put", "due"}, parts)
    check(parts["due"]["mean"] > j["latency_ns"]["mean"], "waiting is not in the latency")
    check(j["latency_ns"]["max"] == max(v["max"] for k, v in parts.items() if k != "due"), parts)
    rates, spread = sorted(r["ops_per_s"] for r in j["runs"]), j["ops_per_s_spread"]
    check([spread["min"], spread["median"], spread["max"]] == rates, j)
    rows = [l.split() for l in open(path).read().splitlines() if re.match(r" *\d", l)]
    os.unlink(path)
    check(len(rows) > 10 and int(rows[-1][2]) == j["ops"], rows)
    check(abs(float(rows[-1][0]) - parts["due"]["max"] / 1e3) <= 0.01 * float(rows[-1][0]) + 0.01,
          f"{rows[-1]} {parts}")
    r = run(job(2, "--duration", 0.2, "--warmup", 2, "--json", "-"))
    j = verified(r, 2)
    check(set(j["phases_ns"]) == set(PHASES) and min(j["phases_ns"].values()) > 0, r)
    split = j["stages_ns"]
    check(split["total"] > 0 and split["network"] > split["daemon"] > 0, split)
    check(abs(split["daemon"] + split["network"] + split["shared_memory"] - split["total"]) < 1, split)
    check(j["excluded"] > j["ops"] / 2 and 0.2 <= j["duration_s"] < 2, r)
    check(abs(j["ops_per_s"] * j["duration_s"] - j["ops"] + j["excluded"]) < 1, r)
    check(sum(v["p50"] > 0 for v in j["latencies_ns"].values()) == 4, r)
    j = verified(run(job(2, "--rate", 1e12, "--duration", 0.2, "--json", "-")), 2)
    check(j["missed"] > j["ops"], "a rate that nobody reaches")
    r = run(job(0, "--hgrm", "/nonexistent/x", "--duration", 86400))
    check(r.status == 2 and len(r.own_lines()) == 1 and "--hgrm '/nonexistent/x'" in r.err, r)


def case_events():
    """Daemons that sleep on descriptors: no wake-up is lost, with one request at a time each loss
    would cost 100 ms; and an idle daemon looks rarely."""
    one = ["--clients", 1, "--queue-depth", 1, "--ops", 5000, "--wait", "event", "--json", "-"]
    shared = [] if harness.backend == "direct" else [(3, "--daemons", 2, "--net-daemons", 2)]
    for np, *args in (0,), (2,), (2, "--daemons", 3), *shared:
        verified(run(job(np, *one, *args)), np)
    if harness.backend == "delegation":
        deep = ["--queue-depth", 64, "--clients", 3, "--ops", 100000, "--wait", "event", "--json", "-"]
        for control in "auto:1,1000", "hold:50", "budget:8":
            verified(run(job(2, *deep, "--control", control)), 2)
    # An open loop: daemons sleep between the requests, each of which has to wake those on its way.
    few = ["--daemons", 2, "--clients", 1, "--queue-depth", 1, "--rate", 40, "--duration", 2]
    j = verified(run(job(2, *few, "--wait", "event", "--json", "-")), 2)
    check(j["daemon"]["sleeps"] > 80 and j["daemon"]["overslept"] == 0, j["daemon"])
    loops = {}
    for wait in "poll", "event":
        j = verified(run(job(2, "--rate", 20, "--duration", 2, "--wait", wait, "--daemons", 2,
                             "--json", "-")), 2)
        check(j["daemon"]["sleeps"] > 0, j)
        loops[wait] = j["daemon"]["loops"] - j["audit"]["keys"]
    check(loops["event"] < loops["poll"] / 2, loops)


def case_machine():
    """What auto derives K and B from: measured by a command into a file that the simulator reads,
    taken from such a file, or measured at the start. All ranks use what rank 0 says."""
    path = os.path.join(os.environ["TMPDIR"], "machine")
    r = run([BENCHKV, "measure", "--machine", path])
    # Nothing is measured that could not be kept.
    bad = run([BENCHKV, "measure", "--machine", "/nonexistent/x"])
    check(bad.status == 2 and not bad.out and "can be written" in bad.err, bad)
    said = re.search(r"round trip (\d+) ns, (\d+) ns per WRITE, (\d+) ns per message; "
                     r"control auto:(\d+),(\d+)\n", r.out)
    check(r.status == 0 and said, r)
    trip, write, message, window, full = map(int, said.groups())
    check(0 < 2 * write <= trip + 1 and message > 0 and 2 <= window <= 12 and full >= 8, r)
    machine = json.load(open(path))
    check(abs(machine["send_ns"] - write) <= 1 and machine["recv_ns"] == machine["send_ns"], machine)
    sim = os.path.join(os.path.dirname(BENCHKV), "sim", "benchkv-sim")
    r = run([sim, "--machine", path, "--np", "2", "--qd", "1", "--duration", "1"])
    check(r.status == 0, r)
    for np, more, measured in ((2, [], True), (2, ["--machine", path], False),
                               (2, ["--control", "auto:3,9"], False), (0, [], False)):
        j = verified(run(job(np, "--ops", 2000, "--json", "-", *more)), np)
        check(("measured" in j) == measured, j)
        window, full = map(int, j["control"].removeprefix("auto:").split(","))
        check(2 <= window <= 12 and full >= 8, j)
        check(more != ["--control", "auto:3,9"] or (window, full) == (3, 9), j)
    machine.update(send_ns=1200, recv_ns=1200, wire_ns=850)
    json.dump(machine, open(path, "w"))
    text = plan(2, "--machine", path)[1]
    derived = re.search(r"control auto:(\d+),(\d+): K = 1.15 x (\d+) ns / 1200 ns = ([\d.]+) within 2 to "
                        r"12; B = 1200 ns / \d+ ns = ([\d.]+) but at least 8; from the machine file", text)
    check(derived and abs(1.15 * int(derived[3]) / 1200 - float(derived[4])) < 0.06, text)
    window = decisions.halves_up(1.15 * int(derived[3]) / 1200, 2, 12)
    check(int(derived[1]) == min(window, 6), text)
    check(("machine file; K at most 6 for 16 calls under way (1.5 x their root but at least 5)\n" in text)
          == (window > 6), text)
    slow = verified(run(job(2, "--ops", 2000, "--machine", path, "--json", "-")), 2)["control"]
    check(5 <= int(slow.removeprefix("auto:").split(",")[0]) <= 12, slow)
    os.unlink(path)
    for np in 0, 2:
        r = run(job(np, "--machine", path, "--duration", 86400))
        check(r.status == 2 and len(r.own_lines()) == 1 and path in r.err, r)


def case_stagger():
    """The first calls to each rank come later than those to the one before, and all end."""
    for harness.backend in "delegation", "meta":
        j = verified(run(job(3, "--ops", 600, "--stagger", 50000, "--wait", "event", "--json", "-")), 3)
        slowest = [r["latencies_ns"]["remote_get"]["max"] for r in j["ranks"]]
        # What waits is the daemon's time: one call in sixteen is sampled.
        check(j["stages_ns"]["daemon"] > 1e6, j["stages_ns"])
        check(min(slowest[:2]) >= 100e6, f"calls to rank 2 were not put off by 100 ms: {slowest}")
        check(j["daemon"]["stalled"] > 0, j)


def case_progress():
    """A terminal sees how far the run is, and nothing of it afterwards; nobody else does."""
    argv = job(0, "--duration", 1.5, "--runs", 2)
    main, side = os.openpty()
    proc = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=side, text=True)
    os.close(side)
    out, said = proc.communicate(timeout=GUARD)[0], b""
    while True:
        try:
            said += os.read(main, 4096)
        except OSError:
            break
    said = said.decode()
    check(proc.returncode == 0 and "verified" in out and "run 2" not in out, out)
    check(re.search(r"run 1 of 2: \d\.\d s, [1-9]\d* operations of rank 0, [1-9]\d* per", said), said)
    check("run 2 of 2" in said and said.endswith("\r\x1b[K"), said)
    check("run 1 of" not in run(argv).err, "progress without a terminal")


def case_jobs():
    """Two jobs, and two programs without a launcher, do not see each other. Each job has a
    fabric of the software HCA, and takes it down."""
    argvs = [job(n, "--daemons", 2, "--duration", 4, "--json", "-") for n in (2, 2, 0, 0)]
    procs = [start(a) for a in argvs]
    while fabrics() != 2:
        for p, a in zip(procs, argvs):
            if p.poll() is not None:
                raise Failed(f"ended before the others had begun: {finish(p, a)}")
    for p, a, n in zip(procs, argvs, (2, 2, 0, 0)):
        verified(finish(p, a), n)
    check(fabrics() == 0, "a fabric is left")


def case_names():
    """Regions have names for a moment only. Two jobs that have one at the same time do not meet."""
    for np in 0, 2:
        argv = job(np, "--ops", 1000, "--json", "-", prog=KILLED)
        proc, end, pids = start(argv, {"BENCHKV_STOP_NAMED": "1"}), time.monotonic() + GUARD, []
        while len(pids) < max(np, 1) or any(state(p) != "T" for p in pids):
            check(time.monotonic() < end and proc.poll() is None, "no rank stops")
            pids = ranks_of(proc.pid, KILLED)
        check(sum("benchkv" in f for f in left_in_shm()) == len(pids), left_in_shm())
        verified(run(job(np, "--ops", 1000, "--json", "-")), np)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        verified(finish(proc, argv), np)


def fabrics():
    ctl = os.path.join(os.path.dirname(SOFTHCA_RUN), "softhcactl")
    return len(run([ctl, "list"]).out.splitlines())


def case_ring():
    """Of itself the ring of an endpoint has room for all that can be in flight to a rank."""
    for clients, depth in (1, 1), (2, 8), (46, 256), (100, 33):
        args = ["--clients", clients, "--queue-depth", depth]
        for text in plan(2, *args):
            size = int(re.search(r"ring size (\d+) bytes", text).group(1))
            check(size >= 4 * clients * depth * 64 and size & (size - 1) == 0, text)
    r = run(job(2, "--clients", 46, "--queue-depth", 256, "--ops", 100000, "--json", "-"))
    net = verified(r, 2)["copyrpc"]
    check(net["credit_stalls"] == 0 and net["ring_stalls"] == 0, r)


def case_threads():
    """A thread for each daemon and each client, as the plan says, and main. Besides, PMIx has one,
    and the software HCA, for its timers. A rank without others has no ring for requests to them,
    which a daemon would poll in vain."""
    of_tsan = b"__tsan_init" in open(BENCHKV, "rb").read()
    for np, of_others in (0, 0), (2, 2):
        size = ["--daemons", 3, "--clients", 5]
        check(all("  threads 9: main, 3 daemons, 5 clients\n" in r for r in plan(np, *size)), "plan")
        argv = job(np, *size, "--duration", 86400)
        proc = start(argv)
        for pid in wait_running(proc, np, 5):
            names = threads(pid)
            for what, n in ("daemon", 3), ("client", 5):
                check(sum(x.startswith(what) for x in names) == n, names)
            check(len(names) == 9 + of_others + of_tsan, names)
            mapped = open(f"/proc/{pid}/maps").read()
            check("shmipc.benchkv" in mapped and ("delegrpc.benchkv" in mapped) == (np > 1), mapped)
        proc.send_signal(signal.SIGTERM)
        finish(proc, argv)


def case_memory():
    """UCX's pools are for messages of this size: with its own sizes a worker takes 76 MiB."""
    argv = job(2, "--daemons", 2, "--clients", 3, "--duration", 86400)
    proc = start(argv)
    for pid in wait_running(proc, 2, 3):
        check(resident(pid) < 5 * 40 << 20, f"{resident(pid) >> 20} MiB")
    proc.send_signal(signal.SIGTERM)
    finish(proc, argv)


def case_barrier():
    """No client begins before every rank has come to the beginning: one rank is held back there,
    the other one looks ten times and more whether it comes."""
    argv = job(2, "--clients", 3, "--ops", 3000, "--json", "-", prog=KILLED)
    proc = start(argv, {"BENCHKV_KILL_RANK": "1", "BENCHKV_HOLD_FENCE": "3"})
    first, end = {}, time.monotonic() + GUARD
    while True:
        check(time.monotonic() < end and proc.poll() is None, "the job does not wait")
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


def case_bad():
    """One line that says what to give, status 2."""
    for args in (["Meta"], ["delegation", "--net-daemons", "2"], ["direct", "--control", "none"],
                 ["delegation", "--daemons", "0"],
                 ["delegation", "--queue-depth", "0"], ["delegation", "--frobnicate"],
                 ["delegation", "--ring-size", "5000"], ["delegation", "--device", "nix"]):
        for head in [], MPIRUN + ["-np", "2"]:
            r = run(head + [BENCHKV, *args])
            lines = r.own_lines()
            check(r.status == 2 and r.out == "", r)
            check(len(lines) == 1 and re.search("give|--help", lines[0]), r)
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
    r = run(MPIRUN + ["-np", "1", BENCHKV, "delegation", ":", "-np", "1", BENCHKV, "delegation",
                      "--clients", "3"])
    lines = r.own_lines()
    check(r.status == 2 and len(lines) == 1 and "rank 1 has other options" in lines[0], r)


def case_closed():
    """Without a standard stream nothing is written to the wrong file, and what should be
    written and cannot be is an error."""
    path = os.path.join(os.environ["TMPDIR"], "out.json")
    for np in 0, 2:
        for stream, status in ("<&-", 0), ("2>&-", 0), (">&-", 1), ("<&- >&- 2>&-", 1):
            shell = ["sh", "-c", f'exec "$0" "$@" {stream}', BENCHKV, "delegation", "--ops", "2000",
                     "--trace", path, "--json", path]
            r = run((MPIRUN + ["-np", str(np)] if np else []) + shell)
            check(r.status == status and ("verified" in r.out) == (status == 0), r)
            check(status == 0 or "2>" in stream or "standard output" in r.err, r)
            lines = open(path).read().splitlines()
            check(len(lines) == 1 and json.loads(lines[0])["verified"] == 2000, lines)
            os.unlink(path)
            for rank in range(np):
                check(open(f"{path}.{rank}").readline().startswith("daemon,time_us,"), "the trace")
                os.unlink(f"{path}.{rank}")


def case_absent():
    """A rank that never comes, and one that is another program and ends."""
    argv = job(1, "--timeout", 1) + [":", "-np", "1", "sleep", "60"]
    r = run(argv)
    check(r.status == 1 and "rank 1 did not come within 1 s" in r.err, r)
    argv = job(1, "--timeout", 1) + [":", "-np", "1", "true"]
    r = run(argv)
    check(r.status != 0, r)


def case_stopped():
    """A rank that hangs in the middle of a run, with and without an end in time."""
    for end in ["--duration", 2], ["--ops", 10 ** 9]:
        # Time enough for ranks that start slowly under a sanitizer.
        argv = job(2, "--timeout", 2, "--clients", 4, "--json", "-", *end)
        proc = start(argv)
        pids = wait_running(proc, 2, 4)
        rank = rank_of(pids[-1])
        os.kill(pids[-1], signal.SIGSTOP)
        r = finish(proc, argv)
        said = [l for l in r.own_lines() if f"no answer from rank {rank} for" in l]
        check(len(said) == 1, r)
        # Told to abort a job with a stopped member, Open MPI 4.1's mpirun has been seen to
        # die of a fault in its own PMIx server, after benchkv's word; of nothing else.
        check(r.status == 1 or (r.status == -signal.SIGSEGV and "libpmix" in r.err), r)


def killed_start(argv, rank, at, env=None, fabric=False):
    """A job whose rank is killed at that point of its start. False: it has no such point.
    A name that it left is of the one region that it was making, and gone with the next
    start. fabric: the launcher kills whoever would remove the software HCA's, too."""
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
    check(at > 10, "hardly a point to be killed at")


def case_start():
    """A rank that is killed while it starts, at every call that leaves a trace."""
    for np in 0, 2:
        argv = job(np, "--ops", 100, "--daemons", 2 - np // 2, "--clients", 1, prog=KILLED)
        killed_starts(argv, max(np - 1, 0))


def partial(r, reason, runs=1):
    """The object of a job that ended before its end: what was measured until then."""
    lines = r.out.splitlines()
    check(len(lines) == 1, f"not one line: {r}")
    j = json.loads(lines[0])
    check(j["partial"] is True and re.fullmatch(reason, j["partial_reason"]), r)
    check(len(j["runs"]) == runs and j["run_count"] >= runs and j["audit"]["keys"] == 0, r)
    # An error for the one who asks; a reply that cannot be delivered is one more, here.
    errors = j["errors"] - j["error_kinds"]["undeliverable"]
    check(j["ops"] > 0 and j["verified"] + j["unfinished"] + errors == j["ops"], r)
    check(sum(row["ops"] for row in j["runs"]) == sum(row["ops"] for row in j["ranks"]) == j["ops"], r)
    for rank, row in enumerate(j["ranks"]):
        check((row["ops"] == 0) == (rank in j["missing_ranks"]), r)
    return j


def interrupted(np, sig):
    """Ctrl-C, of the launcher if there is one."""
    argv = job(np, "--daemons", 2, "--clients", 3, "--duration", 60, "--runs", 2, "--json", "-")
    proc = start(argv)
    wait_running(proc, np, 3)
    os.kill(proc.pid, sig)
    r = finish(proc, argv)
    # mpirun sends SIGTERM, whatever it got.
    name = signal.Signals(sig).name if not np else "SIGTERM"
    j = partial(r, f"told to stop by {name}")
    check(r.status == 128 + sig if not np else r.status != 0, r)
    check(j["errors"] == 0 and not r.own_lines(), r)


def interrupted_later():
    """A run that has ended is not lost with the next one; the table says what is missing."""
    argv = job(0, "--clients", 3, "--duration", 0.5, "--runs", 1000)
    proc = start(argv)
    end = time.monotonic() + GUARD
    while "client0/1" not in "".join(threads(proc.pid)):
        check(time.monotonic() < end and proc.poll() is None, "no second run")
    os.kill(proc.pid, signal.SIGINT)
    r = finish(proc, argv)
    check(r.status == 130 and re.search(r"\nPARTIAL +told to stop by SIGINT; run [2-9] of 1000; \d+ op", r.out), r)
    check("\naudit         not made\n" in r.out and re.search(r"\nrun .*\n0 +\d+", r.out), r)


def next_start():
    """Removes a fabric that was left: mpirun kills all that is there a second after its SIGTERM, the software
    HCA's guardian, too."""
    verified(run(job(2, "--ops", 100, "--json", "-")), 2)


def case_signals():
    for sig in signal.SIGINT, signal.SIGTERM:
        interrupted(0, sig)
        interrupted(2, sig)
    interrupted_later()
    next_start()


def case_launcher():
    """mpirun is killed: the ranks notice, and end; one says so into a file, the other one into
    the pipe that mpirun read."""
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
    err = open(f"{tmp}/err").read()
    check(err.count("benchkv: rank 0: the launcher has ended\n") == 1, err)
    os.unlink(f"{tmp}/err")
    for rank in 0, 1:
        status = open(f"{tmp}/status.{rank}").read()
        check(status == "129\n", f"rank {rank}: status {status}")
        os.unlink(f"{tmp}/status.{rank}")


def case_small():
    """Too small a /dev/shm is said, in one line, and not found out by a bus error."""
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


def killed(np, launcher, victim, env=None, find=None, before=None):
    """A rank is killed in a run that does not end by itself, after before() was called with rank 0's pid."""
    argv = launcher + job(0, "--daemons", 2, "--clients", 3, "--duration", 86400, "--timeout", 86400,
                          "--json", "-")
    proc = start(argv, env)
    pids = wait_running(proc, np, 3, find)
    if before:
        before(next(p for p in pids if rank_of(p) == "0"))
    os.kill(next(p for p in pids if not np or rank_of(p) == str(victim)), signal.SIGKILL)
    return finish(proc, argv)


def dead_is_named(launcher, np, victim, env=None, find=None, before=None, sooner=None):
    """The launcher lets the others go on: they end, say who has died, and what they measured. sooner: the
    launcher's words if it was quicker and has killed rank 0, too."""
    r = killed(np, launcher, victim, env, find, before)
    if sooner and not r.out and all(words in r.err for words in sooner):
        return
    said = [l for l in r.own_lines() if "has died" in l]
    check(len(said) == 1 and re.fullmatch(rf"benchkv: rank {int(not victim)}: rank {victim} \(.+\) has died",
                                          said[0]), r)
    if victim:
        check(partial(r, rf"rank {victim} \(.+\) has died")["missing_ranks"] == [victim], r)
    else:
        check(r.out == "", r)


def case_strangers():
    """Who connects to rank 0 and says nothing, half of something, or nonsense keeps nobody from noticing that a
    rank has died."""
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
    r = killed(2, [*MPIRUN, "-np", "2"], 1)
    check(r.status != 0, r)
    # By the launcher's signal, or because the rank has died, whichever comes first.
    check(partial(r, r"told to stop by SIGTERM|rank 1 \(.+\) has died")["missing_ranks"] == [1], r)
    next_start()


def case_faults():
    """A reply that is lost, doubled, swapped or spoilt is noticed, local and remote."""
    for np in [0, 2] if harness.backend == "delegation" else [2]:
        for fault, kinds in (("drop", ["lost"]), ("swap", ["misdelivered"]),
                             ("duplicate", ["duplicated", "undeliverable"]),
                             ("spoil", ["wrong_value"]), ("spoil", ["invented"])):
            argv = job(np, "--ops", 2000, "--timeout", 10 if UCX and harness.backend == "ucx" else 4,
                       "--daemons", 2, "--json", "-",
                       prog=FAULTY)
            r = run(argv, {"BENCHKV_FAULT": fault})
            check(r.status == 1, r)
            if r.out:
                unverified(r, kinds)
            else:  # the shared-memory layer itself refused to go on
                check(fault == "duplicate" and "cannot go on" in r.err, r)
        r = run(job(np, "--ops", 2000, "--json", "-", prog=FAULTY))
        verified(r, np)


def case_misdirected():
    """A request that comes to the wrong daemon is refused, and nothing else happens."""
    argv = job(2, "--ops", 20000, "--daemons", 2, "--json", "-", prog=FAULTY)
    unverified(run(argv, {"BENCHKV_FAULT": "misdirect"}), ["refused"])


def case_crowd():
    """Hundreds of threads on few cores come to an end."""
    for args in ["--clients", 256], ["--daemons", 64, "--clients", 64]:
        r = run(job(2, "--ops", 2000, *args, "--json", "-"))
        check(r.status == 0 and json.loads(r.out)["verified"] == 2000, r)


def killed_in_slurm(slurm):
    """One of the ranks is killed in the middle of a run: the others notice. So does Slurm's PMIx, sometimes."""
    dead_is_named(slurm.srun(2, 2), 2, 1, slurm.env(),
                  lambda: [p for p in processes_left() if is_program(p, BENCHKV)],
                  sooner=["task 1: Exited with exit code 137", "task 0: Killed"])
    nothing_left(processes_left)
    check(all(f.startswith("softhca-") for f in left_in_shm()), left_in_shm())


def case_slurm():
    """Ranks on several nodes: where a fence is a matter of the nodes, too."""
    missing = private_slurm.missing()
    if missing:
        raise Skipped(f"not installed: {missing}; scripts/deps test installs it")
    with tempfile.TemporaryDirectory() as tmp, private_slurm.Slurm(tmp, 4) as slurm:
        if not slurm.has_pmix():
            raise Skipped("Slurm has no PMIx plugin; scripts/deps test installs it")
        # Slurm kills the other ranks, and has none of them take anything down.
        argv = slurm.srun(2, 2) + ["--kill-on-bad-exit", KILLED, "delegation", "--ops", "100"]
        for at in range(1, 7):
            check(killed_start(argv, 1, at, slurm.env(), fabric=True), f"no point {at}")
        for nodes, ranks in (1, 2), (2, 2), (4, 4), (2, 3), (4, 8):
            argv = slurm.srun(nodes, ranks) + [BENCHKV, "delegation", "--ops", "4000",
                                               "--daemons", "2", "--runs", "2", "--json", "-"]
            j = verified(run(argv, slurm.env()), ranks)
            hosts = [r["host"] for r in j["ranks"]]
            check(j["host"] == hosts[0] and len(set(hosts)) == nodes, j)
            check(set(hosts) <= {"n0", "n1", "n2", "n3"}, j)
        for harness.backend in "delegation", "meta", "direct", *[u[0] for u in UCX]:
            killed_in_slurm(slurm)
        harness.backend = "delegation"
        verified(run(job(2, "--ops", 10, "--json", "-")), 2)  # removes what Slurm's kill has left
    nothing_left(lambda: processes_left(tmp))


def store_faults(np):
    """A store that loses, replays, ages, invents, forgets or misplaces values; and one that
    does not."""
    argv = job(np, "--ops", 60000, "--json", "-", prog=FAULTY)
    for fault, kinds in STORE_FAULTS.items():
        if harness.backend != "delegation" and fault not in ("lose", "replay", "invent"):
            continue
        j = unverified(run(argv, {"BENCHKV_FAULT": fault}), kinds)
        check(j["audit"]["keys"] > 0, j)
        check(fault != "lose-all" or j["audit"]["verified"] == 0, j)
    verified(run(argv), np)


def case_unshared():
    """Clients that share nothing, a request that never leaves its rank, a key that nobody reads in the
    audit: each is noticed, and nothing without a fault."""
    for np in [0, 2] if harness.backend == "delegation" else [2]:
        argv = job(np, "--ops", 24000, "--queue-depth", 64, "--key-range", 1000, "--json", "-", prog=FAULTY)
        for fault, kinds in UNSHARED.items():
            if np or fault != "client-remote":
                r = run(argv, {"BENCHKV_FAULT": fault})
                found = unverified(r, kinds)["error_kinds"]
                check(all(found[k] for k in kinds if np or k != "unsent"), r)
                check(np or not found["unsent"], r)
        verified(run(argv), np)
    # Of one key that each rank's only client puts, each may read its own put, but not both.
    argv = job(2, "--ops", 2000, "--clients", 1, "--key-range", 1, "--json", "-", prog=FAULTY)
    found = unverified(run(argv, {"BENCHKV_FAULT": "private"}), ["unequal"])["error_kinds"]
    check(sum(found.values()) == 1, found)


def case_stream():
    """Operations do not repeat: nearly all puts have keys of their own if there are many keys. The
    more is put, the likelier one loss is found; a key range that is followed as a whole helps."""
    j = verified(run(job(0, "--key-range", 2**32 - 1, "--preload", "no", "--read-ratio", 0, "--ops", MANY,
                         "--json", "-")), 0)
    check(j["audit"]["put"] >= 0.999 * j["ops"], j["audit"])
    check(j["detection"]["one_lost_put"] > 0.99, j["detection"])
    j = verified(run(job(0, "--key-range", 100, "--ops", 20000, "--json", "-")), 0)
    check(j["audit"]["put"] == j["audit"]["compared"] == 200, j["audit"])
    one, many, more = (j["detection"][k] for k in ("one_lost_put", "one_in_10000", "one_in_1000"))
    check(0 < one < 0.6 and abs(many - (1 - (1 - one / 1e4) ** 10000)) < 1e-6 and more > 0.9, j)


def case_store_1():
    store_faults(1)


def case_store_2():
    store_faults(2)


def case_store_4():
    store_faults(4)


if __name__ == "__main__":
    sys.exit(main({**vars(plans), **globals()}))
