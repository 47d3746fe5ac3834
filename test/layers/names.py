# SPDX-License-Identifier: MIT
"""
Checks that each function that is mentioned as `name()` in a comment of C, a document or a man page exists. Mentions
in layers that the build leaves out are not checked.
"""
import pathlib
import re
import sys

from layers import code, dependencies, fail, tracked

build, source = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
CALL = re.compile(r"(?<![\w.$])([A-Za-z_]\w{2,})\(\)")
WORD = re.compile(r"[A-Za-z_]\w+")


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
for path in tracked(source, "*.c", "*.h", "*.S", "*.pml"):
    text = path.read_text()
    comments[path] = "\n".join(COMMENT.findall(text))
    # Strings are kept: dlsym() and the tests name functions in them.
    known |= words_of(code(text))
for name in {file for _, file in dependencies(build)}:
    path = pathlib.Path(build / name).resolve()
    if path.is_relative_to(source):
        built.add(layer_of(path))
    elif path.is_file():
        known |= words_of(path.read_text(errors="replace"))
for path in tracked(source, "*.py", "*.sh"):
    known |= words_of(path.read_text())
for path in tracked(source, "*.md", "*.1", "*.7"):
    comments[path] = re.sub(r"\\f.", "", path.read_text())

bad = []
for path, text in comments.items():
    # Comments of a layer that is not built mention functions of libraries whose headers no built file includes.
    if layer_of(path) not in built:
        continue
    for name in sorted(set(CALL.findall(text)) - known):
        bad.append(f"{path.relative_to(source)}: {name}() does not exist")
assert len(comments) > 100
fail(bad)
