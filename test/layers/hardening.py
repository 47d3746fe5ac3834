# SPDX-License-Identifier: MIT
"""Checks that installed programs and libraries are hardened: programs are position independent, relocations become
read-only before the program begins, and the code has stack protectors and calls the checking functions of the C library
(_FORTIFY_SOURCE).

    hardening.py BUILD
"""
import json
import pathlib
import sys

from layers import fail, run

build = pathlib.Path(sys.argv[1])


def is_elf(path):
    with open(path, "rb") as f:
        return f.read(4) == b"\x7fELF"


def lacks(path):
    header, dynamic = run("readelf", "-hlW", path), run("readelf", "-dW", path)
    calls = run("nm", "-D", "-u", path)
    if "DYN (" not in header or ("INTERP" in header and "(Position-Independent" not in header):
        yield "position independence (PIE)"
    if "GNU_RELRO" not in header:
        yield "read-only relocations (relro)"
    if "BIND_NOW" not in dynamic and "NOW" not in dynamic.split("FLAGS_1", 1)[-1].split("\n")[0]:
        yield "binding at the start (now)"
    if "__stack_chk_fail" not in calls:
        yield "stack protectors"
    if "_chk" not in calls.replace("__stack_chk_fail", ""):
        yield "checked calls (fortify)"


with open(build / "meson-info/intro-installed.json") as f:
    files = sorted(p for p in json.load(f) if pathlib.Path(p).is_file() and not pathlib.Path(p).is_symlink())
binaries = [p for p in files if is_elf(p)]
errors = [f"{pathlib.Path(p).name} lacks {what}" for p in binaries for what in lacks(p)]
if not binaries:
    errors.append("no installed file is a program or a library")
print(f"{len(binaries)} programs and libraries")
fail(errors)
