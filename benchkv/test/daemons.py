# SPDX-License-Identifier: MIT
"""Cases about the loop of a daemon: its phases, control, sleep, traces and measurements."""
import csv
import json
import os
import re
import statistics
import subprocess
import time

import decisions
import harness
from harness import BENCHKV, GUARD, ORDERED, check, good, in_time, job, of_test, refused, run, taken, verified
from plans import plan


PHASES = "local channels network calls retry flush forward".split()  # the phases A to G of phases.h


def check_batches(j):
    """Checks that batch_loops (loops, grouped by messages of their polls) agrees with the number of messages."""
    batches, messages = j["daemon"]["batch_loops"], j["copyrpc"]["calls"] + j["copyrpc"]["replies"]
    least = sum(n * low for n, low in zip(batches, (0, 1, 2, 11, 101)))
    most = sum(n * high for n, high in zip(batches, (0, 1, 10, 100, messages)))
    check(len(batches) == 5 and least <= messages <= most, f"{messages} messages: {j}")


def check_trace(rows):
    """Checks the samples of a rank. Returns true if there are enough."""
    check(all(x.pop("cqe_bucket") in ("0", "1", "2-10", "11-100", ">100") for x in rows), "buckets")
    rows = [{k: float(v) for k, v in x.items()} for x in rows]
    # A completion may have no message: only credit, or a marker at the end of the ring.
    check(all(x["cqes"] > 0 or x["messages"] == 0 for x in rows), "messages without a completion")
    check(len(rows) < 100000, f"{len(rows)} samples")
    check(all(a["time_us"] < b["time_us"] for a, b in zip(rows, rows[1:])), "order")
    check(all(x["outstanding"] <= 16 for x in rows), "outstanding beyond the depth")
    check(all(x["waiting"] <= x["outstanding"] for x in rows), "waiting")
    for x in rows:
        began = [x[p + "_us"] for p in PHASES] + [x["loop_us"]]
        check(began == sorted(began) and began[0] >= 0, f"the phases' order: {x}")
    return len(rows) > 10 and any(x["messages"] > 0 for x in rows) and any(x["outstanding"] > 0 for x in rows)


def case_trace():
    path = of_test("trace")

    def traced(duration):
        check_batches(good(2, "--duration", duration, "--trace", path))
        return all([check_trace(list(csv.DictReader(taken(f"{path}.{rank}")))) for rank in (0, 1)])

    in_time(traced, 0.4, 4, 40)
    # In the first job few loops find a message. In the second one many messages are under way, and loops find more than 10.
    check_batches(good(2, "--rate", 100, "--duration", 0.5))
    j = good(2, "--queue-depth", 256, "--clients", 4, "--ops", 100000)
    check_batches(j)
    check(j["daemon"]["batch_loops"][3] + j["daemon"]["batch_loops"][4] > 0, j)
    for option in "--trace", "--decisions":
        refused_csv(option, "/nonexistent/x", "/nonexistent/x.0")
        for rank in 0, 1:
            full_csv(option, path, rank)
        os.mkdir(f"{path}.1")  # an error of rank 1 only
        refused_csv(option, path, f"{path}.1")
        os.rmdir(f"{path}.1")
        os.unlink(f"{path}.0")


def case_order():
    """Each loop of a daemon does its work in the order of the phases, as benchkv-ordered (order.c) records it."""
    path = of_test("order")
    for harness.backend, size, loops in (("delegation", [], {"ACDEFG"}),
                                         ("delegation", ["--daemons", 2], {"ABCDEFG", "AB"}),
                                         ("meta", ["--daemons", 2], {"ABCDEFG", "ABDE"}),
                                         ("direct", [], {"ACDEFG"})):
        argv = job(2, *size, "--ops", 20000, "--json", "-", prog=ORDERED)
        verified(run(argv, {"BENCHKV_ORDER": path}), 2)
        for rank in 0, 1:
            lines = [l.split() for l in taken(f"{path}.{rank}")]
            check({order for order, _ in lines} == loops, f"{argv}: {lines}")
            check(all(int(n) > 100 for _, n in lines), lines)


