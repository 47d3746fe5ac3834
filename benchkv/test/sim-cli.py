#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the command line of benchkv-sim: JSON objects, files, and errors."""
import csv
import json
import pathlib
import subprocess
import sys
import tempfile

SIM = sys.argv[1]
BRIEF = ["--clients", "4", "--warmup", "0.1", "--duration", "0.5"]
SHORT = ["--np", "2", "--qd", "2", *BRIEF]
KEYS = {"np", "qd", "clients", "control", "machine", "mops", "outstanding", "cqe_batch",
        "loops_per_s", "p99_us"}


def sim(*args, status=0):
    done = subprocess.run([SIM, *args], capture_output=True, text=True, timeout=120)
    assert done.returncode == status, (args, done.returncode, done.stderr)
    return done


def refuses(word, *args):
    done = sim(*args, status=2)
    assert word in done.stderr and done.stderr.count("\n") == 1, (args, done.stderr)
    assert not done.stdout


one = json.loads(sim(*SHORT, "--json", "-").stdout)
assert KEYS <= one.keys() and one["np"] == 2 and one["mops"] > 0, one
# Half of the operations are calls. By Little's law their round trip is outstanding / rate.
assert abs(one["rho"] / (one["loop_us"] / (one["outstanding"] / (one["mops"] / 4))) - 1) < 1e-6, one
assert abs(sum(one["loops_by_responses"]) - 1) < 1e-6
assert json.loads(sim(*SHORT, "--json", "-").stdout) == one
text = sim(*SHORT).stdout
assert "M/s" in text
assert f"{one['rho']:10.2f}, {one['loops_by_responses'][0]:.2f} of the loops find no response" in text, (one, text)
rows = [json.loads(line) for line in sim("map", *BRIEF, "--control", "none", "--json", "-").stdout.splitlines()]
assert len(rows) == 36 and {r["init"] for r in rows} == {"high", "low"}
step = json.loads(sim(*SHORT, "--qd-before", "1", "--qd-step", "0.3", "--json", "-").stdout)
assert (step["qd"], step["qd_before"], step["qd_step_ms"]) == (2, 1, 0.3) and one["qd_before"] == 2, step
assert "1 per client until 0.3 ms" in sim(*SHORT, "--qd-before", "1", "--qd-step", "0.3").stdout
other = json.loads(sim(*SHORT, "--client-waits", "2", "--intake", "3", "--json", "-").stdout)
assert (other["client_waits"], other["intake"], other["backend"]) == (2, 3, "delegation") and (one["client_waits"], one["intake"]) == (1, 0), other
text = sim(*SHORT, "--client-waits", "2", "--intake", "3").stdout
assert "wait for 2 replies" in text and "at most 3 requests per loop" in text, text
assert json.loads(sim(*SHORT, "--backend", "meta", "--json", "-").stdout)["backend"] == "meta"
assert "backend           meta" in sim(*SHORT, "--backend", "meta").stdout
assert "Usage" in sim("--help").stdout

