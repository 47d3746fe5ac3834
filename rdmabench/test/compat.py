#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The compatible figures and their merge rule, computed here independently."""
import os
import pathlib
import random
import subprocess
import sys
import tempfile

exe = sys.argv[1]
KEYS = ["latency_samples"] + [f"latency_{k}_ns" for k in ("min", "avg", "median", "p95", "p99", "max")]
seed = int(os.environ.get("TEST_SEED", random.randrange(1 << 32)))
print(f"TEST_SEED={seed}")
rand = random.Random(seed)


def run(*args):
    return subprocess.run([exe, *map(str, args)], check=True, capture_output=True, text=True).stdout


def figures(samples):
    s, n = sorted(samples), len(samples)
    return [n, s[0], sum(s) // n, s[n // 2], s[int(n * 0.95)], s[int(n * 0.99)], s[-1]]


def text(values):
    return "".join(f"{k}: {v}\n" for k, v in zip(KEYS, values))


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
    assert run("window", *samples) == text(figures(samples)), (n, samples)

with tempfile.TemporaryDirectory() as tmp:
    golden = [[10, 15642778, 142000000, 142834680, 190000000, 190000000, 190000000],
              [10, 16000000, 143000000, 142834681, 206864349, 206864349, 206864349],
              [10, 17000000, 143218187, 142834681, 200000000, 200000000, 200000000]]
    cases = [golden, [], [[0, 0, 0, 0, 0, 0, 0]], [[3, 0, 1, 0, 2, 2, 2], [5, 7, 0, 0, 0, 0, 9]]]
    for _ in range(40):
        cases.append([[rand.choice([0, 10])] + [rand.choice([0, rand.randrange(10**9)]) for _ in range(6)]
                      for _ in range(rand.randint(1, 6))])
    for rows in cases:
        paths = []
        for i, row in enumerate(rows):
            paths.append(pathlib.Path(tmp) / f"{i}")
            paths[-1].write_text(text(row))
        assert run("merge", *paths) == text(merged(rows)), (rows, run("merge", *paths))
    assert merged(golden)[2] == 142739395.66666666, merged(golden)

reals = [0.0, 1.0, 15642778.0, 142739395.66666666, 142834680.66666666, 0.1, 1 / 3, 1e15, 1e16, 123456789012345680.0,
         5e-324, 1e-5, 1e-4, 2.5, 1.7976931348623157e308] + [rand.random() * 10 ** rand.randint(-9, 20) for _ in range(200)]
assert run("real", *map(repr, reals)).split() == [repr(x) for x in reals]
print("passed")
