# SPDX-License-Identifier: MIT
"""Every C file is formatted as .clang-format says, by Debian 12's clang-format (others differ)."""
import pathlib
import re
import shutil
import subprocess
import sys

MAJOR = "14"

source = pathlib.Path(sys.argv[1])
tool = shutil.which("clang-format-" + MAJOR) or shutil.which("clang-format")
version = tool and subprocess.run([tool, "--version"], capture_output=True, text=True).stdout
if not version or not re.search(rf"version {MAJOR}\.", version):
    print(f"needs clang-format {MAJOR}; found: {version or 'none'}")
    sys.exit(77)

files = sorted(
    str(path.relative_to(source))
    for pattern in ("*.c", "*.h")
    for path in source.rglob(pattern)
    if not path.relative_to(source).parts[0].startswith(("build", "."))
)
assert len(files) > 100, f"only {len(files)} files found"
done = subprocess.run(
    [tool, "--dry-run", "--Werror", "--ferror-limit=1"] + files,
    cwd=source, capture_output=True, text=True,
)
bad = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", done.stderr, re.M)))
for name in bad:
    print(f"{name}: not as .clang-format says; run: clang-format -i {name}")
sys.exit(1 if bad or done.returncode else 0)
