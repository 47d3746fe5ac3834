# SPDX-License-Identifier: MIT
"""Checks that a file of src includes only files of its own directory and of lower ones (the directories are floors).

The order is the table of the README. --self-test checks that planted mistakes are found.
"""
import pathlib
import re
import shutil
import sys
import tempfile

ROW = re.compile(r"^\| `src/(\w+)/` \|([^|]*)\|", re.M)
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def table(root):
    """Returns the directories (floors), lowest first, each with the floors that the README says it uses."""
    rows = ROW.findall((root / "README.md").read_text())
    return {name: set(re.findall(r"\w+", uses)) for name, uses in reversed(rows)}


def check(root):
    """Returns the mistakes, one line each."""
    floors = table(root)
    order = list(floors)
    errors = []
    used = {name: set() for name in order}
    rooms = {p.name for p in (root / "src").iterdir() if p.is_dir()}
    for name in sorted(rooms ^ set(order)):
        errors.append(f"{name}: is not both a directory of src and a row of the README's table")
    for path in sorted((root / "src").glob("*/*.[ch]")):
        room = path.parent.name
        for include in INCLUDE.findall(path.read_text()):
            to = include.split("/")[0]
            if "/" not in include or to == room or room not in order:
                continue
            where = f"src/{room}/{path.name} includes {include}"
            if to not in order:
                errors.append(f"{where}: no such floor")
            elif order.index(to) > order.index(room):
                errors.append(f"{where}: upwards")
            else:
                used[room].add(to)
    for name in order:
        if used[name] != floors[name]:
            errors.append(f"{name} uses {sorted(used[name])}, the README says {sorted(floors[name])}")
    return errors


def with_mistake(root, path, line):
    """Runs check() on a copy of the tree in which @path has one more line."""
    with tempfile.TemporaryDirectory() as tmp:
        copy = pathlib.Path(tmp)
        shutil.copy(root / "README.md", copy)
        shutil.copytree(root / "src", copy / "src")
        with (copy / path).open("a") as f:
            f.write(line + "\n")
        return check(copy)


PLANTED = [  # file, added line, part of the expected error
    ("src/fabric/fabric.c", '#include "hca/cq.h"', "upwards"),
    ("src/dma/dma.h", '#include "xport/xport.h"', "upwards"),  # the two would include each other
    ("src/hca/cq.c", '#include "attic/x.h"', "no such floor"),
    ("src/sysfs/sysfs.c", '#include "abi/wire.h"', "the README says"),
]


def self_test(root):
    errors = check(root)
    for path, line, expected in PLANTED:
        if not any(expected in e for e in with_mistake(root, path, line)):
            errors.append(f"{path} with {line}: is not noticed")
    return errors


root = pathlib.Path(sys.argv[-1])
errors = self_test(root) if "--self-test" in sys.argv else check(root)
assert len(table(root)) > 10
print("\n".join(errors))
sys.exit(1 if errors else 0)
