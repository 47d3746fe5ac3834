# SPDX-License-Identifier: MIT
"""hw-check writes its report if programs of a step hang, fail in another way than hw-check expects, or if it is interrupted.
A report that cannot be opened ends it before the first step.

    failures.py HW-CHECK
"""
import argparse
import contextlib
import importlib.machinery
import importlib.util
import io
import pathlib
import sys
import tempfile

HANG = "exec tail -f /dev/null"
PROGRAMS = {"hwcheck": "echo mlx5_0", "softhca-run": 'shift 2; exec "$@"', "softhcactl": "exit 1", "copyrpc-bench": "exit 0",
            "copyrpc-large": "exit 0", "copyrpc-echo-server": HANG, "copyrpc-echo-client": HANG, "copyrpc-files": HANG,
            "copyrpc-steady": HANG}


def load(path):
    """Returns hw-check as a module."""
    loader = importlib.machinery.SourceFileLoader("hw_check", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("hw_check", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def check(hw_check, tmp, programs, steps, file):
    """Runs the steps with these programs. Returns the status."""
    build = pathlib.Path(tmp)
    for name, text in programs.items():
        (build / name).write_text(f"#!/bin/sh\n{text}\n")
        (build / name).chmod(0o755)
    args = argparse.Namespace(build=build, softhca=True, device=None, gid_index=None, quick=True, peer=None, cable=False,
                              steps=steps, report=file)
    return hw_check.check(hw_check.Check(args))


def report(programs, *steps, patience=None):
    """Runs the steps with that many seconds of patience. Returns the lines of the report about failed steps."""
    hw_check = load(sys.argv[1])
    hw_check.PATIENCE = patience or hw_check.PATIENCE
    with tempfile.TemporaryDirectory() as tmp:
        file = pathlib.Path(tmp) / "report"
        assert check(hw_check, tmp, programs, steps, file) == 1
        return [line for line in file.read_text().splitlines() if " FAILED (" in line]


# A client that does not end; servers that do not print their port.
hung = report(PROGRAMS, "copyrpc", "bulk", "cable", patience=0.5)
assert len(hung) == 3, hung
assert "copyrpc-echo-client" in hung[0] and "timed out" in hung[0], hung
assert all(line.endswith(": the server has no port") for line in hung[1:]), hung
# A port that cannot be taken down.
steady = 'case $1 in serve) echo 1;; *) echo connected;; esac; exec tail -f /dev/null'
failed = report({**PROGRAMS, "copyrpc-steady": steady}, "cable")
assert len(failed) == 1 and "softhcactl" in failed[0] and "exit status 1" in failed[0], failed
# A report that cannot be opened.
out, err = io.StringIO(), io.StringIO()
with tempfile.TemporaryDirectory() as tmp, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
    status = check(load(sys.argv[1]), tmp, PROGRAMS, ["tent"], pathlib.Path(tmp) / "no directory" / "report")
assert (status, out.getvalue(), err.getvalue().count("\n")) == (2, "", 1), (status, out.getvalue(), err.getvalue())
assert "--report" in err.getvalue() and "No such file" in err.getvalue(), err.getvalue()
# The report of an interrupted check contains the steps before the interruption.
with tempfile.TemporaryDirectory() as tmp:
    hw_check, file = load(sys.argv[1]), pathlib.Path(tmp) / "report"
    hw_check.STEPS["local"] = lambda c: hw_check.stop(2, None)
    try:
        status = check(hw_check, tmp, PROGRAMS, ["tent", "local"], file)
    except SystemExit as e:
        status = e.code
    assert status == 130 and "\ntent       skipped" in file.read_text(), (status, file.read_text())
print("passed")
