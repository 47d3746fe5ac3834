# SPDX-License-Identifier: MIT
"""A test in C consists of cases, each of which can be run alone (subprojects/softhca/test/cases.h): test-*.c has TEST()
cases and no main(), or one that calls test_main(). tables.txt lists the programs without cases. An entry whose file does
not exist, or has cases, is an error, so the list only gets shorter.

    tables.py SOURCE
"""
import pathlib
import re
import sys

from layers import fail, tracked

source = pathlib.Path(sys.argv[1]).resolve()
lines = (pathlib.Path(__file__).parent / "tables.txt").read_text().splitlines()
exceptions = {line for line in lines if line and not line.startswith("#")}
tests, bare = 0, set()
for path in tracked(source, "*/test-*.c"):
    name = str(path.relative_to(source))
    text = path.read_text()
    cases, main = re.search(r"^TEST(_WITH)?\(", text, re.M), re.search(r"^(int )?main\(", text, re.M)
    tests += bool(cases or main)
    if main and not re.search(r"\btest_main\(", text):
        bare.add(name)
errors = [f"{name}: its own main() does not run TEST() cases (CONTRIBUTING.md)" for name in sorted(bare - exceptions)]
errors += [f"tables.txt: {name} has cases, or is gone" for name in sorted(exceptions - bare)]
if not tests:
    errors.append("no test was found")
print(f"{tests} test programs, {len(bare)} without cases")
fail(errors)
