# SPDX-License-Identifier: MIT
"""Checks that no file of benchkv depends on the backend of a job, but for src/backend/list.c, which lists the
backends, and the file of each backend beside it.

    backends.py SOURCE

Also checks that the pattern finds known bad lines.
"""
import pathlib
import re
import sys

QUESTION = re.compile(r"""
    \bbackend_(?:%s)\b                      # a backend by its name
    | \bHAVE_UCX\b | \bucp_ | ucx\.h        # code that only some builds have
    | backend \s* (?:==|!=)                 # a comparison of backends
    | (?:==|!=) \s* &?backends?\b
    | \bcase \s+ BACKEND | \bBACKEND_
    | strn?cmp \( [^;]* backend->name       # or of their names
""", re.X)
PLANTED = ["if (o->backend == backends[2])", "return b == &backend_direct;", "#ifdef HAVE_UCX",
           'if (!strcmp(n->o->backend->name, "meta"))', "switch (kind) { case BACKEND_META:",
           "return backends[0] == backend;"]


def rows(src):
    """The names in the list."""
    return re.findall(r"^\t&backend_(\w+),", (src / "backend/list.c").read_text(), re.M)


def questions(text, names):
    pattern = re.compile(QUESTION.pattern % "|".join(names), re.X)
    code = re.sub(r"/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), text, flags=re.S)
    return [(i, line.strip()) for i, line in enumerate(code.splitlines(), 1) if pattern.search(line)]


src = pathlib.Path(sys.argv[1]) / "benchkv/src"
names = rows(src)
assert len(names) >= 4 and all((src / f"backend/{n}.c").is_file() for n in names), names
files = sorted(src.glob("*.[ch]"))
assert len(files) > 80
errors = [f"{p.name}:{i}: asks which backend it is: {line}"
          for p in files for i, line in questions(p.read_text(), names)]
errors += [f"is not seen as a question: {line}" for line in PLANTED if not questions(line, names)]
print("\n".join(errors))
sys.exit(1 if errors else 0)
