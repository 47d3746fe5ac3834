# SPDX-License-Identifier: MIT
"""Another meson project takes the workspace as a subproject, each layer through
dependency(..., fallback: ...), and builds and runs a user of each."""
import pathlib
import subprocess
import sys
import tempfile

source, here = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(__file__).parent
names = sys.argv[2:]

with tempfile.TemporaryDirectory() as tmp:
    outer = pathlib.Path(tmp)
    (outer / "subprojects").mkdir()
    # A link, not a copy: what is taken is what is here.
    (outer / "subprojects" / "workspace").symlink_to(source)
    lines = ["project('outer', 'c', default_options: ['c_std=gnu11'])"]
    for i, layer in enumerate(names):
        (outer / f"{layer}.c").write_text((here / "consumer" / f"{layer}.c").read_text())
        lines.append(f"dep{i} = dependency('{layer}', fallback: 'workspace')")
        lines.append(f"test('{layer}', executable('use-{layer}', '{layer}.c', dependencies: dep{i}))")
    (outer / "meson.build").write_text("\n".join(lines) + "\n")
    for cmd in (
        ["meson", "setup", "b", ".", "--force-fallback-for=" + ",".join(names),
         "-Dworkspace:layers=" + ",".join(names)],
        ["ninja", "-C", "b"],
        ["meson", "test", "-C", "b", *(f"{n}" for n in names)],
    ):
        r = subprocess.run(cmd, cwd=outer, capture_output=True, text=True)
        if r.returncode:
            print(r.stdout + r.stderr)
            raise SystemExit(f"failed: {' '.join(cmd)}")
    print(f"{len(names)} layers taken as a subproject")
