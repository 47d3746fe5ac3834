# SPDX-License-Identifier: MIT
"""Checks which files were in fact included, by ninja's dependency log.

Layers and programs may only include layers below them. Tests, benches and examples may include everything.
"""
import pathlib
import sys

from layers import DRIVER_HEADERS, HARNESSES, HEADER_ONLY, LAYERS, PROGRAMS, dependencies, fail

build, source = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
allowed = {name: row[1] for name, row in LAYERS.items()}
allowed.update((name, set()) for name in HEADER_ONLY)
allowed.update((name, row[1]) for name, row in PROGRAMS.items())
allowed.update(HARNESSES)
FREE = ("/test/", "/test_", "_test_", "/bench/", "/examples/")

errors, objects = [], {name: set() for name in allowed}
for obj, file in dependencies(build):
    layer = obj.split("/")[0]
    if layer not in allowed or any(p in obj for p in FREE):
        continue
    objects[layer].add(obj)
    path = (build / file).resolve()
    if path.is_relative_to(source) and not path.is_relative_to(build):
        room = path.relative_to(source).parts[0]
        if room != layer and room not in allowed[layer]:
            errors.append(f"{obj} includes {path.relative_to(source)}")
    elif path.parent.name == "infiniband":
        if layer not in DRIVER_HEADERS and path.name.startswith("mlx5"):
            # Others include verbs.h by the inline header of mlx5dv-lite, but may not include mlx5's headers.
            errors.append(f"{obj} includes {path}")
for name in sys.argv[3:]:
    if not objects[name] and name not in HEADER_ONLY:
        errors.append(f"no object of {name} was found, so nothing was checked")
print({name: len(found) for name, found in objects.items() if found})
fail(sorted(set(errors)))
