#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the vendor's own tests of libibverbs and libmlx5, as Debian ships them, on the
software HCA.

usage: vendor.py SOFTHCA-RUN LIST ib|roce [SOFTHCA-RUN'S OPTION...]

LIST names the tests that do not pass, each with its outcome and the reason; the file describes its format. The run
fails if a test does not end as LIST says, if a test that is not in LIST does not pass, if a test of LIST does not
exist, if the HCA reports anything, or if files of the fabric are left. Ends with 77 if the tests are not installed
(Debian's python3-pyverbs).
"""

import collections
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

TESTS = "/usr/share/doc/rdma-core/tests"
PYTHON = "/usr/bin/python3"  # Debian's: the only one that finds Debian's modules
GUARD_S = 960  # guards only against hanging
SKIPPED, FAILED, DEPENDS = "skipped", "fails", "depends on the machine"


class Recorder(unittest.TextTestResult):
    """Writes one line for each test to the descriptor that REPORT names: how it ended,
    its id, the reason."""

    def __init__(self, *args):
        super().__init__(*args)
        self.report = os.fdopen(os.dup(int(os.environ["REPORT"])), "w")
        self.outcome = {}

    def note(self, test, outcome, reason=""):
        self.outcome[test.id()] = (outcome, " ".join(str(reason).split()))

    def addSuccess(self, test):
        super().addSuccess(test)
        self.note(test, "ok")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, SKIPPED, reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.note(test, FAILED, err[1])

    addError = addUnexpectedSuccess = addFailure

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self.note(test, FAILED, err[1])

    def stopTest(self, test):
        super().stopTest(test)
        # A failed setUpClass is recorded with an id of another form; stopTestRun() writes it.
        outcome, reason = self.outcome.pop(test.id(), (FAILED, "ended without a result"))
        print(outcome, test.id(), reason, sep="\t", file=self.report, flush=True)

    def stopTestRun(self):
        super().stopTestRun()
        for name, (outcome, reason) in self.outcome.items():
            print(outcome, name, reason, sep="\t", file=self.report, flush=True)


def run_inside(where):
    """Runs the tests in the directory `where`, in a process on the HCA."""
    sys.path[:0] = [where, f"{where}/tests"]  # the tests import each other with and without the package's name
    sys.argv = ["vendor"]
    from args_parser import parser  # pylint: disable=import-error
    parser.parse_args()
    import tests  # pylint: disable=import-error
    suite = unittest.defaultTestLoader.loadTestsFromModule(tests)
    unittest.TextTestRunner(resultclass=Recorder, verbosity=0).run(suite)


def unpack(where):
    for name in os.listdir(TESTS):
        path = f"{TESTS}/{name}"
        if name.endswith(".gz"):
            with gzip.open(path) as packed, open(f"{where}/{name[:-3]}", "wb") as plain:
                shutil.copyfileobj(packed, plain)
        elif os.path.isfile(path):
            shutil.copy(path, where)


def read_list(path, link):
    """Returns how each test of the list must end, on adapters of this link."""
    expected, section = {}, None
    with open(path) as f:
        for number, line in enumerate(f, 1):
            line = line.split("#")[0].strip()
            if heading := re.fullmatch(r"\[([^:]+): (.+)\]", line):
                section = heading[1]
            elif entry := re.fullmatch(r"(\S+)(?: \((ib|roce)\))?", line):
                if entry[1] in expected:
                    sys.exit(f"{path}:{number}: {entry[1]} stands here twice")
                if not entry[2] or entry[2] == link:
                    expected[entry[1]] = section
            elif line:
                sys.exit(f"{path}:{number}: neither a heading nor a test")
            if section not in (None, SKIPPED, FAILED, DEPENDS):
                sys.exit(f"{path}:{number}: no kind of section: {section}")
    return expected


def run_on_hca(runner, options, link):
    """Returns the outcomes, and the output of the HCA and the tests."""
    fabric = f"vendor-{os.getpid()}"
    with tempfile.TemporaryDirectory() as where, \
         tempfile.TemporaryFile("w+") as report, tempfile.TemporaryFile("w+") as said:
        os.mkdir(f"{where}/tests")
        unpack(f"{where}/tests")
        if link == "roce":
            with open(f"{where}/topology", "w") as f:
                f.write("link=roce rate_mbps=100000\n")
            options = [*options, "--topology", f"{where}/topology"]
        env = dict(os.environ, REPORT=str(report.fileno()), PYTHONDONTWRITEBYTECODE="1")
        if preload := env.pop("CONFORMANCE_PRELOAD", None):
            env["LD_PRELOAD"] = preload
        command = [runner, "--fabric", fabric, *options, PYTHON, os.path.abspath(__file__),
                   "--inside", where]
        process = subprocess.Popen(command, cwd=where, env=env, stdin=subprocess.DEVNULL,
                                   stdout=said, stderr=subprocess.STDOUT,
                                   pass_fds=[report.fileno()])
        try:
            process.wait(GUARD_S)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait()
        report.seek(0)
        said.seek(0)
        outcomes = [line.rstrip("\n").split("\t") for line in report]
        text = said.read()
    if process.returncode:
        text += f"softhca: the run ended with {process.returncode}\n"
    if os.path.exists(path := f"/dev/shm/softhca-{os.getuid()}-{fabric}"):
        text += f"softhca: {path} is left\n"
    return outcomes, text


def judge(outcomes, expected):
    """Lists deviations from the expected results."""
    seen = set()
    for outcome, name, reason in outcomes:
        seen.add(name)
        want = expected.get(name, "ok")
        if outcome == want or (want == DEPENDS and outcome != FAILED):
            continue
        yield f"{name}: {outcome}{reason and ' -- ' + reason}, where the list has: {want}"
    for name in expected.keys() - seen:
        yield f"{name}: is in the list, but did not run"


def main():
    if len(sys.argv) < 4 or sys.argv[3] not in ("ib", "roce"):
        sys.exit("usage: vendor.py SOFTHCA-RUN LIST ib|roce [OPTION...]")
    runner, path, link, *options = os.path.abspath(sys.argv[1]), *sys.argv[2:]
    has_module = subprocess.run([PYTHON, "-c", "import pyverbs"], check=False,
                                stderr=subprocess.DEVNULL)
    if has_module.returncode or not os.path.isdir(TESTS):
        print("python3-pyverbs, or its tests in /usr/share/doc, are not installed")
        sys.exit(77)
    expected = read_list(path, link)
    outcomes, said = run_on_hca(runner, options, link)
    wrong = list(judge(outcomes, expected))
    wrong += [l for l in said.splitlines() if l.startswith("softhca:")]
    if not outcomes:
        wrong.append("no test ran")
    if wrong:
        print(said)
    for line in wrong:
        print("FAIL", line)
    counts = collections.Counter(o[0] for o in outcomes)
    print(f"{counts['ok']} passed, {counts[SKIPPED]} skipped, {counts[FAILED]} failed,"
          f" {len(wrong)} not as listed")
    if os.environ.get("VENDOR_VERBOSE"):
        for outcome in outcomes:
            print(*outcome, sep="\t")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        run_inside(sys.argv[2])
    else:
        main()