with tempfile.TemporaryDirectory() as scratch:
    trace, machine = pathlib.Path(scratch) / "t.csv", pathlib.Path(scratch) / "m.json"
    sim(*SHORT, "--trace", str(trace), "--trace-step", "0")
    lines = trace.read_text().splitlines()
    assert lines[0].startswith("time_us,outstanding") and len(lines) > 100
    assert all(len(line.split(",")) == 12 for line in lines)
    # A line for each loop of rank 0, except some empty loops. A loop begins when the previous one has ended.
    loops = [{name: float(v) for name, v in zip(lines[0].split(","), line.split(","))} for line in lines[1:]]
    gaps = [b["time_us"] - a["time_us"] - a["loop_us"] for a, b in zip(loops, loops[1:])]
    assert min(gaps) > -.0015 and sum(gap < .0015 for gap in gaps) > .9 * len(gaps), sorted(gaps)
    # The published controller: u, and the values from which it is derived.
    sim("--np", "8", "--qd", "32", "--control", "adaptive-budget", "--warmup", "0", "--duration", "20", "--init", "low",
        "--trace", str(trace), "--trace-step", "100", "--json", "-")
    rows = [{name: float(v) for name, v in row.items()} for row in csv.DictReader(trace.open())]
    assert len(rows) > 100 and max(row["u"] for row in rows) > 0, rows[-1]
    assert all(0 <= row["e"] <= 1 and row["rtt_us"] > 4 and 0 < row["rho"] < 10 for row in rows[50:]), rows[-1]
    assert max(row["e"] for row in rows) > .2, rows[:50]
    # The same values with a control that does not need them, from both states: they are near the means of the job.
    for state, empty in ("low", (0, .05)), ("high", (.4, .6)):
        job = json.loads(sim("--np", "8", "--qd", "32", "--control", "none", "--init", state, "--duration", "40",
                             "--trace", str(trace), "--trace-step", "0", "--json", "-").stdout)
        rows = [row for row in csv.DictReader(trace.open()) if float(row["time_us"]) > 3000]
        e, rtt, rho = (sum(float(row[name]) for row in rows) / len(rows) for name in ("e", "rtt_us", "rho"))
        trip = job["outstanding"] / (job["mops"] / 8 * 7 / 8)  # Little's law; 7 of 8 operations are calls
        assert abs(rtt / trip - 1) < .1 and abs(rho / job["rho"] - 1) < .3 and empty[0] < e < empty[1], (e, rtt, rho, job)
        assert all(row["u"] == "0" for row in rows)
    # The second of four daemons has the only endpoint.
    sim("--np", "2", "--qd", "1", "--daemons", "4", "--duration", "1", "--trace", str(trace), "--trace-step", "0")
    assert any(int(row["responses"]) for row in csv.DictReader(trace.open()))
    # Empty loops without a line count in e, the share of empty loops; with a single client most loops are empty.
    sim("--np", "2", "--qd", "1", "--clients", "1", "--control", "none", "--trace", str(trace), "--trace-step", "0")
    rows = [float(row["e"]) for row in csv.DictReader(trace.open())]
    assert sum(rows[1000:]) / len(rows[1000:]) > .7, rows[-1]
    # The shares of loops by their responses, over all ranks. Those of rank 0 differ only by chance.
    job = json.loads(sim("--np", "8", "--qd", "4", "--control", "none", "--warmup", "0", "--duration", "2",
                         "--trace", str(trace), "--trace-step", "0", "--json", "-").stdout)
    counts = [int(row["responses"]) for row in csv.DictReader(trace.open())]
    n_loops = job["loops_per_s"] * job["duration_ms"] / 1e3
    shares = [sum(low <= n <= high for n in counts) / n_loops
              for low, high in ((1, 1), (2, 10), (11, 100), (101, 10 ** 9))]
    shares.insert(0, 1 - sum(shares))
    for mine, said in zip(shares, job["loops_by_responses"]):
        assert abs(mine - said) < .05, (shares, job["loops_by_responses"])
    assert sum(share > .05 for share in shares) >= 4, shares
    hgrm = pathlib.Path(scratch) / "h"
    job = json.loads(sim(*SHORT, "--hgrm", str(hgrm), "--json", "-").stdout)
    rows = [line.split() for line in hgrm.read_text().splitlines() if line.strip()[:1].isdigit()]
    median = next(float(r[0]) for r in rows if float(r[1]) >= 0.5)
    assert abs(median - job["p50_us"]) <= 0.01 * median, (median, job)
    assert "Mean" in hgrm.read_text()
    machine.write_text('{"send_ns": 5000, "recv_ns": 5000}')
    slow = json.loads(sim(*SHORT, "--machine", str(machine), "--json", "-").stdout)
    assert slow["mops"] < one["mops"] / 2
    # K of auto is 1.15 round trips, or half a round trip, divided by the time of a WRITE. B is the time of a WRITE
    # divided by that of a message. So many calls are under way that their number does not limit K.
    for text, control in ((('{"send_ns": 5000, "recv_ns": 5000}'), "auto:5,74"),
                          ('{"send_ns": 1200, "recv_ns": 100}', "auto:5,18"),
                          ('{"wire_ns": 3000}', "auto:12,8"),
                          ('{"wire_ns": 9000}', "auto:19,8"),
                          ('{"send_ns": 0, "recv_ns": 0, "request_ns": 0, "incoming_ns": 0, "response_ns": 0}',
                           "auto:10,9")):
        machine.write_text(text)
        args = ["--np", "2", "--qd", "8", "--warmup", "0", "--duration", "0.1", "--machine", str(machine)]
        job = json.loads(sim(*args, "--json", "-").stdout)
        assert job["control"] == control, (text, job)
        said = sim(*args).stdout
        assert control in said and ("from the machine" in said) == (control != "auto:10,9"), said
        assert "as given" in sim(*args, "--control", control).stdout
    for text in ('{"send": 1}', '{"send_ns": "fast"}', '{"send_ns": -1}', "[]", "{",
                 '{"loop_ns": 0}', '{"send_ns": 1, "send_ns": 2}', '{"bytes_per_ns": 0}', '{"bytes_per_ns": 1e-300}',
                 r'{"a\nb": 1}'):
        machine.write_text(text)
        refuses("--machine", "--machine", str(machine))
    odd = scratch.encode() + b"/\xff"  # JSON must be UTF-8, file names need not be
    pathlib.Path(scratch, "m.json").rename(odd.decode(errors="surrogateescape"))
    pathlib.Path(odd.decode(errors="surrogateescape")).write_text("{}")
    assert json.loads(sim(*SHORT, "--machine", odd, "--json", "-").stdout)["machine"] == "(not UTF-8)"

