# SPDX-License-Identifier: MIT
"""hw-check writes its report if programs of a step hang, or fail in another way than hw-check expects.

    failures.py HW-CHECK
"""
import argparse
import importlib.machinery
import importlib.util
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


def report(programs, *steps, patience=None):
    """Runs the steps with these programs, and with that many seconds of patience. Returns the lines of the report about
    failed steps."""
    hw_check = load(sys.argv[1])
    hw_check.PATIENCE = patience or hw_check.PATIENCE
    with tempfile.TemporaryDirectory() as tmp:
        build, file = pathlib.Path(tmp), pathlib.Path(tmp) / "report"
        for name, text in programs.items():
            (build / name).write_text(f"#!/bin/sh\n{text}\n")
            (build / name).chmod(0o755)
        args = argparse.Namespace(build=build, softhca=True, device=None, gid_index=None, quick=True, peer=None, cable=False,
                                  steps=steps, report=file)
        assert hw_check.check(hw_check.Check(args)) == 1
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
print("passed")
