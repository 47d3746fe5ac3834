# SPDX-License-Identifier: MIT
"""Mutants: one-line changes of the code, each with the test that must fail.

    run.py --check SOURCE BUILD        checks that every record fits the tree; builds nothing
    run.py SOURCE [FILE...] [--only NAME]... [--part K/N] [--quarter [SEED]]

Without a FILE all files of test/mutants are read. --part selects the K-th of N equal parts of the mutants, --quarter a
random quarter, with a seed that is printed.

A file of mutants consists of records with an empty line between them; each line begins with a key:

    mutant: response-length
    why: a response longer than the caller's limit is refused
    file: copyrpc/src/chan.c
    from: if (len > limit)
    to: if (0)
    test: copyrpc-wire

The text of `from` must occur exactly once in the file, within one line; `to` replaces it. `test` is one or more names
of meson tests; a test that fails or runs into its time limit kills the mutant. A mutant that does not compile, or whose
tests are skipped, is an error.

The tree is copied once. The tests that the mutants name are built, and run before the first mutant is made. A mutant
whose tests do not pass then is an error, too. For a mutant only the programs of its tests are built. The time limit of a test follows from
its time without a mutant.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

LIMIT_BASE, LIMIT_TIMES = 15, 6  # seconds, and a factor of the test's time without a mutant
KEYS = ["mutant", "why", "file", "from", "to", "test"]


def records(path):
    """Returns the mutants of a file, each a dict of KEYS."""
    found, lines = [], []
    for number, line in enumerate(path.read_text().splitlines() + [""], 1):
        if line.startswith("#"):
            continue
        if line.strip():
            lines.append(line)
            continue
        if lines:
            record = dict((part.strip() for part in text.split(":", 1)) for text in lines)
            if sorted(record) != sorted(KEYS):
                sys.exit(f"{path.name}:{number}: a record has the keys {', '.join(KEYS)}")
            found.append(record)
        lines = []
    return found


def misfit(source, m):
    """Returns the reason why a mutant cannot be applied to this tree, or None."""
    path = source / m["file"]
    if not path.is_file():
        return f"no file {m['file']}"
    n = path.read_text().count(m["from"])
    return None if n == 1 else f"{m['file']} contains the text of `from` {n} times: {m['from']}"


def check(source, build):
    """Checks that each record fits the tree, and that each test in it exists."""
    listed = subprocess.run(
        ["meson", "introspect", "--tests", str(build)], check=True, capture_output=True, text=True
    ).stdout
    tests = {t["name"] for t in json.loads(listed)}
    wrong, seen = [], set()
    for path in sorted((source / "test/mutants").glob("*.txt")):
        for m in records(path):
            name = f"{path.stem}: {m['mutant']}"
            why = [misfit(source, m)] if misfit(source, m) else []
            why += [f"no test {t}" for t in m["test"].split() if t not in tests]
            why += ["its name is taken"] if name in seen else []
            seen.add(name)
            wrong += [f"{name}: {w}" for w in why]
    if not seen:
        wrong.append("no mutants were found")
    print("\n".join(wrong) or f"{len(seen)} mutants fit the tree")
    return 1 if wrong else 0


class Copy:
    """A copy of the tree with a build. Its tests are run without meson, which would add a second to each."""

    def __init__(self, source, scratch, wanted):
        self.tree, self.build = scratch / "tree", scratch / "tree/build"
        shutil.copytree(source, self.tree, ignore=shutil.ignore_patterns("build*", ".git"), symlinks=True)
        for command in (["init", "-q"], ["add", "-A"]):  # some tests list the files with git
            subprocess.run(["git", "-C", str(self.tree)] + command, check=True, capture_output=True)
        # Copies have other paths; without this ccache would compile the whole tree for each.
        self.env = dict(os.environ, CCACHE_BASEDIR=str(scratch), CCACHE_NOHASHDIR="1")
        setup = ["meson", "setup", str(self.build), str(self.tree)]
        subprocess.run(setup, check=True, capture_output=True, env=self.env)
        info = self.build / "meson-info"
        self.files = {t["id"]: t["filename"] for t in json.loads((info / "intro-targets.json").read_text())}
        tests = {t["name"]: t for t in json.loads((info / "intro-tests.json").read_text())}
        self.tests = {name: tests[name] for name in wanted if name in tests}
        self.limits = {}
        self.box = []
        if shutil.which("cc"):
            box = self.build / "box"
            subprocess.run(["cc", "-O1", "-D_GNU_SOURCE", "-o", box, self.tree / "test/suite/box.c"], check=True)
            # When the first process of a pid namespace ends, the kernel kills the others. The first one is a shell and
            # not box, because box ends by raising the signal that ended the test, which a first process would ignore.
            self.box = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", '"$@"; exit $?', "sh", str(box)]

    def compiles(self, names):
        depends = [self.tests[n]["depends"] for n in names]
        targets = {f for ids in depends for i in ids for f in self.files.get(i, [])}
        # A test that names no target may use any.
        paths = [os.path.relpath(f, self.build) for f in sorted(targets)] if all(depends) else []
        command = ["ninja", "-C", str(self.build), "--quiet"] + paths
        return subprocess.run(command, capture_output=True, env=self.env).returncode == 0

    def run(self, name):
        """Runs a test. Returns `OK`, `SKIP`, `FAIL` or `TIMEOUT`."""
        t = self.tests[name]
        limit = self.limits.get(name, 10 * t["timeout"])
        with subprocess.Popen(self.box + t["cmd"], cwd=t["workdir"] or self.build, env=dict(self.env, MALLOC_PERTURB_="165", **t["env"]),
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              start_new_session=True) as p:
            try:
                return {0: "OK", 77: "SKIP"}.get(p.wait(limit), "FAIL")
            except subprocess.TimeoutExpired:
                return "TIMEOUT"
            finally:
                try:
                    os.killpg(p.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def healthy(self):
        """Runs the tests of the unchanged tree and sets their time limits. Returns {name: result} of those
        whose result is not `OK`."""
        red = {}
        for name, t in self.tests.items():
            begun = time.monotonic()
            word = self.run(name)
            if word != "OK":
                red[name] = word
            self.limits[name] = min(10 * t["timeout"], LIMIT_BASE + LIMIT_TIMES * (time.monotonic() - begun))
        return red

    def verdict(self, m):
        """Returns `killed`, `killed by the time limit`, or the reason why the mutant is not killed."""
        names = m["test"].split()
        path = self.tree / m["file"]
        whole = path.read_text()
        path.write_text(whole.replace(m["from"], m["to"]))
        try:
            if not self.compiles(names):
                return "does not compile"
            words = (self.run(n) for n in names)
            word = next((w for w in words if w != "OK"), "OK")
        finally:
            path.write_text(whole)
        words = {"OK": "survived", "SKIP": "its tests did not run", "TIMEOUT": "killed by the time limit"}
        return words.get(word, "killed")


def hunt(source, mutants):
    """Tries each mutant in a copy of the tree. Those of one file follow each other, so that little is rebuilt."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        begun = time.monotonic()
        names = sorted({t for m in mutants for t in m["test"].split()})
        copy = Copy(source, pathlib.Path(scratch), names)
        missing = sorted(set(names) - set(copy.tests))
        if missing:
            sys.exit(f"no test {' '.join(missing)}")
        if not copy.compiles(names):
            sys.exit("the tree itself does not build")
        built = time.monotonic()
        red = copy.healthy()
        if red:
            print(f"these tests do not pass without a mutant, so their mutants are not tried: {red}", flush=True)
        first = time.monotonic()
        print(f"built in {built - begun:.0f} s, {len(names)} tests run in {first - built:.0f} s", flush=True)
        bad = 0
        for m in sorted(mutants, key=lambda m: m["file"]):
            at = time.monotonic()
            unfit = misfit(copy.tree, m) or ("its tests do not pass without it" if set(m["test"].split()) & set(red) else None)
            word = unfit or copy.verdict(m)
            bad += not word.startswith("killed")
            print(f"{m['mutant']}: {word}, {time.monotonic() - at:.1f} s", flush=True)
        mean = (time.monotonic() - first) / len(mutants)
        print(f"{len(mutants) - bad} killed, {bad} not; {mean:.1f} s for each")
        return 1 if bad else 0


def part_of(mutants, part):
    k, n = (int(x) for x in part.split("/"))
    if not 1 <= k <= n:
        sys.exit("--part K/N: K is 1 to N")
    return mutants[len(mutants) * (k - 1) // n : len(mutants) * k // n]


def quarter_of(mutants, seed):
    seed = seed if seed >= 0 else random.randrange(1 << 32)
    print(f"a quarter of the mutants, --quarter {seed}", flush=True)
    return random.Random(seed).sample(mutants, (len(mutants) + 3) // 4)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("paths", type=pathlib.Path, nargs="*")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--quarter", type=int, nargs="?", const=-1)
    args = parser.parse_args()
    if args.check:
        return check(args.source, args.paths[0])
    paths = args.paths or sorted((args.source / "test/mutants").glob("*.txt"))
    mutants = [m for path in paths for m in records(path)]
    if args.only:
        mutants = [m for m in mutants if m["mutant"] in args.only]
    if args.quarter is not None:
        mutants = quarter_of(mutants, args.quarter)
    mutants = part_of(sorted(mutants, key=lambda m: m["file"]), args.part)
    if not mutants:
        sys.exit("no such mutant")
    return hunt(args.source.resolve(), mutants)


if __name__ == "__main__":
    sys.exit(main())
