# SPDX-License-Identifier: MIT
"""abi.py tells what breaks programs from what does not, and keeps the record of what is released: on a
small library, which stands for a layer."""
import pathlib
import subprocess
import sys
import tempfile

HEADER = """#pragma once
struct shmipc_box { int a; struct shmipc_box *next; %(field)s };
static inline int shmipc_get(const struct shmipc_box *b) { return b->next->a; }
int shmipc_sum(const struct shmipc_box *b, %(parameter)s n);
%(more)s
"""
SOURCE = """#include "shmipc.h"
int shmipc_sum(const struct shmipc_box *b, %(parameter)s n) { return b->a + (int)n; }
%(body)s
"""
SAME = {"field": "", "parameter": "int", "more": "", "body": ""}
abi = pathlib.Path(__file__).with_name("abi.py")
errors = []


class Tree:
    def __init__(self, root):
        self.root = root
        for path in ("shmipc/include", "cellring/include", "test/layers/abi", "build/shmipc"):
            (root / path).mkdir(parents=True)

    def build(self, *flags, compiler="gcc", soname="libshmipc.so.0", **changes):
        header = self.root / "shmipc/include/shmipc.h"
        header.write_text(HEADER % (SAME | changes))
        (self.root / "shmipc/shmipc.c").write_text(SOURCE % (SAME | changes))
        subprocess.run([compiler, "-shared", "-fPIC", *(flags or ["-g", "-O2"]), f"-I{header.parent}",
                        f"-Wl,-soname,{soname}", self.root / "shmipc/shmipc.c",
                        "-o", self.root / "build/shmipc/libshmipc.so"], check=True)

    def expect(self, status, words, *options):
        r = subprocess.run([sys.executable, abi, *options, self.root, self.root / "build", "shmipc"],
                           capture_output=True, text=True)
        said = r.stdout + r.stderr
        if r.returncode != status or words not in said:
            errors.append(f"expected {status} and {words!r}, found {r.returncode} and:\n{said}")


with tempfile.TemporaryDirectory() as tmp:
    tree = Tree(pathlib.Path(tmp))
    tree.build()
    tree.expect(1, "no recorded ABI")
    tree.expect(0, "recorded,", "--record")
    tree.expect(0, "as recorded")
    for compiler, flags in (("gcc", ["-g", "-O0"]), ("clang", ["-g", "-O2"]), ("gcc", ["-gdwarf-4", "-O3"])):
        tree.build(*flags, compiler=compiler)
        tree.expect(0, "as recorded")
        tree.expect(0, "nothing has changed", "--record")
    tree.build("-O2")
    tree.expect(1, "no debug information")

    added = {"more": "int shmipc_new(void);", "body": "int shmipc_new(void) { return 1; }"}
    tree.build(**added)
    tree.expect(1, "breaks no program")
    tree.expect(0, "recorded,", "--record")
    tree.build()
    tree.expect(1, "may break")
    for change in ({"field": "int more;"}, {"parameter": "long"}):
        tree.build(**added, **change)
        tree.expect(1, "may break")
        tree.expect(1, "Raise so_version", "--record")
        tree.expect(1, "may break")
    tree.build(**added, field="int more;", soname="libshmipc.so.1")
    tree.expect(0, "recorded,", "--record")
    tree.build(**added, field="long more;", soname="libshmipc.so.1")
    tree.expect(0, "recorded,", "--record", "--unreleased")
    tree.expect(0, "as recorded")

print("\n".join(errors))
sys.exit(bool(errors))
