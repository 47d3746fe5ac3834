# SPDX-License-Identifier: MIT
"""Reads the files of --decisions, and checks that each decision follows from its observations."""
import csv
import math

from harness import check


def read(path):
    """Returns the control as in a command line, the first row, which explains it, and the other rows."""
    with open(path, newline="") as f:
        rows = list(csv.DictReader(f))
    for row in rows:
        row["seen"] = {k: float(v) for k, v in (x.split("=") for x in row["observed"].split())}
    first = rows.pop(0)
    check(first["what"] == "control", first)
    return first["decision"], first, rows


def numbers(control):
    return [int(n) for n in control.partition(":")[2].split(",") if n]


def poll(control, row, seen, _):
    """Checks the number of polls. Returns the reason for which polling had to end there, or None."""
    check(int(row["decision"]) == seen["polls"], row)
    if control.startswith("budget"):
        n, = numbers(control)
        return ("as many responses" if seen["responses"] >= n else
                "as many polls" if seen["polls"] == n else None)
    if control.startswith("threshold"):
        t, n = numbers(control)
        return ("one poll has brought" if seen["last"] >= t else
                "as many polls" if seen["polls"] == n else None)
    return ("a completion" if seen["cqes"] else
            "as many polls" if seen["polls"] == seen["u"] + 1 else None)


def flush_auto(control, row, seen, ranks):
    window, full = numbers(control)
    overdue = seen["age_ns"] >= full * 20000 + ranks * 2000
    may = seen["replies"] > 0 or seen["calls"] >= full or seen["unconsumed"] < window or overdue
    check((row["decision"] == "go") == may, row)
    if seen["replies"]:
        return "replies never"
    if seen["calls"] >= full:
        return "B calls"
    if not may:
        return "the window is full"
    if overdue and row["reason"].startswith("it has waited"):
        return "it has waited"
    check(seen["unconsumed"] < window, row)
    return "there is room" if row["reason"].startswith("there") else "of those that wait"


def flush_little(row, seen):
    if row["reason"] == "batching is off":
        check(row["decision"] == "go", row)
        return "batching is off"
    may = seen["replies"] > 0 or seen["calls"] >= 9 or not seen["unconsumed"]
    check((row["decision"] == "go") == may, row)
    return ("replies never" if seen["replies"] else "B calls" if seen["calls"] >= 9 else
            "all calls" if may else "calls sent there")


def flush(control, row, seen, ranks):
    return flush_little(row, seen) if control == "little" else flush_auto(control, row, seen, ranks)


def hold(_, row, seen, ranks):
    why = ("as many replies" if seen["held"] >= ranks else "no call" if not seen["outstanding"] else
           "the hold time" if seen["age_ns"] >= seen["hold_ns"] else
           "the last replies" if seen["full"] else "more replies")
    check((row["decision"] == "release") == (why != "more replies"), row)
    return why


def budget(_, row, seen, __):
    """adaptive-budget: checks the new u. Returns the reason for its change."""
    rho = seen["loop_us"] / max(seen["rtt_us"], 0.5)
    up = min(seen["u"] + seen["step_up"], seen["u_max"])
    ways = {}
    if rho < 0.8 or seen["e"] > 0.75:
        ways["the loop is shorter" if rho < 0.8 else "more than 0.75"] = {up}
    elif rho > 1.2 and seen["e"] < 0.4:
        ways["the loop is longer"] = {max(seen["u"] - 2 * seen["step_up"], 0)}
    if seen["b"] < 1 and seen["e"] > 0.9:  # can follow a step up in the same loop
        ways["fewer than 1"] = {min(u + 2 * seen["step_up"], seen["u_max"]) for u in (seen["u"], up)}
    why = next((w for w in ways if row["reason"].startswith(w)), None)
    check(why and int(row["decision"]) in ways[why], row)
    return why


def window(t, s, calls):
    """K of auto for round trip t and time per WRITE s of a machine, with this number of calls under way."""
    filling = halves_up(t / s / 2, 0, 128)
    return min(max(halves_up(1.15 * t / s, 2, 12), filling), max(halves_up(1.5 * calls ** .5, 5, 65536), filling))


def halves_up(x, least, most):
    return min(max(math.floor(x + 0.5), least), most)


def identify(_, row, seen, __):
    u = int(row["decision"])
    if row["reason"].startswith("identification is over"):
        gain = max((seen["b1"] - seen["b0"]) / 8, 1e-3)
        check(seen["step_up"] == halves_up(2 / gain, 1, 8), row)
        check(seen["u_max"] == halves_up(2.5 * seen["r0_us"], 8, 64) and u <= seen["u_max"], row)
        return "identification is over"
    begins = row["reason"].startswith("identification begins")
    check(u == (0 if begins else 8), row)
    return "identification"


class Batching:
    """little: checks the latency of each epoch's setting, and the choice of the next setting."""

    def __init__(self):
        self.known = [0.0, 0.0]

    def __call__(self, _, row, seen, __):
        now, latency = int(seen["batching"]), [seen["latency_off_ns"], seen["latency_on_ns"]]
        epoch = ((seen["area_ns"] + seen["peers_area_ns"]) / (seen["ended"] + seen["peers_ended"]))
        want = (self.known[now] + epoch) / 2 if self.known[now] else epoch
        check(math.isclose(latency[now], want, rel_tol=1e-12), row)
        check(latency[1 - now] == self.known[1 - now] and seen["ended"] >= 64, row)
        self.known = latency
        on = row["decision"] == "on"
        if row["reason"] == "it has the lower latency":
            check(on == (latency[1] < latency[0]), row)
            return "it has"
        check(on != bool(now), row)
        return "its latency is not known" if not latency[1 - now] else "its latency was not"


def hears_peers(path):
    """Returns true if an epoch of little has counted requests of another rank."""
    return any(row["seen"].get("peers_ended") for row in read(path)[2])


def check_file(path, ranks):
    """Checks that every row of a rank's file follows from its observations. Returns control, first row and reasons."""
    control, first, rows = read(path)
    again = {"poll": poll, "flush": flush, "hold": hold, "budget": budget, "identify": identify}
    of_daemon, reasons, before = {}, set(), {}
    for row in rows:
        if row["what"] == "left out":
            continue
        fn = (of_daemon.setdefault(row["daemon"], Batching()) if row["what"] == "batching"
              else again[row["what"]])
        why = fn(control, row, row["seen"], ranks)
        check(why and row["reason"].startswith(why), f"not for that reason, {why}: {row}")
        check(float(row["time_us"]) >= before.get(row["daemon"], 0) and int(row["times"]) > 0, row)
        before[row["daemon"]] = float(row["time_us"])
        reasons.add(row["reason"])
    return control, first, reasons
