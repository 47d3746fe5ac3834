# SPDX-License-Identifier: MIT
"""The directories of a layer are levels (FLOORS): files include only from their own directory and lower ones. The files
of a directory do not call each other in circles.

    floors.py BUILD SOURCE [NAME]...     NAME: a layer, program or harness that was built

Calls are read by nm from the objects, includes from ninja's dependency log. A circle is a set of
files that reach each other by calls. A circle that is accepted has a row with the reason in STAY. The test first checks
that it finds planted mistakes.
"""
import ctypes
import json
import os
import pathlib
import sys

from layers import dependencies, fail, run

# Directories of sources, lowest first.
FLOORS = {
    "base": ["base/src"],
    "latrec": ["latrec/src"],
    "mlx5dv-lite": ["mlx5dv-lite/src"],
    "copyrpc": ["copyrpc/src"],
    "delegrpc": ["delegrpc/src"],
    "shmipc": ["shmipc/src"],
    "flux": ["flux/src"],
    "bench": ["bench/src"],
    "shmls": ["shmls/src"],
    "rdmabench": ["rdmabench/src"],
    "tent": ["tent/src", "tent/bench", "tent/sim"],
    "benchkv": ["benchkv/src", "benchkv/sim"],
    "softhca": ["subprojects/softhca/src"],  # its own test `floors` checks the directories below
}

# Calls that in fact go to another file than the one that defines the name, with the reason. SEAMS and STAY together
# have at most three rows.
SEAMS = {
    ("subprojects/softhca/src", "libc"):
        "src/shim defines functions of libc for the program; the other files of softhca call libc's",
    ("subprojects/softhca/src", "fabric_hooks"):
        "the fabric calls its members by a table, which each program fills for itself",
}

# Circles that are accepted: (directory, files): reason.
STAY = {
    ("subprojects/softhca/src", "chaos copy datagram fault_hit late qp requester responder tap wired "
                                "wired_datagram wired_requester wired_responder"):
        "the state machine of a QP: a message changes two QPs, and a QP that fails ends messages",
}
CALLED, DEFINED = "Uwv", "TDBRVWCu"  # letters of nm


def objects(build, source):
    """The first object of each source file that was built, by its path below the root."""
    found = {}
    for row in json.loads((build / "compile_commands.json").read_text()):
        path, obj = (build / row["file"]).resolve(), build / row["output"]
        if path.is_relative_to(source) and obj.exists():
            found.setdefault(path.relative_to(source).as_posix(), obj)
    return found


def symbols(objs):
    """Returns the names that each file calls, and the file that defines each name."""
    calls, defines = {path: set() for path in objs}, {}
    source = {str(obj): path for path, obj in objs.items()}
    for line in run("nm", "-A", *objs.values()).splitlines():
        obj, entry = line.split(":", 1)
        letter, name = entry.split()[-2:]
        if letter in CALLED:
            calls[source[obj]].add(name)
        elif letter in DEFINED:
            defines[name] = source[obj]
    return calls, defines


def is_seam(room, name, libc=ctypes.CDLL(None)):
    """Returns true if a row of SEAMS says that a call leaves the directory."""
    return (room, name) in SEAMS or (room, "libc") in SEAMS and hasattr(libc, name)


def graph(room, calls, defines):
    """The files that each file of a directory calls."""
    return {path: {defines[n] for n in names if n in defines and not is_seam(room, n)} - {path}
            for path, names in calls.items()}


def reached(edges, start):
    seen, todo = set(), [start]
    while todo:
        more = edges[todo.pop()] - seen
        seen |= more
        todo += more
    return seen


def circles(edges):
    """Sets of files that reach each other."""
    reach = {path: reached(edges, path) for path in edges}
    return {frozenset(q for q in reach[p] if p in reach[q]) for p in edges if p in reach[p]}


def row_of(room, circle):
    return room, " ".join(sorted(pathlib.Path(path).stem for path in circle))


def included(build, source):
    """Returns pairs of a source file and a file of this tree that it includes, directly or not."""
    top, sources, pairs = os.path.relpath(source, build), {}, set()
    for obj, file in dependencies(build):
        if file.startswith(top):
            header = os.path.relpath(os.path.normpath(file), top)
            pairs.add((sources.setdefault(obj, header), header))  # the first entry of an object is its source
    return pairs


def upwards(rooms, pairs):
    """Includes from a lower directory of a layer into a higher one."""
    for at, low in enumerate(rooms):
        for path, header in pairs:
            for high in rooms[at + 1:]:
                if path.startswith(low + "/") and header.startswith(high + "/"):
                    yield f"{path} includes {header}: upwards"


def check_circles(found, rooms):
    """Yields circles without a row in STAY, and rows without a circle."""
    for room, files in sorted(found - set(STAY)):
        yield f'a circle that no row of floors.py allows: ("{room}", "{files}")'
    for room, files in sorted(row for row in set(STAY) - found if row[0] in rooms):
        yield f'this circle does not exist any more, delete its row in floors.py: ("{room}", "{files}")'


def planted():
    """Yields the planted mistakes that are not found."""
    edges = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}
    if circles(edges) != {frozenset("bc")}:
        yield "a circle is not seen"
    if len(list(check_circles({("x/src", "a b")}, ["x/src"]))) != 1:
        yield "a circle without a row is not seen"
    if not list(upwards(["x/src", "x/sim"], [("x/src/a.c", "x/sim/a.h")])):
        yield "an include that goes up is not seen"


def main():
    build, source = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
    rooms = {room: FLOORS[name] for name in ["base", *sys.argv[3:]] if name in FLOORS for room in FLOORS[name]}
    objs = objects(build, source)
    errors, found = list(planted()), set()
    if len(SEAMS) + len(STAY) > 3:
        errors.append("more than three rows in SEAMS and STAY")
    for room in rooms:
        mine = {path: obj for path, obj in objs.items() if path.startswith(room + "/")}
        if not mine:
            errors.append(f"{room}: no object was found, so nothing was checked")
        found |= {row_of(room, c) for c in circles(graph(room, *symbols(mine)))}
        print(f"{room}: {len(mine)} objects")
    errors += check_circles(found, rooms)
    pairs = included(build, source)
    for floors in {tuple(f) for f in rooms.values()}:
        errors += upwards(floors, pairs)
    fail(errors)


main()
