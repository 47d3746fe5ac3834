# SPDX-License-Identifier: MIT
"""Another meson project has this tree as a subproject, finds each layer through
dependency(..., fallback: ...) or by the [provide] of a wrap, builds and runs a user of each,
and installs. The libraries are static or shared, as the project chooses, and are installed only with install=enabled.

    subproject.py [--all] SOURCE LAYER...

Without --all, the project with the wrap looks for the layers in one order only.
"""
import pathlib
import re
import sys
import tempfile

from layers import QUICK, run

args = [a for a in sys.argv[1:] if a != "--all"]
source, here = pathlib.Path(args[0]).resolve(), pathlib.Path(__file__).parent
names = args[1:]


def outer_project(outer, layers):
    (outer / "subprojects").mkdir(parents=True)
    # A link, not a copy, so that the present tree is used.
    (outer / "subprojects" / "workspace").symlink_to(source)
    lines = ["project('outer', 'c', default_options: ['c_std=gnu11'])"]
    for i, layer in enumerate(layers):
        (outer / f"{layer}.c").write_text((here / "consumer" / f"{layer}.c").read_text())
        lines.append(f"dep{i} = dependency('{layer}', fallback: 'workspace')")
        lines.append(f"test('{layer}', executable('use-{layer}', '{layer}.c', dependencies: dep{i},")
        lines.append("  install: true))")
    (outer / "meson.build").write_text("\n".join(lines) + "\n")


def wrap_project(outer, layers):
    """A project that finds the layers by the [provide] of a wrap, in the order of `layers`."""
    outer_project(outer, layers)
    (outer / "subprojects" / "workspace.wrap").write_text(
        "[wrap-file]\ndirectory = workspace\n\n[provide]\ndependency_names = " + ", ".join(names) + "\n")
    file = outer / "meson.build"
    file.write_text(file.read_text().replace(", fallback: 'workspace'", ""))


def setup(outer, layers, *options):
    run("meson", "setup", "b", ".", *QUICK, "--force-fallback-for=" + ",".join(layers),
        "-Dworkspace:layers=" + ",".join(layers), *options, cwd=outer)


def build_and_test(outer, layers):
    run("ninja", "-C", "b", cwd=outer)
    run("meson", "test", "-C", "b", *layers, cwd=outer)


def install(outer, to):
    """Returns the names of the files that `meson install` installs, without their directories."""
    run("meson", "install", "-C", "b", "--no-rebuild", "--destdir", outer / to, cwd=outer)
    return {p.name for p in (outer / to).rglob("*") if not p.is_dir()}


def needed(program):
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", program)))


def same(what, found, wanted):
    if found != wanted:
        raise SystemExit(f"{what}: {sorted(found)}, not {sorted(wanted)}")


def take_all_static(outer):
    outer_project(outer, names)
    setup(outer, names, "-Ddefault_library=static")
    build_and_test(outer, names)
    for layer in names:
        ours = {lib for lib in needed(outer / "b" / f"use-{layer}") if lib[3:].startswith(tuple(names))}
        same(f"default_library=static, use-{layer} needs", ours, set())
    same("default_library=static builds", {p.name for p in outer.glob("b/**/*.so*")}, set())
    same("default_library=static installs", install(outer, "static"), {f"use-{n}" for n in names})


def take_one_shared(outer, layer):
    outer_project(outer, [layer])
    setup(outer, [layer], "-Ddefault_library=shared")
    build_and_test(outer, [layer])
    if f"lib{layer}.so.1" not in needed(outer / "b" / f"use-{layer}"):
        raise SystemExit(f"default_library=shared: use-{layer} does not need lib{layer}.so.1")
    same("without install=enabled the install contains", install(outer, "bare"), {f"use-{layer}"})
    run("meson", "configure", "b", "-Dworkspace:install=enabled", cwd=outer)
    run("ninja", "-C", "b", cwd=outer)
    got = install(outer, "full")
    for file in (f"lib{layer}.so.1", f"{layer}.h", f"{layer}.pc", f"{layer}.7"):
        if file not in got:
            raise SystemExit(f"install=enabled: {file} is missing among {sorted(got)}")
    if f"lib{layer}.a" in got:
        raise SystemExit("install=enabled, default_library=shared: the archive is installed as well")


def take_by_wrap(outer, layers):
    """Builds and runs a user of the last layer. Meson has already configured this tree when it looks for that layer."""
    wrap_project(outer, layers)
    run("meson", "setup", "b", ".", *QUICK, "--wrap-mode=forcefallback", "-Ddefault_library=static", cwd=outer)
    run("ninja", "-C", "b", f"use-{layers[-1]}", cwd=outer)
    run("meson", "test", "-C", "b", "--no-rebuild", layers[-1], cwd=outer)


with tempfile.TemporaryDirectory() as tmp:
    take_all_static(pathlib.Path(tmp) / "static")
    take_one_shared(pathlib.Path(tmp) / "shared", names[-1])
    if "--all" in sys.argv:
        take_by_wrap(pathlib.Path(tmp) / "wrap", names)
    take_by_wrap(pathlib.Path(tmp) / "wrap-reversed", names[::-1])
    print(f"{len(names)} layers taken as a subproject")
