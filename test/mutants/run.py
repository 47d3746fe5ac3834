# SPDX-License-Identifier: MIT
"""Mutants: one-line changes of the code, each with the test that must fail.

    run.py --check SOURCE BUILD        every record fits the tree: quick, nothing is built
    run.py SOURCE FILE... [--only NAME]...

A file of mutants holds records, an empty line between them, a key at the beginning of each line:

    mutant: response-length
    why: a response longer than the caller's limit is refused
    file: copyrpc/src/chan.c
    from: if (len > limit)
    to: if (0)
    test: copyrpc-wire

`from` stands once in the file, within one line, and `to` replaces it. `test` is one or more names of
meson tests; one that fails or runs into its time limit kills the mutant. A mutant that does
not compile, or whose tests are skipped, is an error.

The tree is copied and built once; its tests must pass before the first mutant is made.
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

KEYS = ["mutant", "why", "file", "from", "to", "test"]


def records(path):
    """The mutants of a file, each a dict of KEYS."""
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
    """Why a mutant cannot be made of this tree, or None."""
    path = source / m["file"]
    if not path.is_file():
        return f"no file {m['file']}"
    n = path.read_text().count(m["from"])
    return None if n == 1 else f"{m['file']} has its line {n} times: {m['from']}"


def check(source, build):
    """Each record fits the tree, and each test that it names exists."""
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


def run_tests(build, names):
    """Runs the tests. Returns a dict of each test's name and result, in meson's words."""
    log = build / "meson-logs/testlog.json"
    log.unlink(missing_ok=True)
    subprocess.run(
        ["meson", "test", "-C", str(build), "--no-rebuild"] + names, capture_output=True, text=True
    )
    rows = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return {row["name"]: row["result"] for row in rows}


def compiles(build):
    return subprocess.run(["ninja", "-C", str(build), "--quiet"], capture_output=True).returncode == 0


def verdict(tree, build, m):
    """`killed`, or why not."""
    path = tree / m["file"]
    whole = path.read_text()
    path.write_text(whole.replace(m["from"], m["to"]))
    try:
        if not compiles(build):
            return "does not compile"
        results = run_tests(build, m["test"].split())
    finally:
        path.write_text(whole)
    if not results or any(r == "SKIP" for r in results.values()):
        return "its tests did not run"
    return "killed" if any(r in ("FAIL", "TIMEOUT", "ERROR") for r in results.values()) else "survived"


def hunt(source, mutants):
    """Each mutant in turn, in a copy of the tree."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        tree, build = pathlib.Path(scratch) / "tree", pathlib.Path(scratch) / "tree/build"
        shutil.copytree(source, tree, ignore=shutil.ignore_patterns("build*", ".git"))
        subprocess.run(["meson", "setup", str(build), str(tree)], check=True, capture_output=True)
        if not compiles(build):
            sys.exit("the tree itself does not build")
        names = sorted({t for m in mutants for t in m["test"].split()})
        red = {n: r for n, r in run_tests(build, names).items() if r != "OK"}
        if red:
            sys.exit(f"without any mutant: {red}")
        bad = 0
        for m in mutants:
            word = misfit(tree, m) or verdict(tree, build, m)
            bad += word != "killed"
            print(f"{m['mutant']}: {word}", flush=True)
        print(f"{len(mutants) - bad} killed, {bad} not")
        return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("paths", type=pathlib.Path, nargs="+")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", action="append", default=[])
    args = parser.parse_args()
    if args.check:
        return check(args.source, args.paths[0])
    mutants = [m for path in args.paths for m in records(path)]
    if args.only:
        mutants = [m for m in mutants if m["mutant"] in args.only]
    if not mutants:
        sys.exit("no such mutant")
    return hunt(args.source, mutants)


if __name__ == "__main__":
    sys.exit(main())
