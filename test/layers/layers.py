# SPDX-License-Identifier: MIT
"""The table that the layer tests check: the includes, symbols and libraries of each layer. Functions that
several of the tests use."""
import fnmatch
import re
import subprocess

# layer: (prefix of its exported symbols, directories it may include from,
#         libraries it may need besides libc)
LAYERS = {
    "latrec": ("latrec_", {"base"}, set()),
    "mlx5dv-lite": ("mlx5dvl_", {"base"}, {"libibverbs.so.1", "libmlx5.so.1"}),
    "copyrpc": ("copyrpc_", {"base", "mlx5dv-lite"}, {"libmlx5dv-lite.so.1"}),
    "delegrpc": ("delegrpc_", {"base", "cellring"}, set()),
    "shmipc": ("shmipc_", {"base", "cellring"}, set()),
    "flux": ("flux_", {"base", "cellring"}, set()),
    "tent": ("tent_", {"base", "latrec", "mlx5dv-lite"},
             {"liblatrec.so.1", "libmlx5dv-lite.so.1", "libhwloc.so.15", "libjansson.so.4",
              "libm.so.6"}),
}

# Layers without a library: all their code is in headers that include no other layer.
HEADER_ONLY = {"cellring"}

# The parts of libc, which any layer may need.
LIBC = {"libc.so.6", "ld-linux-x86-64.so.2", "libpthread.so.0"}

# Programs: (file, directories they may include from, libraries they need besides libc).
PROGRAMS = {
    "shmls": ("shmls/shmls", {"base", "cellring", "delegrpc", "shmipc"},
              {"libdelegrpc.so.1", "libshmipc.so.1", "libjansson.so.4"}),
    "rdmabench": ("rdmabench/rdmabench", {"base", "latrec", "mlx5dv-lite"},
                  {"liblatrec.so.1", "libmlx5dv-lite.so.1", "libhwloc.so.15", "libjansson.so.4", "libm.so.6"}),
    "tentbench": ("tent/sim/tentbench", {"base"},
                  {"libtent.so.1", "liblatrec.so.1", "libjansson.so.4", "libm.so.6"}),
    "benchkv": ("benchkv/benchkv",
                {"base", "latrec", "mlx5dv-lite", "copyrpc", "cellring", "delegrpc", "shmipc", "flux"},
                {"liblatrec.so.1", "libcopyrpc.so.1", "libdelegrpc.so.1", "libshmipc.so.1",
                 "libflux.so.1", "libibverbs.so.1", "libmlx5.so.1", "libpmix.so.2", "libhwloc.so.15",
                 "libjansson.so.4", "libm.so.6"}),
}

# Archives that are built once and never installed, and the directories that they may include. Files that
# are installed may not include from the archives' directories.
HARNESSES = {"bench": {"base", "cellring", "latrec"}}

# Libraries that a program needs only if they were found when it was built.
OPTIONAL = {"libucp.so.0", "libuct.so.0", "libucs.so.0", "librdmacm.so.1"}

# Only these may include mlx5's headers. benchkv asks which devices are of mlx5.
DRIVER_HEADERS = {"mlx5dv-lite", "benchkv"}

# Options of meson for builds whose code matters little: the compiler takes half the time.
QUICK = ["-Doptimization=0", "-Ddebug=false"]

# Public headers, as installed.
HEADERS = {
    "latrec": ["latrec.h"],
    "mlx5dv-lite": ["mlx5dvl.h"],
    "copyrpc": ["copyrpc.h", "copyrpc_tcp.h", "copyrpc_bulk.h"],
    "cellring": ["cellring.h"],
    "delegrpc": ["delegrpc.h"],
    "shmipc": ["shmipc.h"],
    "flux": ["flux.h"],
    "tent": ["tent.h"],
}


def includes(layer):
    """The include directories that a user of a layer needs: its own, and those of the header-only layers below."""
    below = [n for n in sorted(LAYERS.get(layer, ("", set()))[1]) if n in HEADER_ONLY]
    return [n + "/include" for n in [layer] + below]


def run(*command, **more):
    """Returns what a command prints. The command must succeed."""
    r = subprocess.run([str(c) for c in command], capture_output=True, text=True, **more)
    if r.returncode:
        raise SystemExit(f"{r.stdout}{r.stderr}failed: {' '.join(map(str, command))}")
    return r.stdout


def tracked(source, *patterns):
    """The files of the tree that git does not ignore, sorted; in a source tarball, those outside build directories."""
    if (source / ".git").exists():
        listed = run("git", "ls-files", "-co", "--exclude-standard", "--", *patterns, cwd=source).splitlines()
    else:
        names = [str(p.relative_to(source)) for p in source.rglob("*")]
        listed = [n for n in names if not re.match(r"build(-|/)|(.*/)?__pycache__/", n) and
                  (not patterns or any(fnmatch.fnmatch(n, p) or n.startswith(f"{p}/") for p in patterns))]
    return [source / f for f in sorted(listed) if (source / f).is_file()]


def dependencies(build):
    """Yields each object file of ninja's dependency log with a file that it depends on, relative to the build."""
    for line in run("ninja", "-C", build, "-t", "deps").splitlines():
        if line.startswith(" "):
            yield obj, line.strip()
        else:
            obj = line.split(":")[0]


def exported(library):
    """The symbols that a library exports, with the letter of nm."""
    return {name: kind for *_, kind, name in
            (line.split("@")[0].split() for line in run("nm", "-D", "--defined-only", library).splitlines())}


def code(text):
    """Source code without its comments, and with all of its lines."""
    return re.sub(r"/\*.*?\*/|//[^\n]*", lambda m: "\n" * m[0].count("\n"), text, flags=re.S)


def fail(msgs):
    for m in msgs:
        print(m)
    raise SystemExit(1 if msgs else 0)
