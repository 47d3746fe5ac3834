#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes RESULTS.md: figures of every control at every size, by the simulator.

    results.py BENCHKV-SIM [OUT] [--short | --soak] [--jobs N]

It simulates 2 to 64 ranks, and a smaller grid for several daemons. With --soak it adds up to 1,024 ranks with some of the
controls, which takes half an hour on two cores. --short is for a test: it simulates a few cells, and fails if auto is below .9
of the best fixed setting, or if its throughputs from the two initial states differ by a factor of 1.1. Jobs run on all cores,
or --jobs at a time; the figures do not depend on the time that a job takes.
"""
import argparse
import concurrent.futures
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile

S_NS, RTT_NS, CPU_NS, LOCAL_NS = 570.0, 4860.0, 135.0, 115.0  # of the machine hdr100, see `benchkv-sim table`
CLIENTS = 46
CONTROLS = ["none", "budget:4", "budget:16", "budget:64", "threshold:8,4", "adaptive-budget", "hold:2",
            "hold:10", "adaptive-hold", "little", "auto"]
WINDOWS = ["auto:%d,9" % k for k in (3, 5, 6, 8, 10, 12)] + ["auto:12,12"]
DISTURBED = ["none", "budget:16", "adaptive-hold", "little", "auto"] # the controls that are started from both initial states
FIXED = [c for c in CONTROLS if c.split(":")[0] in ("none", "budget", "threshold", "hold")] + WINDOWS
DIRECT = {2: 2.83, 4: 7.37, 8: 15.42, 16: 29.72, 32: 62.71}  # published, depth 1, M operations/s
UCX = {2: 3.38, 4: 6.73, 8: 14.41, 16: 46.75, 32: 66.47}


MANY = ["none", "budget:16", "little", "auto"]
MANY_FIXED = ["none", "budget:16", "auto:6,9", "auto:10,9", "auto:12,12"]
MANY_CELLS = [(q, n) for q in (1, 32) for n in (128, 256, 512, 1024)]


def size(short):
    """Returns the numbers of ranks, and for each number of daemons its cells (depth, ranks)."""
    ranks, depths = [2, 4, 8, 16, 32, 64], [1, 4, 32]
    if short:
        ranks, depths = [2, 16], [1, 32]
    cells = [(q, n) for q in depths for n in ranks]
    few = [(1, n) for n in ranks if n != 2]
    return ranks, {1: cells, 2: few} if short else {1: cells, 2: few, 4: few}


class Jobs:
    """The results of jobs, by their options. run() runs the missing ones in parallel."""

    def __init__(self, sim, at_a_time):
        self.sim, self.done, self.at_a_time = sim, {}, at_a_time

    def key(self, np, qd, control, daemons=1, init="low", **more):
        more = {"warmup": 6, "duration": 2, **more}
        return ("--np", np, "--qd", qd, "--control", control, "--daemons", daemons, "--init", init,
                *(x for k, v in sorted(more.items()) for x in ("--" + k, v)))

    def run(self, keys):
        missing = [k for k in dict.fromkeys(keys) if k not in self.done]
        with concurrent.futures.ThreadPoolExecutor(self.at_a_time) as pool:
            for k, text in zip(missing, pool.map(self.one, missing)):
                self.done[k] = json.loads(text)

    def one(self, key):
        return subprocess.run([self.sim, *map(str, key), "--threads", "1", "--json", "-"], check=True,
                              capture_output=True, text=True).stdout

    def mops(self, keys):
        """Runs the jobs of a dict of keys. Returns their throughputs under the same names."""
        self.run(keys.values())
        return {name: self.done[key]["mops"] for name, key in keys.items()}


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return "\n".join(lines + ["| " + " | ".join(map(str, r)) + " |" for r in rows]) + "\n"


def controls_table(jobs, grid, controls, fixed):
    """Computes each control's fraction of the best fixed setting, from the collapsed state. Returns the text, and auto's
    lowest fraction for each number of daemons."""
    text, worst = "", {}
    for d, cells in grid.items():
        mops = jobs.mops({(c, q, n): jobs.key(n, q, c, d) for c in set(controls + fixed) for q, n in cells})
        best = {(q, n): max(fixed, key=lambda c: mops[c, q, n]) for q, n in cells}
        top = {(q, n): mops[best[q, n], q, n] for q, n in cells}
        rows = [["best, M/s"] + ["%g" % float("%.3g" % top[x]) for x in cells] + [""],
                ["which"] + ["`%s`" % best[x].replace("auto:", "") for x in cells] + [""]]
        for c in controls:
            share = [mops[c, q, n] / top[q, n] for q, n in cells]
            rows.append([f"`{c}`"] + ["%.2f" % x for x in share] + ["**%.2f**" % min(share)])
            if c == "auto":
                worst[d] = min(share)
        text += f"\n{d} daemon{'s' * (d > 1)} per rank; depth/ranks:\n\n"
        text += table([""] + [f"{q}/{n}" for q, n in cells] + ["worst"], rows)
    return text, worst


def equilibria(jobs, grid):
    """Counts the cells whose throughput differs by more than a fifth between the two initial states. Returns the text, and
    auto's largest ratio."""
    cells = [(d, q, n) for d in grid for q, n in grid[d]]
    low, high = (jobs.mops({(c, d, q, n): jobs.key(n, q, c, d, init) for c in DISTURBED for d, q, n in cells})
                 for init in ("low", "high"))
    rows, most = [], 0
    for c in DISTURBED:
        ratio = [max(low[c, *x], high[c, *x]) / min(low[c, *x], high[c, *x]) for x in cells]
        at = cells[ratio.index(max(ratio))]
        rows.append([f"`{c}`", sum(r > 1.2 for r in ratio), "%.2f" % max(ratio), "%d, %d, %d" % at])
        if c == "auto":
            most = max(ratio)
    head = ["control", f"cells with two equilibria, of {len(cells)}", "largest ratio", "at daemons, depth, ranks"]
    return table(head, rows), most