def case_decisions():
    """The recorded decisions of a control follow from its observations, and have a reason."""
    path = of_test("decisions")
    for control, *more in (["auto"], ["auto:1,3", "--clients", 4], ["little", "--clients", 4],
                           ["budget:4"], ["threshold:3,8"], ["adaptive-budget"], ["hold:20"],
                           ["adaptive-hold", "--net-daemons", 2], ["none"]):
        first = None

        def decided(duration):
            nonlocal first
            j = good(3, "--control", control, "--daemons", 2, "--duration", duration, "--decisions", path, *more)
            reasons, heard = set(), control != "little" or all(decisions.hears_peers(f"{path}.{rank}") for rank in range(3))
            for rank in range(3):
                found, first, why = decisions.check_file(f"{path}.{rank}", 3)
                os.unlink(f"{path}.{rank}")
                reasons |= why
                check(found == j["control"], f"{found}: {j}")
                check(("measured by rank 0" in first["reason"]) == (control == "auto"), first)
            return heard and len(reasons) >= (0 if control == "none" else 2)

        # In a tenth of a second a daemon runs about ten thousand loops.
        in_time(decided, 0.1, 1, 10)
        if control == "auto":
            k, full = map(int, first["decision"].partition(":")[2].split(","))
            t, s, c = (first["seen"][x] for x in ("round_trip_ns", "write_ns", "message_ns"))
            # 16 calls: two clients with eight requests each, and one daemon with endpoints.
            check(k == decisions.window(t, s, 16), first)
            check(full == decisions.halves_up(s / c, 8, 65536), first)


def case_round_trip():
    """The control observes the real round trip, of a network with a latency of 2 ms."""
    topology, path = of_test("topology"), of_test("decisions")
    with open(topology, "w") as f:
        f.write("name=mlx5_0 link=ib numa=0 rate_mbps=10000 latency_ns=2000000\n")
    # Only gets, so that there is no audit, which would take long over such adapters.
    good(2, "--control", "adaptive-budget", "--read-ratio", 1, "--ops", 12000, "--decisions", path,
         env={"SOFTHCA_TOPOLOGY": topology, "SOFTHCA_LINK": "real"})
    for rank in 0, 1:
        seen = [row["seen"]["rtt_us"] for row in decisions.read(f"{path}.{rank}")[2] if row["what"] == "budget"]
        # rtt_us is a filtered value that starts at 0, so the first values are too small. It has no upper limit here,
        # because a daemon reads the clock once per loop, and loops are long on a busy machine.
        check(len(seen) > 3 and statistics.median(seen) >= 2000, seen)
        check(len(set(seen)) > len(seen) / 2, f"it does not follow the network: {seen}")
        os.unlink(f"{path}.{rank}")
    os.unlink(topology)


def full_csv(option, path, rank):
    """The disk is full at the end: the result is printed, and one line names the file that could not be written."""
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
    """A file that cannot be opened: the job ends before the run, and only rank 0 prints the error."""
    refused(run(job(2, "--duration", 86400, option, path)), f"{option} '{culprit}'", "give")


def warmed_up(duration):
    """Runs a job whose warm-up is six times as long as its duration. Returns true if the measured part has operations of
    each kind, and fewer than the warm-up."""
    j = good(2, "--duration", duration, "--warmup", 6 * duration)
    split, measured = j["stages_ns"], j["ops"] - j["excluded"]
    check(set(j["phases_ns"]) == set(PHASES) and j["duration_s"] >= duration, j)
    check(abs(split["daemon"] + split["network"] + split["shared_memory"] - split["total"]) < 1, split)
    check(abs(j["ops_per_s"] * j["duration_s"] - measured) < 1, j)
    return (min(j["phases_ns"].values()) > 0 and min(split["total"], split["network"], split["daemon"]) > 0
            and sum(v["p50"] > 0 for v in j["latencies_ns"].values()) == 4
            and 0 < measured < j["excluded"] and j["duration_s"] < 6 * duration)


