#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the published figures and conditions of `benchkv-sim table`, and the error of the model.

The published figures are repeated here as in the documents (million operations per second,
outstanding requests, responses per loop, million loops per second; None: not published). The
figures of the model are the same on every machine.
"""
import re
import subprocess
import sys

DEPTH_32 = {("2", "none", "high"): (15.26, None, 4.6, .86),
            ("8", "none", "low"): (8.79, 1343, .97, 1.40),
            ("16", "none", "high"): (110.04, 833, 28.0, .23),
            ("8", "budget:16", "low"): (58.4, None, None, None),
            ("16", "budget:16", "low"): (24.7, None, None, None)}
DEPTH_1 = {(ranks, control, "high"): (mops, None, None, None) for control, all_mops in (
    ("none", (13.8, 21.9, 8.2, 14.7, 27.1)), ("hold:10", (14.7, 21.4, 10.6, 20.2, 31.3)),
    ("adaptive-hold", (14.7, 20.9, 11.1, 19.5, 38.9)))
           for ranks, mops in zip(("2", "4", "8", "16", "32"), all_mops)}
CONDITIONS = ("HDR100, Xeon Gold 6530; depth 32, 46 clients, 1 daemon, ring 4 MiB, 10 s, one run;\n"
              "flush apart from the poll, phases interleaved, no poll budget but where named",
              "ConnectX-7, Xeon 8468; depth 1, 46 clients, 1 daemon")
NEAR = 1.25  # the factor within which a simulated figure is near a published one
FAR = {"responses", "loops"}  # columns of which the document says that they are not reproduced

machine, *blocks = subprocess.run([sys.argv[1], "table"], capture_output=True, text=True, check=True,
                                  timeout=280).stdout.split("\n\n")
assert len(blocks) == 2, blocks


def number(word):
    return None if word == "-" else float(word)


def cells(words):
    """Published, simulated and, if it was published, the ratio of each column."""
    columns = []
    while words:
        published = number(words[0])
        n = 2 if published is None else 3
        columns.append((published, *map(float, words[1:n])))
        words = words[n:]
    return columns


def read(block, conditions):
    """The rows of a block by (ranks, control, initial state)."""
    assert block.startswith(conditions + "\n"), block
    found = {}
    for line in block[len(conditions):].strip().splitlines()[1:]:
        line = re.sub(r" (\d+\.\d+)- *(\d+\.\d+)", "", line)  # the range of the seeds
        ranks, control, state, *words = line.split()
        mops, outstanding, responses, loops = cells(words)
        found[ranks, control, state] = {"mops": mops, "outstanding": outstanding,
                                        "responses": responses, "loops": loops}
    return found


deep, shallow = (read(block, text) for block, text in zip(blocks, CONDITIONS))
for rows, published in (deep, DEPTH_32), (shallow, DEPTH_1):
    assert rows.keys() == published.keys(), rows.keys()
    for key, row in rows.items():
        for name, known, cell in zip(row, published[key], row.values()):
            assert cell[0] == known, (key, name, cell, known)
            if known is None:
                continue
            assert abs(cell[1] / cell[0] - cell[2]) < .02 + .01 / cell[0], (key, name, cell)
            assert name in FAR or 1 / NEAR < cell[1] / cell[0] < NEAR, (key, name, cell)

# The collapsed job has more requests under way than the good one of twice its ranks, and a thirteenth of
# its throughput.
low, good = deep["8", "none", "low"], deep["16", "none", "high"]
assert low["outstanding"][1] > 1.5 * good["outstanding"][1], (low, good)
assert low["mops"][1] < good["mops"][1] / 10, (low, good)

# The critical batch follows from the parameters above it.
p = {m[1]: float(m[2]) for m in re.finditer(r"^  (\w+) +([\d.]+)  \S", machine, re.M)}
batch = (2 * (p["send_ns"] + p["wire_ns"] + p["recv_ns"]) + p["loop_ns"]) / (
    p["request_ns"] + p["incoming_ns"] + p["response_ns"])
assert f"critical batch: round trip / CPU per message = {batch:.0f}" in machine, (batch, machine)
assert p["send_ns"] > 0 and round(batch) == 33, batch