def bound(n, q, d):
    """Returns an upper bound of the M operations/s of all ranks for any control of delegation in this model, and its cause."""
    inflight, remote = CLIENTS * q, (n - 1) / n
    distinct = (n - 1) * (1 - (1 - 1 / n) ** inflight)  # different ranks among the targets of the inflight requests
    limits = {"CPU": d / (remote * CPU_NS + (1 - remote) * LOCAL_NS),
              "WRITEs": inflight / (distinct * S_NS / d),
              "round trip": inflight / (remote * RTT_NS)}
    why = min(limits, key=limits.get)
    return limits[why] * n * 1e3, why


def against_others(jobs, ranks, daemons):
    ranks = [n for n in ranks if n in DIRECT]
    mops = jobs.mops({(n, d): jobs.key(n, 1, "auto", d) for n in ranks for d in daemons})
    rows = []
    for n in ranks:
        row, other = [n, DIRECT[n], UCX[n]], max(DIRECT[n], UCX[n])
        for d in daemons:
            most, why = bound(n, 1, d)
            row.append("%.1f (%.2f; bound %.0f, %s)" % (mops[n, d], mops[n, d] / other, most, why))
        rows.append(row)
    return table(["ranks", "direct", "UCX"] + [f"auto, D = {d}" for d in daemons], rows)


def recovery(jobs, ranks, qd):
    """Returns a table: the longest disturbance that a good state survives, and the time of recovery from a collapse."""
    ranks = [n for n in ranks if 4 <= n <= 16]
    lengths = [40, 80, 160, 320, 640]
    delays = [0, 1, 4]
    rows = []
    for c in DISTURBED:
        good = jobs.mops({n: jobs.key(n, qd, c, 1, "high") for n in ranks})
        after = jobs.mops({(n, u): jobs.key(n, qd, c, 1, "low", disturb=u, warmup=u / 1e3 + 3, duration=1)
                           for n in ranks for u in lengths})
        survived = {n: [u for u in lengths if after[n, u] > .8 * good[n]] for n in ranks}
        back = {}
        for n in ranks:
            window = jobs.mops({t: jobs.key(n, qd, c, 1, "low", warmup=1 + t, duration=.5) for t in delays})
            back[n] = next((t for t in delays if window[t] > .9 * good[n]), None)
        rows.append([f"`{c}`"] + ["%s; %s" % (max(survived[n]) if len(survived[n]) < len(lengths) and survived[n]
                                              else "all" if survived[n] else "none",
                                              "-" if back[n] is None else f"{back[n]:g}") for n in ranks])
    return table(["control"] + [f"{n} ranks" for n in ranks], rows)