def case_measured():
    """Open loop, warm-up, spread, the kinds of latency, percentiles in a file."""
    path = of_test("latency")
    j = good(2, "--rate", 5000, "--duration", 0.2, "--runs", 3, "--hgrm", path)
    check(len(j["runs"]) == 3 and all(r["ops"] + r["missed"] == 1000 for r in j["runs"]), j)
    parts = j["latencies_ns"]
    check(set(parts) == {"local_get", "local_put", "remote_get", "remote_put", "due"}, parts)
    check(parts["due"]["mean"] > j["latency_ns"]["mean"], "waiting is not in the latency")
    check(j["latency_ns"]["max"] == max(v["max"] for k, v in parts.items() if k != "due"), parts)
    rates, spread = sorted(r["ops_per_s"] for r in j["runs"]), j["ops_per_s_spread"]
    check([spread["min"], spread["median"], spread["max"]] == rates, j)
    rows = [l.split() for l in taken(path) if re.match(r" *\d", l)]
    check(len(rows) > 10 and int(rows[-1][2]) == j["ops"], rows)
    check(abs(float(rows[-1][0]) - parts["due"]["max"] / 1e3) <= 0.01 * float(rows[-1][0]) + 0.01,
          f"{rows[-1]} {parts}")
    in_time(warmed_up, 0.1, 1, 10)
    j = good(2, "--rate", 1e12, "--duration", 0.2)
    check(j["missed"] > j["ops"], "a rate that nobody reaches")
    refused(run(job(0, "--hgrm", "/nonexistent/x", "--duration", 86400)), "--hgrm '/nonexistent/x'")