two, three = (sim(*SHORT[2:], "--np", "3", "--threads", n, "--json", "-").stdout for n in "23")
assert two == three
for option, *values in (("--threads", "0", "65"), ("--np", "0", "4097"), ("--qd", "x"), ("--qd-before", "0"),
                        ("--intake", "0"), ("--client-waits", "0"), ("--control", "auto:0,1"), ("--init", "middle"), ("--duration", "0", "-1"), ("--disturb", "-1"),
                        ("--seed", "9223372036854775808")):  # it would be negative in the JSON object
    for value in values:
        refuses(option, option, value)
for args in (("map", "--qd-before", "1", "--qd-step", "1"), ("table", "--hgrm", "x"), ("table", "--np", "4"), ("table", "--clients", "4"),
             ("table", "--daemons", "2"), ("table", "--backend", "meta"),
             ("map", "--qd", "4"), ("map", "--init", "low"), ("table", "--control", "none"), ("map", "--trace", "x")):
    refuses(f"does not apply to {args[0]}", *args)
refuses("--qd-step", "--qd-before", "1", "--qd-step", "0")
refuses("give --qd-step", "--qd-before", "1")
refuses("give --qd-before", "--qd-step", "1")
refuses("at most --qd", "--qd", "2", "--qd-before", "3", "--qd-step", "1")
refuses("at most --qd", "--qd", "2", "--client-waits", "3")
refuses("at most --qd-before", "--qd", "4", "--qd-before", "2", "--qd-step", "1", "--client-waits", "3")
refuses("requests in flight", "--clients", "1024", "--qd", "4096")
refuses("command", "walk")
refuses("unexpected argument 'more'", "run", "more")
refuses("No such file", "--trace", "/nonexistent/x")
for args, name in ((SHORT, "standard output"), ([*SHORT, "--json", "-"], "standard output"), (["--help"], "standard output"),
                   (["--version"], "standard output"), ([*SHORT, "--hgrm", "/dev/full", "--json", "/dev/null"], "/dev/full"),
                   ([*SHORT, "--trace", "/dev/full", "--json", "/dev/null"], "/dev/full")):
    with open("/dev/full" if name == "standard output" else "/dev/null", "w") as out:
        full = subprocess.run([SIM, *args], stdout=out, stderr=subprocess.PIPE, text=True)
    reasons = "No space left on device", "not all could be written"  # the second one if an earlier flush has failed
    assert full.returncode == 1 and full.stderr in [f"benchkv-sim: {name}: {why}\n" for why in reasons], full
sim("--np", "2", "--qd", "1", "--control", "budget:500", "--init", "low")  # long loops must not break it
short = json.loads(sim("--control", "none", "--init", "low", "--disturb", "0", "--json", "-").stdout)
long = json.loads(sim("--control", "none", "--init", "low", "--disturb", "500", "--json", "-").stdout)
assert short["mops"] > 3 * long["mops"], (short, long)

# Near the critical number of calls in flight a good state collapses by itself, as was published: at first there are
# about a hundred responses per loop, after some tenths of a millisecond fewer than 37, and then one. With more calls
# in flight this does not happen.


def batches(calls, seed):
    """The mean number of responses in rank 0's loops that find any, for each tenth of a millisecond."""
    with tempfile.NamedTemporaryFile("r") as f:
        sim("--np", "32", "--qd", "1", "--clients", str(calls), "--control", "none", "--seed", str(seed), "--warmup", "0",
            "--duration", "2", "--trace", f.name, "--trace-step", "0")
        tenths = [[] for _ in range(21)]
        for line in csv.DictReader(f):
            if int(line["responses"]):
                tenths[int(float(line["time_us"]) // 100)].append(int(line["responses"]))
    return [sum(t) / max(len(t), 1) for t in tenths[:20]]


# The collapsed state of 8 ranks over time is within the published range.
with tempfile.NamedTemporaryFile("r") as f:
    sim("--np", "8", "--control", "none", "--init", "low", "--warmup", "0", "--trace", f.name, "--trace-step", "0")
    late = [line for line in csv.DictReader(f) if float(line["time_us"]) > 5000]
outstanding = [int(line["outstanding"]) for line in late]
assert max(outstanding) == 46 * 32 and 1370 <= sum(outstanding) / len(late) <= 1472, max(outstanding)
assert 0.58 <= sum(int(line["responses"]) for line in late) / len(late) <= 0.72

for seed in 1, 2:
    course = batches(440, seed)
    assert course[0] > 75 and min(course[:2]) > 37, course
    assert max(course[10:]) < 37 / 10 and sum(course[10:]) / 10 < 1.5, course
    assert min(batches(600, seed)) > 37
