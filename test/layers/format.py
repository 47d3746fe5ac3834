# SPDX-License-Identifier: MIT
"""Every C file is formatted as .clang-format says, by Debian 12's clang-format (other versions format differently)."""
import pathlib
import re
import shutil
import subprocess
import sys

from layers import fail, tracked

MAJOR = "14"

source = pathlib.Path(sys.argv[1]).resolve()
tool = shutil.which("clang-format-" + MAJOR) or shutil.which("clang-format")
version = tool and subprocess.run([tool, "--version"], capture_output=True, text=True).stdout
if not version or not re.search(rf"version {MAJOR}\.", version):
    print(f"needs clang-format {MAJOR}; found: {version or 'none'}")
    sys.exit(77)

files = tracked(source, "*.c", "*.h")
assert len(files) > 100, f"only {len(files)} files found"
done = subprocess.run([tool, "--dry-run", "--Werror", "--ferror-limit=1", *files], capture_output=True, text=True)
bad = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", done.stderr, re.M)))
fail([f"{name}: not as .clang-format says; run: clang-format -i {name}" for name in bad] or
     [done.stderr] * bool(done.returncode))
