# SPDX-License-Identifier: MIT
"""Checks the ABI of each library against its record: functions, their types, and the layouts of structs
of the public headers and of LAYER_inline.h.

    abi.py SOURCE BUILD LAYER...
    abi.py --record [--unreleased] SOURCE BUILD [LAYER...]

The record is test/layers/abi/LAYER.abi.xz, as abidw (abigail-tools) writes it; abidiff finds the
differences. `--record` writes a new record. A change that breaks programs needs another so_version in
meson.build, once per release. Without a new so_version the record is not written, unless --unreleased states that no
release has this so_version.

A new function breaks no program. Nor does a new field behind the old size of a struct that is passed with
its size: by a parameter `size_t size` right after the pointer, or by a first field `size_t size`.
"""
import argparse
import lzma
import pathlib
import re
import subprocess
import sys
import tempfile
from xml.etree import ElementTree

from layers import LAYERS, fail, includes, run

# The dump leaves out paths, lines, names of parameters and needed libraries.
ABIDW = ["abidw", "--drop-private-types", "--drop-undefined-syms", "--exported-interfaces-only", "--no-corpus-path",
         "--no-comp-dir-path", "--no-elf-needed", "--no-parameter-names", "--no-show-locs",
         "--type-id-style", "hash"]

SIZED = [re.compile(r"struct (\w+) \*\w+,\s*size_t size\b"),
         re.compile(r"struct (\w+) \{\s*(?:/\*.*?\*/\s*)?size_t size;", re.S)]


class Library:
    def __init__(self, source, build, layer, tmp):
        self.layer = layer
        self.file = build / layer / f"lib{layer}.so"
        self.headers = [source / path for path in includes(layer)]
        self.record = source / "test/layers/abi" / f"{layer}.abi.xz"
        self.old, self.new = tmp / f"{layer}-recorded.abi", tmp / f"{layer}.abi"
        self.cut = tmp / f"{layer}-cut.abi"

    def dump(self):
        if ".debug_info" not in run("readelf", "-SW", self.file):
            sys.exit(f"{self.file} has no debug information, from which the ABI is read: "
                     "meson configure BUILD -Dbuildtype=debugoptimized")
        headers = [arg for path in self.headers for arg in ("--headers-dir", path)]
        run(*ABIDW, *headers, "--out-file", self.new, self.file)

    def recorded(self):
        if self.record.exists():
            self.old.write_bytes(lzma.decompress(self.record.read_bytes()))
        return self.record.exists()

    def sized(self):
        """Returns the structs that programs pass with their size."""
        text = "".join(f.read_text() for path in self.headers for f in sorted(path.glob("*.h")))
        return {name for pattern in SIZED for name in pattern.findall(text)}

    def structs(self, tree):
        """Yields the name and the definition of each sized struct of a dump."""
        sized = self.sized()
        for struct in tree.iter("class-decl"):
            if struct.get("name") in sized and struct.get("size-in-bits"):
                yield struct.get("name"), struct

    def write_cut(self):
        """Writes the dump without the fields that sized structs have after their recorded end."""
        recorded = dict(self.structs(ElementTree.parse(self.old)))
        tree = ElementTree.parse(self.new)
        for name, struct in self.structs(tree):
            end = recorded[name].get("size-in-bits") if name in recorded else struct.get("size-in-bits")
            behind = [m for m in struct.findall("data-member") if int(m.get("layout-offset-in-bits")) >= int(end)]
            for member in behind:
                struct.remove(member)
            if behind:
                struct.set("size-in-bits", end)
        tree.write(self.cut)

    def differences(self, *options, new=None):
        """Returns abidiff's differences between the record and the dump, or nothing."""
        r = subprocess.run(["abidiff", *options, self.old, new or self.new], capture_output=True, text=True)
        if r.returncode & 3:  # abidiff itself has failed
            sys.exit(f"abidiff {self.layer}: {r.stdout}{r.stderr}")
        return r.stdout if r.returncode else ""

    def breaks(self):
        """Returns true if programs that were built with the recorded library may fail."""
        self.write_cut()
        return bool(self.differences("--no-added-syms", new=self.cut))

    def same_soname(self):
        sonames = [re.search(r"soname='([^']*)'", f.read_text())[1] for f in (self.old, self.new)]
        return sonames[0] == sonames[1]

    def write(self):
        self.record.write_bytes(lzma.compress(self.new.read_bytes(), preset=9 | lzma.PRESET_EXTREME))


def check(lib):
    lib.dump()
    command = f"python3 {__file__} --record {source} {args.build} {lib.layer}"
    if not lib.recorded():
        errors.append(f"{lib.layer} has no recorded ABI: {command}")
    elif text := lib.differences("--leaf-changes-only"):
        what = "programs that use it may break; raise so_version if a release has the present one" \
            if lib.breaks() else "the change breaks no program"
        errors.append(f"{text}\n{lib.layer}: the ABI is not the recorded one; {what}. Then: {command}")
    else:
        print(f"{lib.layer}: as recorded")


def record(lib, unreleased):
    lib.dump()
    if lib.recorded():
        text = lib.differences("--leaf-changes-only")
        if not text and lib.same_soname():
            print(f"{lib.layer}: nothing has changed")
            return
        print(text)
        if lib.breaks() and lib.same_soname() and not unreleased:
            errors.append(f"{lib.layer}: programs that use it may break. Raise so_version in meson.build and build, "
                          "or give --unreleased if no release has the present one")
            return
    lib.write()
    print(f"{lib.layer}: recorded, {lib.record.stat().st_size} bytes")


parser = argparse.ArgumentParser()
parser.add_argument("--record", action="store_true")
parser.add_argument("--unreleased", action="store_true")
parser.add_argument("source", type=pathlib.Path)
parser.add_argument("build", type=pathlib.Path)
parser.add_argument("layers", nargs="*")
args = parser.parse_args()
source, errors = args.source.resolve(), []
with tempfile.TemporaryDirectory() as tmp:
    for name in args.layers or LAYERS:
        if name in LAYERS:
            library = Library(source, args.build, name, pathlib.Path(tmp))
            if args.record:
                record(library, args.unreleased)
            else:
                check(library)
fail(errors)
