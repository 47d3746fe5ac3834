# SPDX-License-Identifier: MIT
"""Tests that abi.py distinguishes changes that break programs from others, and that --record does not replace
the record of a release by an incompatible one.

A small library takes the place of a layer. Its struct shmipc_stats is passed with its size; shmipc_set has its size in
the first field; shmipc_box is passed without a size.
"""
import pathlib
import subprocess
import sys
import tempfile

HEADER = """#pragma once
#include <stddef.h>
struct shmipc_box { int a; struct shmipc_box *next; %(field)s };
struct shmipc_stats { long calls; %(counter)s; %(last)s };
struct shmipc_set { size_t size; int depth; %(setting)s };
struct shmipc_both { struct shmipc_box *box; %(within)s; };
static inline int shmipc_get(const struct shmipc_box *b) { return b->next->a; }
int shmipc_sum(const struct shmipc_box *b, %(parameter)s n);
void shmipc_get_stats(struct shmipc_stats *stats_p, size_t size);
int shmipc_open(const struct shmipc_set *set, struct shmipc_both *both);
%(more)s
"""
SOURCE = """#include "shmipc.h"
int shmipc_sum(const struct shmipc_box *b, %(parameter)s n) { return b->a + (int)n; }
void shmipc_get_stats(struct shmipc_stats *stats_p, size_t size) { if (size) stats_p->calls = 1; }
int shmipc_open(const struct shmipc_set *set, struct shmipc_both *both) { return set->depth + both->box->a; }
%(body)s
"""
SAME = {"field": "", "parameter": "int", "more": "", "body": "", "counter": "int lost", "last": "",
        "setting": "", "within": "int n"}
INSIDE = {"within": "struct shmipc_stats inside"}
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

    # New fields in structs that are passed with their size.
    tree.build(soname="libshmipc.so.2")
    tree.expect(0, "recorded,", "--record")
    for change in ({"last": "int pad;"},  # the field fits in the tail padding: the size stays
                   {"last": "long more;", "counter": "unsigned lost"}, {"last": "long more;", "counter": "long lost"},
                   {"counter": "long between; int lost"}, {"setting": "int pad;"}):
        tree.build(**change, soname="libshmipc.so.2")
        tree.expect(1, "may break")
    for change in ({"last": "long more, most;"}, {"last": "long more, most;", "setting": "long more;"}):
        tree.build(**change, soname="libshmipc.so.2")
        tree.expect(1, "breaks no program")
        tree.expect(0, "recorded,", "--record")
    tree.build(soname="libshmipc.so.2")
    tree.expect(1, "may break")
    tree.build(**INSIDE, soname="libshmipc.so.3")
    tree.expect(0, "recorded,", "--record")
    tree.build(**INSIDE, last="long more;", soname="libshmipc.so.3")
    tree.expect(1, "may break")

print("\n".join(errors))
sys.exit(bool(errors))
