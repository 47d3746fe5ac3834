# SPDX-License-Identifier: MIT
"""Checks documents and comments: files, programs and tests that documents name must exist, links must lead to
files, and the terms of the field must be in the glossary of docs/architecture.md. english.py checks sentences.

	words.py SOURCE BUILD LAYER...
"""
import json
import os
import pathlib
import re
import sys

import english
from layers import fail, run, tracked

WALKS = 4  # walks (tables of docs/architecture.md with a column `step`), at least
README_LINES = 120  # at most
source = pathlib.Path(sys.argv[1]).resolve()
here = {str(f.relative_to(source)) for f in tracked(source)}
directories = {str(d) for f in here for d in pathlib.PurePath(f).parents}
documents = sorted(source / f for f in here if f.endswith(".md") and f != "CHANGELOG.md")

# Words in capitals that are no terms of the field, or whose meaning every reader knows.
PLAIN = set("""AMD API ASCII ASan CC CHANGELOG CI CONNECT CONTRIBUTING CPU CRC CSV DMA DPDK EPYC ELF FENCE FIFO GB GCC GHz
HELLO HTTP IP IPv4 JSON KB KV MB MPI NIC NP NULL OS OSS PC PCI PCIe PID QD RAM README REGION RESULTS RPC SIGINT SIGKILL SIGSEGV
SIGTERM SQL SVG TCP TSan TLS UBSan UDP UID USB XML YAML""".split())
# Names that look like files, but are made by a program or belong to another project.
MADE = re.compile(r"^(build|/|~|\$|OUT|FILE|NAME|TRACE|app\.c|picture|hw-check-|RESULTS|infiniband/|linux/|sys/|\.\.\.)|LAYER|[*<>{}]|\.(so|pc|sym)(\.|$)")
SUFFIX = re.compile(r"\.(c|h|S|py|sh|md|txt|json|build|ini|lua|pml|sym|1|7)$")


def glossary():
    text = (source / "docs/architecture.md").read_text().split("## Glossary")[1]
    return set(re.findall(r"\w+", " ".join(row.split("|")[1] for row in text.splitlines() if row.startswith("|"))))


def terms(text):
    """Returns the words in capitals in the prose, without the s of a plural."""
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    text = re.sub(r"`[^`]*`|\]\([^)]*\)", "", text)
    return {w.removesuffix("s") for w in re.findall(r"(?<![\w.$/-])[A-Z][A-Z0-9]*[A-Z]s?(?!\w)", text)}


def exists(document, name):
    """Returns true if the name exists relative to the root, the document's directory, or a directory of sources beside
    the document. The suffix of a module may be missing."""
    base = document.parent.relative_to(source)
    name = name.rstrip("/")
    places = [pathlib.PurePath(), pathlib.PurePath("base/include"), base, *(base / d for d in ("src", "include", "test", "bench", "sim", "man", "tools", "examples"))]
    for place in places:
        path = os.path.normpath(place / name)
        if path in here or path in directories or any(path + s in here for s in (".c", ".h")):
            return True
    # A name without a directory may name any file; in a document of the whole tree a path may be relative to any layer.
    return ("/" not in name or base.name in ("", "docs")) and any(f.endswith("/" + name) for f in here | directories)


def walks():
    """Returns the walks, each as a list of its rows."""
    text = (source / "docs/architecture.md").read_text()
    return [re.findall(r"^\| \d.*", table, re.M) for table in re.findall(r"^\| step \|.*\n(?:\|.*\n)+", text, re.M)]


def check_walk(rows):
    """Yields functions of a walk that are not in the file that the row names. names.py checks that functions exist."""
    for row in rows:
        for part in re.split(r"[;|]", row):
            for file in re.findall(r"[\w/-]+\.[ch]\b", part):
                texts = [(source / f).read_text() for f in here if f == file or f.endswith("/" + file)]
                for name in re.findall(r"`(\w+)\(\)`", part):
                    if not any(re.search(rf"^[\w ].*\b{name}\(", text, re.M) for text in texts):
                        yield f"docs/architecture.md: {name}() is not in {file}"
    if len(re.findall(r"\w\(\)", " ".join(rows))) < 8:
        yield f"docs/architecture.md: a walk with few functions: {rows[:1]}"


def built():
    """Returns the names of tests, benchmarks and targets."""
    return {entry["name"] for what in ("--tests", "--benchmarks", "--targets")
            for entry in json.loads(run("meson", "introspect", what, sys.argv[2]))}


bad, words, names, links = [], glossary(), 0, 0
known, PROGRAM = built(), re.compile(rf"({'|'.join(sys.argv[3:])})-[\w-]+")
for document in documents:
    text, where = document.read_text(), document.relative_to(source)
    bad += [f"{where}: {w} is not in the glossary" for w in sorted(terms(text) - words - PLAIN)]
    prose = re.sub(r"```.*?```", "", text, flags=re.S)
    for name in sorted(set(re.findall(r"`([\w./-]+)`", prose))):
        if (SUFFIX.search(name) or name.endswith("/")) and not MADE.search(name):
            names += 1
            if not exists(document, name):
                bad.append(f"{where}: there is no {name}")
        elif PROGRAM.fullmatch(name) and name not in known:
            bad.append(f"{where}: no test or program is called {name}")
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose):
        links += 1
        if not (document.parent / target).exists():
            bad.append(f"{where}: a link leads to {target}, which does not exist")
for rows in walks():
    bad += check_walk(rows)
if len(walks()) < WALKS:
    bad.append(f"docs/architecture.md has {len(walks())} walks, fewer than {WALKS}")
# After a failed arm no event comes. An example that treats the failure as work to poll for would never sleep.
for f in sorted(f for f in here if f.endswith((".h", ".c", ".md", ".7"))):
    if re.search(r"_arm\([^()]*\) \? 0 : \\?-1", (source / f).read_text()):
        bad.append(f"{f}: an example treats a failed arm as work to poll for")
for document in documents:
    lines = len(document.read_text().splitlines())
    if document.parent != source and document.name == "README.md" and lines > README_LINES:
        bad.append(f"{document.relative_to(source)}: {lines} lines, more than {README_LINES}")
bad += [f"{file}:{line}: {wrong}: {sentence}" for file, line, wrong, sentence in english.report(source)]
print(f"{len(documents)} documents, {names} names of files, {links} links")
if names < 50 or links < 50:
    bad.append("too few names or links were found: the check may have missed some")
fail(bad)
