# SPDX-License-Identifier: MIT
"""Each shared-memory layer builds alone, with no RDMA, PMIx, hwloc or JSON header in sight."""
import pathlib
import subprocess
import sys
import tempfile

source = pathlib.Path(sys.argv[1]).resolve()
with tempfile.TemporaryDirectory() as tmp:
    for layer in sys.argv[2:]:
        out = pathlib.Path(tmp) / layer
        # An empty search path for pkg-config is a machine without those packages.
        for cmd in (
            ["meson", "setup", out, source, f"-Dlayers={layer}", "-Dtests=disabled",
             "--pkg-config-path=", "-Dpeers=disabled"],
            ["ninja", "-C", out],
        ):
            env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin", "PKG_CONFIG_LIBDIR": tmp,
                   "HOME": tmp}
            r = subprocess.run([str(c) for c in cmd], capture_output=True, text=True, env=env)
            if r.returncode:
                print(r.stdout + r.stderr)
                raise SystemExit(f"failed: {' '.join(map(str, cmd))}")
        if not (out / layer / f"lib{layer}.so").exists():
            raise SystemExit(f"{layer} alone did not build lib{layer}.so")
        print(f"{layer} alone: built")
