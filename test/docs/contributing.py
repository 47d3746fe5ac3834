# SPDX-License-Identifier: MIT
"""Checks CONTRIBUTING.md against scripts/check and the tests of a build: each test and suite that it names exists,
scripts/check runs each of these tests, and what it names in scripts/, test/ and docs/ exists.

	contributing.py SOURCE BUILD
"""
import json
import pathlib
import re
import sys

source, build = (pathlib.Path(a) for a in sys.argv[1:])
text = (source / "CONTRIBUTING.md").read_text()
check = (source / "scripts/check").read_text()
tests = {}  # name: suites
for test in json.loads((build / "meson-info/intro-tests.json").read_text()):
    tests.setdefault(test["name"], set()).update(s.rsplit(":", 1)[-1] for s in test["suite"])
suites, errors = set().union(*tests.values()), []
run = set(re.findall(r"--suite (\S+)", check))
quick = {name for name, of in tests.items() if of & run}


def named(word):
    return re.findall(rf"\b{word}\s+`([\w-]+)`", text)


if not named("test") or not named("suite"):
    errors.append("CONTRIBUTING.md names no test, or no suite")
errors += [f"scripts/check: there is no suite {s}" for s in run - suites]
errors += [f"CONTRIBUTING.md: there is no suite {s}" for s in named("suite") if s not in suites]
for name in named("test"):
    if name not in tests:
        errors.append(f"CONTRIBUTING.md: there is no test {name}")
    elif name not in quick:
        errors.append(f"CONTRIBUTING.md names the test {name}, which scripts/check does not run")
for name in ("scripts/check", "scripts/test"):
    if f"`{name}`" not in text:
        errors.append(f"CONTRIBUTING.md does not name {name}")
errors += [f"CONTRIBUTING.md: there is no {path}" for path in re.findall(r"`((?:scripts|test|docs)/[\w./-]+)[` ]", text)
           if not (source / path).exists()]
# The comment of scripts/check promises tests of these names.
(promised,) = re.findall(r"suite `quick` \(([^)]*)\)", re.sub(r"\n# ?", " ", check))
for name in promised.replace("man pages", "man").split(", "):
    if name not in quick:
        errors.append(f"scripts/check does not run {name}")
print("\n".join(errors) or f"{len(named('test'))} tests, all of which scripts/check runs")
sys.exit(bool(errors))
