# SPDX-License-Identifier: MIT
"""
Checks that each function that is mentioned as `name()` in a comment, README or man page exists. Mentions
in layers that the build leaves out are not checked.
"""
import pathlib
import re
import subprocess
import sys

build, source = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
CALL = re.compile(r"(?<![\w.$])([A-Za-z_]\w{2,})\(\)")
WORD = re.compile(r"[A-Za-z_]\w+")


def ours(*patterns):
    for pattern in patterns:
        for path in sorted(source.rglob(pattern)):
            if not path.relative_to(source).parts[0].startswith(("build", ".")):
                yield path


def words_of(text):
    return set(WORD.findall(text))


def layer_of(path):
    """Returns the innermost directory around @path that has a folder src, or None."""
    for parent in path.parents:
        if parent == source:
            return None
        if (parent / "src").is_dir():
            return parent


known = set()
comments = {}
built = {None}
for path in ours("*.c", "*.h", "*.S", "*.pml"):
    text = path.read_text()
    comments[path] = "\n".join(COMMENT.findall(text))
    # Strings are kept: dlsym() and the tests name functions in them.
    known |= words_of(COMMENT.sub(" ", text))
deps = subprocess.run(
    ["ninja", "-C", str(build), "-t", "deps"], check=True, capture_output=True, text=True
).stdout
for name in {line.strip() for line in deps.splitlines() if line.startswith("    ")}:
    path = pathlib.Path(build / name).resolve()
    if path.is_relative_to(source):
        built.add(layer_of(path))
    elif path.is_file():
        known |= words_of(path.read_text(errors="replace"))
for path in ours("*.py", "*.sh"):
    known |= words_of(path.read_text())
for path in ours("*.md", "*.1", "*.7"):
    comments[path] = re.sub(r"\\f.", "", path.read_text())

bad = []
for path, text in comments.items():
    # A layer that is not built mentions functions of libraries whose headers no built file includes.
    if layer_of(path) not in built:
        continue
    for name in sorted(set(CALL.findall(text)) - known):
        bad.append(f"{path.relative_to(source)}: {name}() does not exist")
assert len(comments) > 100
print("\n".join(bad))
sys.exit(1 if bad else 0)
