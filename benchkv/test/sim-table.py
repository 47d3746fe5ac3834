#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the published figures and conditions of `benchkv-sim table`, and the error of the model.

This file repeats the published figures (million operations per second, outstanding requests,
responses per loop, million loops per second; None: not published), and the mark of each figure:
d if a parameter was derived from it, f if a parameter was fitted to it, p if it is predicted.
The figures of the model are the same on every machine.
"""
import re
import subprocess
import sys

DEPTH_32 = {("2", "1", "delegation", "none", "high"): ((15.26, None, 4.6, .86), "d.pp"),
            ("8", "1", "delegation", "none", "low"): ((8.79, 1343, .97, 1.40), "pppd"),
            ("16", "1", "delegation", "none", "high"): ((110.04, 833, 28.0, .23), "dppp"),
            ("8", "1", "delegation", "budget:16", "low"): ((58.4, None, None, None), "f..."),
            ("16", "1", "delegation", "budget:16", "low"): ((24.7, None, None, None), "f...")}
DEPTH_1 = {(ranks, "1", "delegation", control, "high"): ((mops, None, None, None), "p...")
           for control, all_mops in (
               ("none", (13.8, 21.9, 8.2, 14.7, 27.1)), ("hold:10", (14.7, 21.4, 10.6, 20.2, 31.3)),
               ("adaptive-hold", (14.7, 20.9, 11.1, 19.5, 38.9)))
           for ranks, mops in zip(("2", "4", "8", "16", "32"), all_mops)}
BACKENDS = {(ranks, "2", backend, "none", "high"): ((mops, None, None, None), "p...")
            for backend, ranks, mops in (("meta", "1", 25.2), ("meta", "2", 3.37), ("delegation", "1", 21.0),
                                         ("delegation", "2", 4.76))}
DAEMONS = {("8", n, "delegation", control, "high"): ((None, None, None, None), "....")
           for control in ("none", "auto") for n in "24"}
CONDITIONS = ("HDR100, Xeon Gold 6530; depth 32, 46 clients, 1 daemon, ring 4 MiB, 10 s, one run;\n"
              "flush separate from the poll, phases interleaved, no poll budget except where named",
              "ConnectX-7, Xeon 8468; depth 1, 46 clients, 1 daemon",
              "1 and 2 nodes; depth 4, 4 clients, 2 daemons; machine not published",
              "several daemons, not published; depth 1, 46 clients (8 ranks: direct 15.42, UCX 14.41)")
NEAR = 1.25  # largest accepted ratio of a simulated and a published figure
APART = 2.5  # the same for jobs whose machine was not published
FAR = {"responses", "loops"}  # columns that the model does not reproduce, as sim/README.md says

machine, *blocks = subprocess.run([sys.argv[1], "table", "--duration", "5"], capture_output=True, text=True, check=True,
                                  timeout=280).stdout.split("\n\n")
assert len(blocks) == len(CONDITIONS), blocks


def number(word):
    return None if word == "-" else float(word)


def cells(words):
    """For each column the published figure, the simulated one and, if there are both, the ratio; and all marks."""
    columns, marks = [], ""
    while words:
        published = number(words[0])
        n = 2 if published is None else 3
        columns.append((published, *map(float, words[1:n])))
        marks += "." if published is None else words[n]
        words = words[n + (published is not None):]
    return columns, marks


def read(block, conditions):
    """The rows of a block by (ranks, daemons, backend, control, initial state)."""
    assert block.startswith(conditions + "\n"), block
    found = {}
    for line in block[len(conditions):].strip().splitlines()[1:]:
        line = re.sub(r" (\d+\.\d+)- *(\d+\.\d+)", "", line)  # the range of the seeds
        words = line.split()
        columns, marks = cells(words[5:])
        found[tuple(words[:5])] = dict(zip(("mops", "outstanding", "responses", "loops"), columns)), marks
    return found


deep, shallow, backends, daemons = (read(block, text) for block, text in zip(blocks, CONDITIONS))
for rows, published in (deep, DEPTH_32), (shallow, DEPTH_1), (backends, BACKENDS), (daemons, DAEMONS):
    assert rows.keys() == published.keys(), rows.keys()
    for key, (row, marks) in rows.items():
        assert marks == published[key][1], (key, marks)
        for name, known, cell in zip(row, published[key][0], row.values()):
            assert cell[0] == known, (key, name, cell, known)
            if known is None:
                continue
            assert abs(cell[1] / cell[0] - cell[2]) < .02 + .01 / cell[0], (key, name, cell)
            factor = APART if rows is backends else NEAR
            assert name in FAR or 1 / factor < cell[1] / cell[0] < factor, (key, name, cell)

# The collapsed job has more requests under way than the good job with twice as many ranks, and less than a tenth of
# the throughput.
low, good = (deep[ranks, "1", "delegation", "none", state][0] for ranks, state in (("8", "low"), ("16", "high")))
assert low["outstanding"][1] > 1.5 * good["outstanding"][1], (low, good)
assert low["mops"][1] < good["mops"][1] / 10, (low, good)

# The critical batch follows from the parameters above it.
p = {m[1]: float(m[2]) for m in re.finditer(r"^  (\w+) +([\d.]+)  \S", machine, re.M)}
batch = (2 * (p["send_ns"] + p["wire_ns"] + p["recv_ns"]) + p["loop_ns"]) / (
    p["request_ns"] + p["incoming_ns"] + p["response_ns"])
assert f"critical batch: round trip / CPU per message = {batch:.0f}" in machine, (batch, machine)
assert p["send_ns"] > 0 and round(batch) == 33, batch

# With two daemons a collapsed rank has twice the throughput; with four daemons 8 ranks do not collapse.
one, two, four = (rows["8", n, "delegation", "none", "high"][0]["mops"][1] for n, rows in (
    ("1", shallow), ("2", daemons), ("4", daemons)))
assert 1.8 < two / one < 2.2 and four > 4 * one, (one, two, four)
# Between two ranks, a call of meta waits for the loops of two more daemons.
meta, delegation = (backends["2", "2", name, "none", "high"][0]["mops"][1] for name in ("meta", "delegation"))
assert 1.03 < delegation / meta < 1.41, (delegation, meta)