def stagger(jobs, ranks):
    times = [0, 1, 10, 100]
    rows = []
    for c in ("none", "auto"):
        for q in (1, 32):
            mops = jobs.mops({(n, t): jobs.key(n, q, c, 1, "high", stagger=t, warmup=15) for n in ranks for t in times})
            rows.append([f"`{c}`", q] + [" ".join("%.3g" % mops[n, t] for t in times) for n in ranks])
    return table(["control", "depth"] + [f"{n} ranks" for n in ranks], rows)


COURSE_MS = [0, .1, .2, .3, .4, .5, .6, 1, 2, 5, 20]
COURSES = {8: [100, 105, 110, 115, 130], 16: [210, 220, 240, 260], 32: [400, 440, 480, 560]}


def course(sim, options, spans):
    """Simulates a job. Returns numbers of responses in the loops of rank 0 that find any: the means in the spans (in ms), and
    the largest number before the second span."""
    sums, most = [[0, 0] for _ in spans], 0
    with tempfile.NamedTemporaryFile() as f:
        subprocess.run([sim, *options.split(), "--control", "none", "--warmup", "0", "--duration", str(spans[-1][1]),
                        "--trace", f.name, "--trace-step", "0", "--json", "-"], check=True, stdout=subprocess.DEVNULL)
        for line in csv.DictReader(open(f.name)):
            found, ms = int(line["responses"]), float(line["time_us"]) / 1e3
            most = max(most, found) if ms < spans[1][0] else most
            for s in [s for s, (begin, end) in zip(sums, spans) if found and begin <= ms < end]:
                s[0] += found
                s[1] += 1
    return [found / max(loops, 1) for found, loops in sums], most


def courses(jobs):
    cells = [(np, calls) for np, row in COURSES.items() for calls in row]
    spans = list(zip(COURSE_MS, COURSE_MS[1:]))
    with concurrent.futures.ThreadPoolExecutor(jobs.at_a_time) as pool:
        found = list(pool.map(lambda c: course(jobs.sim, "--np %d --qd 1 --clients %d" % c, spans)[0], cells))
    return table(["ranks", "in flight", *(f"{a:g} to {b:g} ms" for a, b in spans)],
                 [[*c, *("%.3g" % x for x in row)] for c, row in zip(cells, found)])


RHYTHM = [("the model", {}, {}),
          ("clients answer late and unevenly", {"reply_ns": 2000, "reply_jitter_ns": 2000}, {}),
          ("loops of equal length", {"loop_jitter": 0}, {}),
          ("loops of 200 ns", {"loop_ns": 200}, {}),
          ("a message takes 40 ns of CPU, not 45", {"request_ns": 40, "incoming_ns": 40, "response_ns": 40}, {}),
          ("a wire of 3 us", {"wire_ns": 3000}, {}),
          ("a wire of 15 us", {"wire_ns": 15000}, {}),
          ("a WRITE takes 300 ns", {"send_ns": 300, "recv_ns": 300}, {}),
          ("the ranks start apart", {}, {"stagger": 100}),
          ("a loop takes 128 requests", {}, {"intake": 128}),
          ("a loop takes 46 requests, one per client", {}, {"intake": 46}),
          ("a client waits for 8 replies", {}, {"client-waits": 8}),
          ("a client waits for all 32 replies", {}, {"client-waits": 32}),
          ("all 32 replies, a wire of 3 us", {"wire_ns": 3000}, {"client-waits": 32}),
          ("all 32 replies, a wire of 15 us", {"wire_ns": 15000}, {"client-waits": 32}),
          ("all 32 replies, the ranks start apart", {}, {"client-waits": 32, "stagger": 100}),
          ("all 32 replies, a loop takes 128 requests", {}, {"client-waits": 32, "intake": 128})]
# Published: M/s, outstanding calls, responses per loop, M loops/s, share of empty loops, share of loops with more than 100 responses.
RHYTHM_PUBLISHED = {16: ["110.04", "833 (1,390 to 1,420 over time)", "28.0 (107 to 200)", ".23", ".931", ".037"],
                    2: ["15.26", "", "4.6", ".86", "", ""]}


