# SPDX-License-Identifier: MIT
"""Common parts of the tests of rdmabench."""
import contextlib
import os
import pathlib
import random
import select
import subprocess
import tempfile

KEYS = ["latency_samples"] + [f"latency_{k}_ns" for k in ("min", "avg", "median", "p95", "p99", "max")]
# Files of older tools: the latencies of three processes.
GOLDEN = [[10, 15642778, 142000000, 142834680, 190000000, 190000000, 190000000],
          [10, 16000000, 143000000, 142834681, 206864349, 206864349, 206864349],
          [10, 17000000, 143218187, 142834681, 200000000, 200000000, 200000000]]
SSH = r"""#!/bin/sh
# ssh OPTION... -- HOST COMMAND, where each host has a directory of its own
while [ "$1" != -- ]; do shift; done
[ -d "HOSTS/$2" ] || exit 255
cd "HOSTS/$2" && exec sh -c "$3"
"""


def text(values):
    """Returns the text of a statistics file."""
    return "".join(f"{k}: {v}\n" for k, v in zip(KEYS, values))


def seeded():
    """Returns a source of random numbers, whose seed is printed, so that a failure can be repeated."""
    seed = int(os.environ.get("TEST_SEED", random.randrange(1 << 32)))
    print(f"TEST_SEED={seed}")
    return random.Random(seed)


def run(*line, status=0, timeout=1200, env=None, **kw):
    """Runs a command, which must end with the status, or with any if it is None. `env` is added to the environment."""
    line = [a if isinstance(a, bytes) else str(a) for a in line]
    r = subprocess.run(line, capture_output=True, text=True, timeout=timeout, errors="replace",
                       env={**os.environ, **(env or {})}, **kw)
    assert status is None or r.returncode == status, (line, r.returncode, r.stdout, r.stderr)
    return r


def run_cases(cases, wanted):
    """Calls each function, or those whose names are wanted, with an empty directory."""
    assert set(wanted) <= {case.__name__ for case in cases}, wanted
    for case in cases:
        if wanted and case.__name__ not in wanted:
            continue
        with tempfile.TemporaryDirectory() as tmp:
            print(case.__name__)
            case(pathlib.Path(tmp))
            os.chdir("/")
    print("passed")


def until(process, true):
    """Returns once true() returns true, which is checked from time to time. Fails if the process ends before that."""
    end = os.pidfd_open(process.pid)
    try:
        while not true():
            assert not select.select([end], [], [], 0.01)[0], process.communicate()
    finally:
        os.close(end)


@contextlib.contextmanager
def topology(text):
    """Yields the name of a file that describes the devices of the software HCA."""
    with tempfile.NamedTemporaryFile("w") as f:
        f.write(text)
        f.flush()
        yield f.name
