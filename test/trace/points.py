# SPDX-License-Identifier: MIT
"""The trace points in the libraries are those of docs/observability.md, with the same number of
arguments, and each of them is one nop.

	points.py OBSERVABILITY.MD LIBRARY...
"""
import re
import subprocess
import sys


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def documented(path):
    """Yields (trace point, number of arguments) of the table rows `layer:name`, ... | when | arguments |."""
    with open(path, encoding="utf-8") as f:
        for line in f:
            cells = [c.strip() for c in line.strip().strip("|").split("|")]
            if re.match(r"`\w+:\w+`", cells[0]):
                arguments = re.sub(r"\([^)]*\)", "", cells[2])
                for name in re.findall(r"`(\w+:\w+)`", cells[0]):
                    yield name, arguments.count(",") + 1


def notes(library):
    """Yields (trace point, address, number of arguments) of each ELF note."""
    text = output("readelf", "-n", library)
    for m in re.finditer(r"Provider: (\w+)\n\s*Name: (\w+)\n\s*Location: 0x(\w+),.*\n\s*Arguments: (.*)", text):
        yield f"{m[1]}:{m[2]}", int(m[3], 16), len(m[4].split())


def instructions(library):
    """Returns {address: instruction}."""
    found = {}
    for line in output("objdump", "-d", "--no-show-raw-insn", library).splitlines():
        m = re.match(r"\s*([0-9a-f]+):\s+(.*)", line)
        if m:
            found[int(m[1], 16)] = m[2].strip()
    return found


told = dict(documented(sys.argv[1]))
there, bad = set(), []
for library in sys.argv[2:]:
    code = instructions(library)
    for name, address, count in notes(library):
        there.add(name)
        if told.get(name) != count:
            bad.append(f"{library}: {name} has {count} arguments, and in the document {told.get(name)}")
        if code.get(address) != "nop":
            bad.append(f"{library}: {name} is '{code.get(address)}', not one nop")
bad += [f"{name} is in the document and in no library" for name in sorted(set(told) - there)]
print("\n".join(bad))
print(f"{len(there)} trace points")
sys.exit(bool(bad) or len(there) < 20)