def rhythm(jobs, ranks):
    """Returns a table: the figures of a job from the good state, and its throughput from the collapsed state, under each
    hypothesis."""
    rows = [["published", *RHYTHM_PUBLISHED[ranks], ""]]
    with tempfile.TemporaryDirectory() as scratch:
        keys = []
        for i, (_, machine, options) in enumerate(RHYTHM):
            file = pathlib.Path(scratch, str(i))
            file.write_text(json.dumps(machine))
            keys.append([jobs.key(ranks, 32, "none", 1, state, machine=str(file), **{**options, **times})
                         for state, times in (("high", {"warmup": 15, "duration": 20}), ("low", {"warmup": 20}))])
        jobs.run(k for pair in keys for k in pair)
    for (text, _, _), (high, low) in zip(RHYTHM, keys):
        r = jobs.done[high]
        rows.append([text, "%.1f" % r["mops"], "%.0f" % r["outstanding"], "%.1f" % r["cqe_batch"],
                     "%.3f" % (r["loops_per_s"] / 1e6), "%.3f" % r["loops_by_responses"][0],
                     "%.3f" % r["loops_by_responses"][4], "%.1f" % jobs.done[low]["mops"]])
    return table(["hypothesis", "M/s", "outstanding", "responses per loop", "M loops/s", "empty loops", "over 100",
                  "M/s, from low"], rows)


COLLAPSE_SPANS = [(0, .25), (.25, .35), (.35, .45), (.45, .55), (.9, 1.1), (4, 5)]
COLLAPSE = [("the model", "--np 8"),
            ("few calls in flight", "--np 8 --qd 1 --clients 105"),
            ("fewer requests at first", "--np 8 --qd-before 14 --qd-step 59"),
            ("the ranks start apart", "--np 8 --stagger 100"),
            ("a disturbance of 120 us", "--np 8 --init low --disturb 120"),
            ("a disturbance of 160 us", "--np 8 --init low --disturb 160"),
            ("clients wait for all replies", "--np 8 --client-waits 32"),
            ("a loop takes 46 requests, one per client", "--np 8 --intake 46"),
            ("a loop takes 20 requests", "--np 8 --intake 20"),
            ("a loop takes 22 requests", "--np 8 --intake 22"),
            ("a loop takes 46 requests, one per client", "--np 16 --intake 46"),
            ("the same, fewer requests at first", "--np 16 --intake 46 --qd-before 14 --qd-step 59"),
            ("a loop takes 48 requests", "--np 16 --intake 48"),
            ("a loop takes 100 requests", "--np 32 --intake 100")]


def collapse(jobs):
    """Returns a table: responses over time during the collapse, as published and under each hypothesis."""
    with concurrent.futures.ThreadPoolExecutor(jobs.at_a_time) as pool:
        found = list(pool.map(lambda row: course(jobs.sim, row[1], COLLAPSE_SPANS), COLLAPSE))
    rows = [["published, 8 ranks", "", "640", "100 to 200", "50 to 100", "37", "1", "1"]]
    rows += [[text, f"`{options}`", most, *("%.3g" % x for x in means[1:])]
             for (text, options), (means, most) in zip(COLLAPSE, found)]
    return table(["hypothesis", "job", "most, at first", ".3 ms", ".4 ms", ".5 ms", "1 ms", "4 to 5 ms"], rows)


