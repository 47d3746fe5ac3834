# SPDX-License-Identifier: MIT
"""Checks that no file of tent depends on the kind of transport, but for src/transports.c, which lists the
transports, and the file of each transport beside it.

    transports.py SOURCE

Also checks that the pattern finds known bad lines, and that the stub transport of the test stays short.
"""
import pathlib
import re
import sys

STUB_LINES = 60  # of code, at most
QUESTION = re.compile(r"""
    \b(?:%s)_transport\b                    # a transport by its name
    | \bmlx5dvl | \bibv_ | \bprocess_vm_    # calls that only one transport makes
    | \bshm_rails\b                         # the attribute that selects one transport
    | transport \s* (?:==|!=) | \btransports\[\d  # a comparison of transports
    | "(?:shm|ib|roce)"                     # kinds of rails
    | [>.]kind \s* (?:==|!=) | strn?cmp \( [^;]* (?:kind\s*,\s*" | ->rails\s*, )
""", re.X)
PLANTED = ["if (t->transport == &shm_transport)", "bool rdma = transports[1] == t->transport;",
           'if (!strcmp(s->desc.rails[0].kind, "shm"))', "return a->shm_rails ? 0 : -EINVAL;",
           "mlx5dvl_mr_dereg(&b->mrs[i]);", 'strcmp(t->transport->rails, "adapters")']


def code(text):
    """The text without comments, line by line."""
    return re.sub(r"/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), text, flags=re.S).splitlines()


def questions(text, names):
    pattern = re.compile(QUESTION.pattern % "|".join(names), re.X)
    return [(i, line.strip()) for i, line in enumerate(code(text), 1) if pattern.search(line)]


tent = pathlib.Path(sys.argv[1]) / "tent"
names = re.findall(r"^\s*X\((\w+)\)", (tent / "src/transports.c").read_text(), re.M)
assert len(names) >= 2 and all((tent / f"src/{n}.c").is_file() for n in names), names
files = [p for p in sorted(tent.glob("src/*.[ch]")) if p.stem not in names + ["transports"]]
assert len(files) > 50
errors = [f"{p.name}:{i}: asks which transport it is: {line}"
          for p in files for i, line in questions(p.read_text(), names)]
errors += [f"is not seen as a question: {line}" for line in PLANTED if not questions(line, names)]
lines = sum(bool(line.strip()) for line in code((tent / "test/stub-transport.c").read_text()))
if lines > STUB_LINES:
    errors.append(f"stub-transport.c: {lines} lines of code; a transport needs at most {STUB_LINES}")
print("\n".join(errors))
sys.exit(1 if errors else 0)
