# SPDX-License-Identifier: MIT
"""Installs to a directory of its own and builds a user of each layer with pkg-config,
shared and static, from C and from C++, and runs it."""
import os
import pathlib
import subprocess
import sys
import tempfile

from layers import HEADER_ONLY, fail

build, here = pathlib.Path(sys.argv[1]), pathlib.Path(__file__).parent
errors = []


def run(*cmd, env=None):
    r = subprocess.run([str(c) for c in cmd], capture_output=True, text=True, env=env)
    if r.returncode:
        errors.append(f"{' '.join(map(str, cmd))}\n{r.stdout}{r.stderr}")
    return r.stdout.split()


with tempfile.TemporaryDirectory() as tmp:
    root = pathlib.Path(tmp) / "root"
    run("meson", "install", "-C", build, "--no-rebuild", "--destdir", root)
    pcs = sorted(root.rglob("*.pc"))
    libdir = pcs[0].parent.parent
    # A user's libibverbs.pc is the system's; ours come from under the destdir.
    env = dict(os.environ, PKG_CONFIG_PATH=str(pcs[0].parent), LD_LIBRARY_PATH=str(libdir))
    for layer in sys.argv[2:]:
        src = here / "consumer" / f"{layer}.c"
        base = ["pkg-config", f"--define-variable=prefix={root}/usr/local"]
        cflags = run(*base, "--cflags", layer, env=env)
        libs = run(*base, "--libs", layer, env=env)
        static = run(*base, "--libs", "--static", layer, env=env)
        exe = pathlib.Path(tmp) / f"use-{layer}"
        run("gcc", src, "-o", exe, *cflags, *libs, env=env)
        run(exe, env=env)
        if layer in HEADER_ONLY:
            continue
        archive = libdir / f"lib{layer}.a"
        pos = static.index(f"-l{layer}")
        run("gcc", src, "-o", f"{exe}-static", *cflags, *static[:pos], archive, *static[pos + 1 :])
        run(f"{exe}-static", env=env)
        run("g++", "-x", "c++", "-std=c++17", "-fsyntax-only", src, *cflags, env=env)
        print(f"{layer}: {' '.join(libs)}; static: {' '.join(static)}")
fail(errors)
