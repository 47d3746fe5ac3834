# SPDX-License-Identifier: MIT
"""The installed modules find the libraries of their prefix, without LD_LIBRARY_PATH.

    test_install.py BUILD MODULE...
"""
import os
import pathlib
import subprocess
import sys
import tempfile

build, *modules = sys.argv[1:]
with tempfile.TemporaryDirectory() as root:
    subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", root], check=True,
                   stdout=subprocess.DEVNULL)
    package = next(pathlib.Path(root).rglob("mlx5rpc/__init__.py")).parent
    env = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    text = f"from mlx5rpc import {', '.join(modules)}\n" \
        "print(*{line.split()[-1] for line in open('/proc/self/maps') if 'lib' in line}, sep='\\n')"
    loaded = subprocess.run([sys.executable, "-c", text], env=dict(env, PYTHONPATH=str(package.parent)), check=True,
                            stdout=subprocess.PIPE, text=True).stdout.splitlines()
    for module in modules:
        if not any(path.startswith(root) and f"lib{module}.so" in path for path in loaded):
            sys.exit(f"{module} has not loaded the library of its prefix: {loaded}")
