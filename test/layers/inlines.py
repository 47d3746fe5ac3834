# SPDX-License-Identifier: MIT
"""Programs in other languages need no C: each public function that a layer's headers define inline is also
exported by its library. Private inline functions are not exported. The headers declare everything that the library
exports.

A function is public if LAYER.h declares it, and not only LAYER_inline.h. The headers are
read after the preprocessor, so macros in front of a function do not matter.

    inlines.py SOURCE BUILD LAYER...
"""
import pathlib
import re
import sys

from layers import HEADERS, LAYERS, exported, fail, includes, run

MARKER = re.compile(r'# \d+ "([^"]*)"')
# The name before the last parentheses, which may contain others: pointers to functions, attributes.
FUNCTION = re.compile(r"\b(\w+)\s*\((?:[^()]|\([^()]*\))*\)\s*$")


def preprocessed(source, layer, header):
    """Yields (true if the line is from a public header itself, line) for the preprocessed headers of this layer."""
    flags = [f"-I{source / path}" for path in includes(layer)]
    text = run("gcc", "-E", "-std=c11", *flags, "-", input=f"#include <{header}>\n")
    file = None
    for line in text.splitlines():
        if marker := MARKER.match(line):
            file = pathlib.Path(marker[1])
        elif file and file.parent == source / layer / "include" and not line.startswith("#"):
            yield file.name in HEADERS[layer], line


def declarations(lines):
    """Yields (text, has a body) of each declaration or definition at the top level."""
    text, depth, body = "", 0, False
    for c in "\n".join(lines):
        depth -= c == "}"
        body |= c == "{" and bool(FUNCTION.search(text))
        if not depth and c not in "{}":
            text += c
        depth += c == "{"
        if not depth and (c == ";" or c == "}" and body):
            yield text.strip("; \n"), body
            text, body = "", False


def functions(lines):
    """The names of the functions that are declared, and of those that are defined."""
    declared, defined = set(), set()
    for text, body in declarations(lines):
        if (m := FUNCTION.search(text)) and not text.startswith("typedef") and m[1][0] != "_":
            (defined if body else declared).add(m[1])
    return declared, defined


def check(source, build, layer):
    lines = [line for header in HEADERS[layer] for line in preprocessed(source, layer, header)]
    declared, inline = functions(text for _, text in lines)
    in_public, defined_there = functions(text for public, text in lines if public)
    public = in_public | defined_there
    found = {n for n, kind in exported(build / layer / f"lib{layer}.so").items() if kind in "TW"}
    assert public and found, (layer, public, found)
    for names, what in (
        ((inline & public) - found, "is inline for C, and not exported for others: see src/ffi.c and the .sym"),
        ((inline - public) & found, "is inline and private, and exported"),
        (declared - inline - found, "is declared and not exported"),
        (found - declared - inline, "is exported and not declared"),
    ):
        errors.extend(f"{layer}: {name}() {what}" for name in sorted(names))
    print(f"{layer}: {len(public)} public functions, {len(inline & public)} of them inline and exported; "
          f"{len(inline - public)} private inline ones")


errors = []
for name in sys.argv[3:]:
    if name in LAYERS:
        check(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]), name)
fail(errors)