TEXT = """# Results of the simulator

`{command}` wrote this file. The jobs have the machine `hdr100` of
[benchkv-sim](README.md), 46 clients per rank, uniform keys and seed 1 (other seeds differ by about 1 %). M/s are million operations per
second of all ranks.

## Every control, from the collapsed state

Each job begins with 1 ms in which every message leaves in a WRITE of its own. The measurement begins 5 ms later and lasts 2 ms. The
figures are throughput divided by that of the best of {fixed} fixed settings. These are the rows `none`, `budget`, `threshold` and `hold`, and
`auto:K,B` with K of 3 to 12 and B of 9 or 12. The row `which` names the best setting; K,B stands for `auto:K,B`. The row `auto` derives K and B
from the machine.
{controls}{many}
## Random jobs

`benchkv/sim/search.py build/benchkv/sim/benchkv-sim --cells 100 --seed 2` draws the jobs. `auto` is simulated from both initial states; its share
is the lower of the two throughputs, divided by that of the best of `none`, `hold`, `budget` and `threshold` with many numbers. The share is .95
or more in 100 of 100 jobs. The table shows the ten jobs with the lowest shares. Its last column is the lowest throughput of `auto` divided by the
highest, over both states and two seeds, from 6 to 12 ms, or, where this ratio is below .98, from 40 to 80 ms:

| machine | ranks | depth | clients | daemons | best | share | lowest / highest |
|---|---|---|---|---|---|---|---|
| message x 3 | 12 | 1 | 40 | 3 | `none` | 0.973 | 0.998 |
| cx7 | 3 | 13 | 3 | 4 | `none` | 0.979 | 0.997 |
| cx7 | 2 | 2 | 8 | 4 | `none` | 0.984 | 0.994 |
| wire x 10 | 2 | 10 | 41 | 3 | `hold:20` | 0.987 | 0.992 |
| wire 50 us | 2 | 16 | 5 | 4 | `hold:20` | 0.989 | 0.994 |
| hdr100 | 3 | 4 | 5 | 3 | `none` | 0.992 | 0.998 |
| wire x 10 | 2 | 5 | 1 | 1 | `none` | 0.996 | 0.987 |
| wire x 10 | 6 | 11 | 1 | 4 | `none` | 0.997 | 0.999 |
| message x 3 | 10 | 2 | 3 | 2 | `none` | 0.998 | 0.997 |
| wire x 10 | 8 | 2 | 3 | 2 | `none` | 0.998 | 0.997 |

With a K of at most 12 also for long wires, and without `auto`'s limit on the calls that a loop serves (next paragraph), the share was .95 or more in only 28 of 40 jobs
(`--cells 40 --seed 1 --ranks 32`). The lowest share was .58, with a wire of 50 us, 29 ranks and 1 daemon.

**Without the limit, daemons that call only each other take turns.** With 2 daemons per rank and 4 ranks, one daemon of each rank has
all endpoints between even and odd ranks. If a loop serves all calls that have arrived, all their messages join one wave, which one half of the
ranks processes while the other half waits: 36.9 M/s, and .82 of the loops find no response (`--np 4 --qd 16 --daemons 2 --warmup 5 --duration 4`).
A limit of two thirds of the calls under way divides the wave: 48.2 M/s, and .53 of the loops find no response. A K of 2 to 4 with a B of 96 to 400
divides the wave too, but only in some jobs. The next loop serves all calls that a loop has left. If the limit also applied to these calls, a daemon
with more endpoints than others would prefer its own calls; 3 ranks with 2 daemons then had .79 of the best control.

**A daemon with many endpoints has a limit of its own.** With 2 ranks and 4 daemons per rank, one daemon of a rank has the only endpoint, and
therefore all requests. With the limit of an average daemon (136 of 816 calls) its loops served 136 and 680 calls in turn. With two or three of eight
seeds the two daemons then took turns for ever: 15.2 M/s, compared with 24.4 M/s now (`--machine cx7 --np 2 --qd 51 --clients 16 --daemons 4 --seed
102 --warmup 40`). A limit of one half instead of two thirds gives .82 of that throughput. Limits that follow smaller differences are worse: with 11
ranks and 2 daemons some daemons have 6 of 10 endpoints, and when their limit was 864 instead of 720 calls, throughput fell from 137 to 116 M/s
(wire 50 us, `--np 11 --qd 60 --clients 36 --daemons 2 --warmup 40`).

**Many K and B.** If `auto:K,B` is among the settings to compare with (`--windows`), the lowest share of 11 random jobs with loops of 46 ns (`loop /
10`) is .86. This job has few calls: 5 ranks, depth 44, 2 clients, 3 daemons. Its K is 8, which is 1.5 times the square root of 29 calls per daemon, and
a WRITE has 4.8 messages. With K = 5 a WRITE has 6.5 messages, and the share is .99. With loops of 380 ns the share of K = 8 is .97, because requests gather
during the loops. K is not derived from the length of the loop, because `benchkv measure` does not measure it.

## Equilibria

Each job is simulated from both initial states: all requests at once, and 1 ms in which every message leaves in a WRITE of its own. If the two
throughputs differ by more than a fifth, the job has two equilibria. The cells are the jobs of the first section.

{equilibria}
## Against direct and UCX

M/s at depth 1. The figures of direct and UCX are published ones (ConnectX-7). `auto` with D daemons is simulated from the collapsed state. In
parentheses are its ratio to the better of direct and UCX, and the bound of any control of delegation in this model. The bound is the lowest of three
limits: CPU (135 ns for a remote operation, 115 ns for a local one), WRITEs (all requests of a rank leave in one WRITE for each different rank among
their targets), and the round trip of a single call. The model is wrong by a factor of up to 1.2, so a ratio below 1.2 shows nothing.

{others}
## Disturbances

Depth 32, one daemon. During a disturbance every message leaves in a WRITE of its own. The first figure is the longest disturbance of 40, 80, 160,
320 and 640 us (all: each of them) after which throughput is more than .8 of that of the good state 3 ms later. The second figure is the first of the
times 0, 1 and 4 ms after a disturbance of 1 ms at which throughput is more than .9 of that of the good state (-: none of them).

{recovery}
## Staggered first calls

The first calls for rank r are delayed by r x 0, 1, 10 and 100 us. The four figures of a cell are M/s after 15 ms:

{stagger}
## The collapse in time

`none`, from a synchronised start, at depth 1; the column *in flight* is the number of clients per rank. The figures are the mean number of
responses in those loops of rank 0 that find any ([README.md](README.md#agreement-with-the-published-figures)).

{courses}
## Hypotheses on what is not reproduced

The rhythm of the good state: depth 32, `none`, started from the good state, for the last column from the collapsed state. Each
row changes the machine or the job (`RHYTHM` in [results.py](results.py)). The columns *empty loops* and *over 100* are the shares of loops with no
response and with more than 100. 16 ranks:

{rhythm}
2 ranks:

{rhythm_2}
The collapse at the published depth of 32. The figures are the responses in those loops of rank 0 that find any: first the largest number of a loop
before .25 ms, then the means from {spans} ms.

{collapse}"""


