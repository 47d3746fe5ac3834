# SPDX-License-Identifier: MIT
"""Installs to a directory of its own. With pkg-config, builds and runs a user of each layer: as C with the shared and
the static library, as C++ with the shared one. Also builds C++17 programs with g++ and clang++ from two units that both
include all public headers. The units must link."""
import os
import pathlib
import subprocess
import sys
import tempfile

from layers import HEADERS, HEADER_ONLY, fail

build, here = pathlib.Path(sys.argv[1]), pathlib.Path(__file__).parent
errors = []


def run(*cmd, env=None):
    if not os.path.exists(cmd[0]) and os.path.isabs(cmd[0]):
        return []  # it was not built; `errors` has the compiler's message
    r = subprocess.run([str(c) for c in cmd], capture_output=True, text=True, env=env)
    if r.returncode:
        errors.append(f"{' '.join(map(str, cmd))}\n{r.stdout}{r.stderr}")
    return r.stdout.split()


def use_all(tmp, pkg_config, layers, env):
    """Builds a program that uses all layers in C++17, without a warning."""
    flags = run(*pkg_config, "--cflags", "--libs", *layers, env=env)
    text = "".join(f"#include <{header}>\n" for layer in layers for header in HEADERS[layer])
    (tmp / "one.cpp").write_text(text + "int two();\nint main() { return two(); }\n")
    (tmp / "two.cpp").write_text(text + "int two();\nint two() { return 0; }\n")
    for compiler in ("g++", "clang++"):
        exe = tmp / f"use-all-{compiler}"
        run(compiler, "-std=c++17", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", tmp / "one.cpp",
            tmp / "two.cpp", "-o", exe, "-Wl,--no-as-needed", *flags, env=env)
        run(exe, env=env)
        print(f"{compiler}: {text.count('#')} headers")


with tempfile.TemporaryDirectory() as tmp:
    root = pathlib.Path(tmp) / "root"
    run("meson", "install", "-C", build, "--no-rebuild", "--destdir", root)
    pcs = sorted(root.rglob("*.pc"))
    libdir = pcs[0].parent.parent
    # libibverbs.pc is the system's; the files of this tree are below the destdir.
    env = dict(os.environ, PKG_CONFIG_PATH=str(pcs[0].parent), LD_LIBRARY_PATH=str(libdir))
    prefix = run("pkg-config", "--variable=prefix", pcs[0].stem, env=env)[0]
    pkg_config = ["pkg-config", f"--define-variable=prefix={root}{prefix}"]
    use_all(pathlib.Path(tmp), pkg_config, sys.argv[2:], env)
    for layer in sys.argv[2:]:
        src = here / "consumer" / f"{layer}.c"
        cflags = run(*pkg_config, "--cflags", layer, env=env)
        libs = run(*pkg_config, "--libs", layer, env=env)
        static = run(*pkg_config, "--libs", "--static", layer, env=env)
        exe = pathlib.Path(tmp) / f"use-{layer}"
        run("gcc", src, "-o", exe, *cflags, *libs, env=env)
        run(exe, env=env)
        errors += [f"{layer}.pc: {word} is an absolute path" for word in static if word.startswith("/")]
        if layer in HEADER_ONLY:
            continue
        archive = libdir / f"lib{layer}.a"
        pos = static.index(f"-l{layer}")
        run("gcc", src, "-o", f"{exe}-static", *cflags, *static[:pos], archive, *static[pos + 1 :])
        run(f"{exe}-static", env=env)
        for compiler in ("g++", "clang++"):
            run(compiler, "-x", "c++", "-std=c++17", src, "-o", f"{exe}-{compiler}", *cflags, *libs, env=env)
            run(f"{exe}-{compiler}", env=env)
        print(f"{layer}: {' '.join(libs)}; static: {' '.join(static)}")
fail(errors)
