# SPDX-License-Identifier: MIT
"""Checks that no file of tent depends on the kind of transport, and no file of benchkv on the backend of a job. The
list of the kinds, and the file of each kind beside the list, are excepted.

    kinds.py transports|backends SOURCE

Also checks that the pattern finds known bad lines, and that the stub transport of tent's tests stays short.
"""
import pathlib
import re
import sys

from layers import code, fail

STUB_LINES = 60  # of code, at most
# The file with the list of the kinds, the pattern of a row of the list, the name of a kind's file, the least numbers of
# kinds and of other files, the patterns of code that depends on a kind (%s: the names of the kinds), and lines in which
# they must match.
CHECKS = {
    "transports": ("tent/src/transports.c", r"^\s*X\((\w+)\)", "tent/src/%s.c", (3, 50), r"""
        \b(?:%s)_transport\b                    # a transport by its name
        | \bmlx5dvl | \bibv_ | \bprocess_vm_\w+\((?!getpid)  # calls that only one transport makes
        | \b(?:shm|tcp|gpu)_rails\b             # the attributes that select one transport
        | transport \s* (?:==|!=) | \btransports\[\d  # a comparison of transports
        | "(?:shm|tcp|gpu|ib|roce)"             # kinds of rails
        | [>.]kind \s* (?:==|!=) | strn?cmp \( [^;]* (?:kind\s*,\s*" | ->rails\s*, )
    """, ["if (t->transport == &shm_transport)", "bool rdma = transports[1] == t->transport;",
          'if (!strcmp(s->desc.rails[0].kind, "shm"))', "return a->tcp_rails ? 0 : -EINVAL;",
          "mlx5dvl_mr_dereg(&b->mrs[i]);", 'strcmp(t->transport->rails, "adapters")']),
    "backends": ("benchkv/src/backend/list.c", r"^\t&backend_(\w+),", "benchkv/src/backend/%s.c", (4, 80), r"""
        \bbackend_(?:%s)\b                      # a backend by its name
        | \bHAVE_UCX\b | \bucp_ | ucx\.h        # code that only some builds have
        | backend \s* (?:==|!=)                 # a comparison of backends
        | (?:==|!=) \s* &?backends?\b
        | \bcase \s+ BACKEND | \bBACKEND_
        | strn?cmp \( [^;]* backend->name       # or of their names
    """, ["if (o->backend == backends[2])", "return b == &backend_direct;", "#ifdef HAVE_UCX",
          'if (!strcmp(n->o->backend->name, "meta"))', "switch (kind) { case BACKEND_META:",
          "return backends[0] == backend;"]),
}

kind, source = sys.argv[1], pathlib.Path(sys.argv[2])
listed, row, of_kind, least, question, planted = CHECKS[kind]
names = re.findall(row, (source / listed).read_text(), re.M)
own = {source / listed, *(source / (of_kind % n) for n in names)}
assert len(names) >= least[0] and all(p.is_file() for p in own), names
question = re.compile(question % "|".join(names), re.X)
files = [p for p in sorted((source / listed.split("/")[0] / "src").glob("*.[ch]")) if p not in own]
assert len(files) > least[1]
errors = [f"{p.name}:{i}: depends on one of the {kind}: {line.strip()}"
          for p in files for i, line in enumerate(code(p.read_text()).splitlines(), 1) if question.search(line)]
errors += [f"the pattern does not find: {line}" for line in planted if not question.search(line)]
if kind == "transports":
    lines = len([line for line in code((source / "tent/test/stub-transport.c").read_text()).splitlines() if line.strip()])
    if lines > STUB_LINES:
        errors.append(f"stub-transport.c: {lines} lines of code; a transport needs at most {STUB_LINES}")
fail(errors)