MANY_TEXT = """
## Many ranks

The same measurement; the figures are divided by the best of {settings}.
{controls}"""


def many_ranks(jobs):
    controls, _ = controls_table(jobs, {1: MANY_CELLS}, MANY, MANY_FIXED)
    return MANY_TEXT.format(settings=", ".join(f"`{c}`" for c in MANY_FIXED), controls=controls)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("sim")
    p.add_argument("out", nargs="?", default=str(pathlib.Path(__file__).parent / "RESULTS.md"))
    p.add_argument("--short", action="store_true")
    p.add_argument("--soak", action="store_true")
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    a = p.parse_args()
    jobs = Jobs(a.sim, a.jobs)
    if a.short:
        CONTROLS[:] = DISTURBED[:] = ["none", "budget:16", "auto"]
        FIXED[:] = CONTROLS[:2] + WINDOWS
    ranks, grid = size(a.short)
    controls, worst = controls_table(jobs, grid, CONTROLS, FIXED)
    pairs, most = equilibria(jobs, grid)
    if a.short:
        assert min(worst.values()) >= .9, worst
        assert most < 1.1, most
        return
    text = TEXT.format(
        command="benchkv/sim/results.py build/benchkv/sim/benchkv-sim" + " --soak" * a.soak, fixed=len(FIXED),
        controls=controls, many=many_ranks(jobs) if a.soak else "", equilibria=pairs, others=against_others(jobs, ranks, list(grid)),
        recovery=recovery(jobs, [n for n in ranks if n != 4], 32), stagger=stagger(jobs, [n for n in ranks if n in (8, 16)]),
        courses=courses(jobs), rhythm=rhythm(jobs, 16), rhythm_2=rhythm(jobs, 2), collapse=collapse(jobs),
        spans=", ".join(f"{a:g} to {b:g}" for a, b in COLLAPSE_SPANS[1:]))
    pathlib.Path(a.out).write_text(text)


if __name__ == "__main__":
    sys.exit(main())
