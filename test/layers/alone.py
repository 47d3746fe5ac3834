# SPDX-License-Identifier: MIT
"""Each layer can be built alone: meson adds the layers that it needs. The layers that need
only libc can be built even if pkg-config finds no package.

    alone.py [--all] SOURCE LAYER...

Without --all, only the last layer that needs RDMA and the last one that needs none are configured alone.
"""
import concurrent.futures
import json
import os
import pathlib
import shutil
import sys
import tempfile

from layers import HEADER_ONLY, LAYERS, PROGRAMS, QUICK, fail, run

args = [a for a in sys.argv[1:] if a != "--all"]
source = pathlib.Path(args[0]).resolve()
names = [n for n in args[1:] if n not in HEADER_ONLY]  # those have no target of their own
everything = {**LAYERS, **PROGRAMS}


def below(layer):
    """Returns a layer and all layers that it may use, without base, which is no layer."""
    found = {layer}
    for other in everything[layer][1] & set(everything):
        found |= below(other)
    return found


def built(out):
    """Returns the layers whose library or program is a target of this build directory."""
    targets = json.loads(run("meson", "introspect", "--targets", out))
    files = {f for t in targets for f in t["filename"]}
    programs = {n for n in PROGRAMS if str(out / PROGRAMS[n][0]) in files}
    return programs | {n for n in LAYERS if any(f.startswith(str(out / n / f"lib{n}.so")) for f in files)}


def without_packages(tmp, layers):
    """Builds with an empty search path of pkg-config."""
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin", "PKG_CONFIG_LIBDIR": tmp, "HOME": tmp}
    if shutil.which("ccache"):  # ccache finds its files by $HOME
        env["CCACHE_DIR"] = run("ccache", "--get-config", "cache_dir").strip()
    out = pathlib.Path(tmp) / "bare"
    run("meson", "setup", out, source, "-Dlayers=" + ",".join(layers), "-Dtests=disabled", *QUICK, env=env)
    run("ninja", "-C", out, env=env)
    for layer in layers:
        if not (out / layer / f"lib{layer}.so").exists():
            errors.append(f"{layer} was not built where there is only libc")
    print(f"with libc only: {' '.join(layers)}")


def alone(tmp, layer):
    """Configures a layer with all tests and benches, which may need more than the layer itself. Builds nothing."""
    out = pathlib.Path(os.path.realpath(tmp)) / layer
    run("meson", "setup", out, source, f"-Dlayers={layer}", "-Drdma=enabled", "-Dpmix=enabled",
        "-Dsoak=true", "-Dpeers=disabled", "-Ducx=disabled")
    got = built(out)
    if below(layer) - got:
        errors.append(f"-Dlayers={layer} lacks {sorted(below(layer) - got)}")
    print(f"-Dlayers={layer}: {' '.join(sorted(got))}")


errors = []
with tempfile.TemporaryDirectory() as tmp, concurrent.futures.ThreadPoolExecutor(2) as pool:
    deepest = [[n for n in names if below(n) & {"mlx5dv-lite"} == rdma][-1:] for rdma in (set(), {"mlx5dv-lite"})]
    asked = names if "--all" in sys.argv else sum(deepest, [])
    jobs = [pool.submit(alone, tmp, layer) for layer in asked]
    jobs.append(pool.submit(without_packages, tmp,
                            [n for n in names if n in LAYERS and not LAYERS[n][2]]))
    for job in jobs:
        job.result()
fail(errors)
