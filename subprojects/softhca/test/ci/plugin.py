# SPDX-License-Identifier: MIT
"""Tests the pytest plugin: its example passes, each test of outcomes.py has the outcome that is in its name, and no
fabric is left.

    plugin.py SOFTHCA-RUN PLUGIN EXAMPLE
"""
import os
import pathlib
import re
import subprocess
import sys

here = pathlib.Path(__file__).parent
runner, plugin, example = (pathlib.Path(a).resolve() for a in sys.argv[1:])
env = {**os.environ, "PATH": f"{runner.parent}:{os.environ['PATH']}", "PYTHONPATH": str(plugin.parent),
       "PYTHONDONTWRITEBYTECODE": "1", "SOFTHCA_FABRIC": f"plugin-{os.getpid()}"}


def run(file, *prefix):
    """Returns the outcomes by test, and the output."""
    done = subprocess.run([*prefix, sys.executable, "-m", "pytest", "-vrsx", "-p", "softhca", "-p", "no:cacheprovider", file],
                          env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return dict(re.findall(r"::(test_\w+) ([A-Z]+)", done.stdout)), done.stdout


def check(file, wanted, *prefix, says=()):
    outcomes, output = run(file, *prefix)
    assert outcomes and all(wanted(test) == outcome for test, outcome in outcomes.items()), output
    assert len(outcomes) == file.read_text().count("\ndef test_"), output
    for text in says:
        assert text in output, (text, output)


check(example, lambda test: "PASSED", runner)
check(here / "outcomes.py", lambda test: test.split("_")[1].upper(), runner,
      says=["assert ['mlx5_0'] == ['another']", "ended with status -9", "ended with status 0", "a reason", "a defect", "a mark",
            "softhca-run --rails 99: failed"])
check(example, lambda test: "ERROR", says=["start pytest under softhca-run"])
ours = tuple(f"softhca-{os.getuid()}-{name}" for name in (env["SOFTHCA_FABRIC"], "pytest-"))
left = [name for name in os.listdir("/dev/shm") if name.startswith(ours)]
assert not left, left
