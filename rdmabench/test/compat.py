#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the figures of --compat, and those of merged files, with figures that are computed here independently."""
import pathlib
import sys
import tempfile

from support import GOLDEN, run, seeded, text

exe = sys.argv[1]
rand = seeded()


def figures(samples):
    s, n = sorted(samples), len(samples)
    return [n, s[0], sum(s) // n, s[n // 2], s[int(n * 0.95)], s[int(n * 0.99)], s[-1]]


def merged(rows):
    """Returns sum, min, mean of means and of medians, max; values of 0 do not count."""
    rows = [r for r in rows if r[0] > 0]
    out = [sum(r[0] for r in rows)]
    for i in range(1, 7):
        v = [float(r[i]) for r in rows if r[i]]
        total = 0.0
        for x in v:
            total += x
        pick = [None, min, None, None, max, max, max][i]
        out.append("-" if not v else pick(v) if pick else total / len(v))
    return out


for n in [1, 2, 9, 10, 11, 15, 19, 20, 21, 99, 100, 101, 200] + [rand.randint(1, 900) for _ in range(20)]:
    samples = [rand.choice([rand.randrange(50), rand.randrange(10**9)]) for _ in range(n)]
    assert run(exe, "window", *samples).stdout == text(figures(samples)), (n, samples)

with tempfile.TemporaryDirectory() as tmp:
    cases = [GOLDEN, [], [[0, 0, 0, 0, 0, 0, 0]], [[3, 0, 1, 0, 2, 2, 2], [5, 7, 0, 0, 0, 0, 9]]]
    for _ in range(40):
        cases.append([[rand.choice([0, 10])] + [rand.choice([0, rand.randrange(10**9)]) for _ in range(6)]
                      for _ in range(rand.randint(1, 6))])
    for rows in cases:
        paths = []
        for i, row in enumerate(rows):
            paths.append(pathlib.Path(tmp) / f"{i}")
            paths[-1].write_text(text(row))
        out = run(exe, "merge", *paths).stdout
        assert out == text(merged(rows)), (rows, out)
    assert merged(GOLDEN)[2] == 142739395.66666666, merged(GOLDEN)

reals = [0.0, 1.0, 15642778.0, 142739395.66666666, 142834680.66666666, 0.1, 1 / 3, 1e15, 1e16, 123456789012345680.0,
         5e-324, 1e-5, 1e-4, 2.5, 1.7976931348623157e308] + [rand.random() * 10 ** rand.randint(-9, 20) for _ in range(200)]
assert run(exe, "real", *map(repr, reals)).stdout.split() == [repr(x) for x in reals]
print("passed")
