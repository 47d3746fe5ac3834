# SPDX-License-Identifier: MIT
"""Private functions have `_priv_` in their names. A function with the layer's prefix is private if LAYER.h does not
declare it, but LAYER_inline.h declares or defines it or the library exports it. No function that LAYER.h declares has
`_priv_` in its name.

    private.py SOURCE BUILD|- LAYER...
"""
import pathlib
import re
import sys

from layers import code, exported, fail


def functions(path, layer):
    """The functions that a header declares or defines at its top level."""
    return set(re.findall(rf"^[A-Za-z][\w \t*]*?\b({layer}_\w+)\(", code(path.read_text()), re.M))


source, errors = pathlib.Path(sys.argv[1]), []
for layer in sys.argv[3:]:
    include = source / layer / "include"
    public = functions(include / f"{layer}.h", layer)
    inline = functions(include / f"{layer}_inline.h", layer)
    assert len(public) > 10 and len(inline) > 10, (layer, public, inline)
    if sys.argv[2] != "-":
        library = pathlib.Path(sys.argv[2]) / layer / f"lib{layer}.so"
        inline |= {name for name in exported(library) if name.startswith(layer + "_")}
    errors += [f"{layer}: {n}() is private, but has no _priv_ in its name"
               for n in sorted(inline - public) if not n.startswith(f"{layer}_priv_")]
    errors += [f"{layer}: {n}() is public, but has _priv_ in its name"
               for n in sorted(public) if "_priv_" in n]
    print(f"{layer}: {len(public)} public functions, {len(inline - public)} private ones")
fail(errors)