def case_events():
    """Daemons that sleep on descriptors: no wake-up is lost (with one request at a time each loss would
    delay the job by 100 ms), and an idle daemon polls rarely."""
    one = ["--clients", 1, "--queue-depth", 1, "--ops", min(5000, harness.MANY // 50), "--wait", "event"]
    shared = [] if harness.backend == "direct" else [(3, "--daemons", 2, "--net-daemons", 2)]
    for np, *args in (0,), (2,), (2, "--daemons", 3), *shared:
        good(np, *one, *args)
    if harness.backend == "delegation":
        deep = ["--queue-depth", 64, "--clients", 3, "--ops", 100000, "--wait", "event"]
        for control in "auto:1,1000", "hold:50", "budget:8":
            good(2, *deep, "--control", control)
    # An open loop: daemons sleep between the requests, and each request must wake the daemons on its path.
    few = ["--daemons", 2, "--clients", 1, "--queue-depth", 1, "--rate", 40, "--duration", 2]
    # 80 requests are due. On a busy machine most of them may come at once, and a request that comes just when a sleep
    # reaches its time-out counts as overslept. So one good run of eight is enough.
    for _ in range(8):
        d = good(2, *few, "--wait", "event")["daemon"]
        if d["sleeps"] > 20 and not d["overslept"]:
            break
    check(d["sleeps"] > 20 and not d["overslept"], d)
    for wait in "poll", "event":
        begun = time.monotonic()
        d = good(2, "--rate", 20, "--duration", 2, "--wait", wait, "--daemons", 2)["daemon"]
        check(d["sleeps"] > 0, d)
    # With --wait event a sleep of one of the four daemons ends by a message or after 100 ms. Sleeps of polling daemons
    # are much shorter.
    most = 4 * (d["loops"] - d["idle_loops"]) + 4 * (time.monotonic() - begun) / 0.1
    check(d["sleeps"] < most, (d, most))


def case_machine():
    """K and B of auto are derived from figures that a command writes into a file, which the simulator also reads,
    or that are measured at the start."""
    path = of_test("machine")
    r = run([BENCHKV, "measure", "--machine", path])
    # A file that cannot be written is an error before the measurement.
    bad = run([BENCHKV, "measure", "--machine", "/nonexistent/x"])
    check(bad.status == 2 and not bad.out and "can be written" in bad.err, bad)
    said = re.search(r"round trip (\d+) ns, (\d+) ns per WRITE, (\d+) ns per message; "
                     r"control auto:(\d+),(\d+)\n", r.out)
    check(r.status == 0 and said, r)
    trip, write, message, window, full = map(int, said.groups())
    check(0 < 2 * write <= trip + 1 and message > 0 and 2 <= window <= 128 and full >= 8, r)
    machine = json.load(open(path))
    check(abs(machine["send_ns"] - write) <= 1 and machine["recv_ns"] == machine["send_ns"], machine)
    # The printed K and B are those of the file. 256 requests under way do not limit them.
    text = plan(2, "--machine", path, "--clients", 4, "--queue-depth", 64)[1]
    check(f"control auto:{window},{full}: " in text, (r.out, text))
    sim = os.path.join(os.path.dirname(BENCHKV), "sim", "benchkv-sim")
    r = run([sim, "--machine", path, "--np", "2", "--qd", "1", "--duration", "1"])
    check(r.status == 0, r)
    for np, more, measured in ((2, [], True), (2, ["--machine", path], False),
                               (2, ["--control", "auto:3,9"], False), (0, [], False)):
        j = good(np, "--ops", 2000, *more)
        check(("measured" in j) == measured, j)
        window, full = map(int, j["control"].removeprefix("auto:").split(","))
        check(2 <= window <= 128 and full >= 8, j)
        check(more != ["--control", "auto:3,9"] or (window, full) == (3, 9), j)
    machine.update(send_ns=1200, recv_ns=1200, wire_ns=850)
    json.dump(machine, open(path, "w"))
    text = plan(2, "--machine", path)[1]
    derived = re.search(r"control auto:(\d+),(\d+): K = 1.15 x (\d+) ns / 1200 ns = ([\d.]+) within 2 to "
                        r"12; B = 1200 ns / \d+ ns = ([\d.]+) but at least 8; from the machine file", text)
    check(derived and abs(1.15 * int(derived[3]) / 1200 - float(derived[4])) < 0.06, text)
    window = decisions.halves_up(1.15 * int(derived[3]) / 1200, 2, 12)
    least = max(5, decisions.halves_up(int(derived[3]) / 2400, 0, 128))
    check(int(derived[1]) == min(window, max(6, least)), text)
    check((f"machine file; K at most {max(6, least)} for 16 calls under way (1.5 x their root but at least {least})\n"
           in text) == (window > max(6, least)), text)
    slow = good(2, "--ops", 2000, "--machine", path)["control"]
    check(5 <= int(slow.removeprefix("auto:").split(",")[0]) <= 12, slow)
    os.unlink(path)
    for np in 0, 2:
        refused(run(job(np, "--machine", path, "--duration", 86400)), path)
    # The script waits until both ranks have ended, so that the launcher cannot kill one before it prints its error: an
    # error that both ranks print would appear twice.
    together = '"$@"; s=$?; : >$f.$PMIX_RANK; until [ -e $f.0 ] && [ -e $f.1 ]; do :; done; exit $s'
    argv = job(2, "--machine", path, "--duration", 86400)
    at = argv.index(BENCHKV)
    refused(run(argv[:at] + ["sh", "-c", together, "sh"] + argv[at:], dict(os.environ, f=path)), path)
    for rank in 0, 1:
        os.unlink(f"{path}.{rank}")


def case_stagger():
    """The first calls to each rank come later than those to the previous rank, and all calls end."""
    for harness.backend in "delegation", "meta":
        j = good(3, "--ops", 600, "--stagger", 50000, "--wait", "event")
        slowest = [r["latencies_ns"]["remote_get"]["max"] for r in j["ranks"]]
        # Delayed calls wait in the daemon. One call in sixteen is timed.
        check(j["stages_ns"]["daemon"] > 1e6, j["stages_ns"])
        check(min(slowest[:2]) >= 100e6, f"calls to rank 2 were not put off by 100 ms: {slowest}")
        check(j["daemon"]["stalled"] > 0, j)


def case_progress():
    """A terminal shows the progress of the run, and the line is removed at the end. Without a terminal there is none."""
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
    check("run 1 of" not in run(job(0, "--duration", 1.5)).err, "progress without a terminal")
