# SPDX-License-Identifier: MIT
"""The ABI of each library is the recorded one: functions, their types, and the layout of every
struct that a public header defines, those of the inline functions included.

    abi.py SOURCE BUILD LAYER...
    abi.py --record [--unreleased] SOURCE BUILD [LAYER...]

The record is test/layers/abi/LAYER.abi.xz, as abidw (abigail-tools) writes it; what differs is told by
abidiff. `--record` writes it anew. A change that breaks programs needs another so_version in meson.build,
once per release: without it the record stays, unless --unreleased says that no release has this so_version.
"""
import argparse
import lzma
import pathlib
import re
import subprocess
import sys
import tempfile

from layers import LAYERS, fail, includes

# What depends on the machine, the compiler or the place of the tree stays out.
ABIDW = ["abidw", "--drop-private-types", "--drop-undefined-syms", "--exported-interfaces-only", "--no-corpus-path",
         "--no-comp-dir-path", "--no-elf-needed", "--no-parameter-names", "--no-show-locs",
         "--type-id-style", "hash"]


def run(*cmd):
    return subprocess.run([str(c) for c in cmd], check=True, capture_output=True, text=True).stdout


class Library:
    def __init__(self, source, build, layer, tmp):
        self.layer = layer
        self.file = build / layer / f"lib{layer}.so"
        self.headers = [source / path for path in includes(layer)]
        self.record = source / "test/layers/abi" / f"{layer}.abi.xz"
        self.old, self.new = tmp / f"{layer}-recorded.abi", tmp / f"{layer}.abi"

    def dump(self):
        if ".debug_info" not in run("readelf", "-SW", self.file):
            sys.exit(f"{self.file} has no debug information, which tells its ABI: "
                     "meson configure BUILD -Dbuildtype=debugoptimized")
        headers = [arg for path in self.headers for arg in ("--headers-dir", path)]
        run(*ABIDW, *headers, "--out-file", self.new, self.file)

    def recorded(self):
        if self.record.exists():
            self.old.write_bytes(lzma.decompress(self.record.read_bytes()))
        return self.record.exists()

    def differences(self, *options):
        """What abidiff has to say about the dump and the record, or nothing."""
        r = subprocess.run(["abidiff", *options, self.old, self.new], capture_output=True, text=True)
        if r.returncode & 3:  # of abidiff itself
            sys.exit(f"abidiff {self.layer}: {r.stdout}{r.stderr}")
        return r.stdout if r.returncode else ""

    def breaks(self):
        """Whether programs that were built with what is recorded may fail."""
        return bool(self.differences("--no-added-syms"))

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
        what = "programs that use it may break; raise so_version if a release has it" \
            if lib.breaks() else "what it adds breaks no program"
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
