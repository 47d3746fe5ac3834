#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs build.sh, and checks that it has built each fuzzer of the tree, with the inputs that are kept for the fuzzer.

    check.py ROOT              with a compiler that writes empty files
    check.py ROOT --compile    with clang and the address sanitizer; runs each program with its inputs
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

REAL = {
    "CC": "clang",
    "CXX": "clang++",
    "CFLAGS": "-O1 -fsanitize=address,fuzzer-no-link",
    "CXXFLAGS": "-O1 -fsanitize=address,fuzzer-no-link",
    "LIB_FUZZING_ENGINE": "-fsanitize=fuzzer",
}
STUB = """#!/bin/sh
for argument; do
	[ "$last" != -o ] || : >"$argument"
	last=$argument
done
"""


def names(root):
    """Returns the names of the fuzzers: LAYER-fuzz-NAME of LAYER/test/fuzz/fuzz-NAME.c."""
    found = set()
    for source in [*root.glob("*/test/fuzz/*.c"), *root.glob("subprojects/*/test/fuzz/*.c")]:
        if "LLVMFuzzerTestOneInput" in source.read_text():
            found.add(f"{source.parents[2].name}-{source.stem}")
    return found


def main():
    root, compiles = pathlib.Path(sys.argv[1]).resolve(), "--compile" in sys.argv
    wrong = []
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        out = work / "out"
        out.mkdir()
        stub = work / "cc"
        stub.write_text(STUB)
        stub.chmod(0o755)
        tools = REAL if compiles else {"CC": str(stub), "CXX": str(stub), "LIB_FUZZING_ENGINE": "-lengine"}
        subprocess.run([root / "test/oss-fuzz/build.sh"], check=True, cwd=root,
                       env={**os.environ, "OUT": str(out), **tools})
        security = (root / "SECURITY.md").read_text()
        for fuzzer in sorted(names(root)):
            seeds = out / f"{fuzzer}_seed_corpus.zip"
            if not (out / fuzzer).is_file() or not seeds.is_file():
                wrong.append(f"{fuzzer}: build.sh does not make the program and its _seed_corpus.zip")
                continue
            with zipfile.ZipFile(seeds) as z:
                z.extractall(work / fuzzer)
            if not list((work / fuzzer).iterdir()):
                wrong.append(f"{fuzzer}: no inputs are kept for it")
            if f"`{fuzzer}`" not in security:
                wrong.append(f"{fuzzer}: SECURITY.md does not name it")
            if compiles:
                done = subprocess.run([out / fuzzer, "-runs=0", work / fuzzer], capture_output=True, text=True,
                                      errors="replace")
                wrong += [f"{fuzzer}: {done.stderr[-4000:]}"] if done.returncode else []
    for line in wrong:
        print(line)
    sys.exit(bool(wrong))


main()
