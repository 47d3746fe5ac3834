# SPDX-License-Identifier: MIT
"""clang reports no warning for any file, with the flags of a build by clang. Only the syntax is checked, which
takes a fraction of the time of a build.

    clang.py SOURCE
"""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from layers import fail

source = pathlib.Path(sys.argv[1]).resolve()


def warnings_of(entry):
    command = re.sub(r" -(o|MF|MQ) \S+| -MD", "", entry["command"].removeprefix("ccache "))
    r = subprocess.run(command + " -fsyntax-only", shell=True, cwd=entry["directory"], capture_output=True, text=True)
    return r.stderr if r.returncode else ""


with tempfile.TemporaryDirectory() as tmp:
    setup = ["meson", "setup", tmp, source, "-Dwerror=true", "-Drdma=enabled", "-Dpmix=enabled"]
    subprocess.run(setup, env=dict(os.environ, CC="clang"), check=True, capture_output=True)
    listed = json.loads((pathlib.Path(tmp) / "compile_commands.json").read_text())
    commands = list({entry["file"]: entry for entry in listed}.values())
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        said = list(pool.map(warnings_of, commands))
print(f"{len(commands)} files")
fail(sorted({s for s in said if s}))
