# SPDX-License-Identifier: MIT
"""Each shared library exports only its own prefix, and needs only the libraries that its layer may use;
each program needs the libraries that layers.py lists."""
import pathlib
import re
import sys

from layers import LAYERS, LIBC, OPTIONAL, PROGRAMS, exported, fail, run


def check_needed(file, needed, optional=frozenset()):
    found = set(re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", file)))
    if found - needed - LIBC - optional:
        errors.append(f"{file.name} needs {sorted(found - needed - LIBC - optional)}")
    if needed - found:
        errors.append(f"{file.name} does not need {sorted(needed - found)}, which layers.py lists for it")
    return sorted(found)


build = pathlib.Path(sys.argv[1])
errors = []
for name in set(sys.argv[2:]) & set(PROGRAMS):
    print(f"{name}: needs {check_needed(build / PROGRAMS[name][0], PROGRAMS[name][2], OPTIONAL)}")
for layer in (name for name in sys.argv[2:] if name in LAYERS):
    prefix, _, needed = LAYERS[layer]
    lib = build / layer / f"lib{layer}.so"
    found = check_needed(lib, needed)
    names = exported(lib)
    if not names:
        errors.append(f"{lib.name} exports nothing")
    errors += [
        f"{lib.name} exports {s}"
        for s in names
        if not s.startswith(prefix) and not s.upper().startswith("LIB" + prefix.upper()[:-1])
    ]
    undefined = run("nm", "-D", "-u", lib)
    if layer != "mlx5dv-lite" and re.search(r"\b(ibv|mlx5dv)_\w+", undefined):
        errors.append(f"{lib.name} calls verbs: {re.findall(r'(?:ibv|mlx5dv)_[a-z_0-9]+', undefined)}")
    print(f"{lib.name}: {len(names)} symbols, needs {found}")
fail(errors)
