# SPDX-License-Identifier: MIT
"""Writes the pages of section 3: one per group of functions, one per header, and links for the other names.

	man.py OUT DEPFILE SOURCE VERSION LAYER...
"""
import itertools
import pathlib
import re
import shutil
import sys

import pages
from headers import folder_of

FONTS = {"code": "I", "argument": "I", "type": "I", "constant": "B", "function": "B", "manual": "B", "errno": "B"}


def escaped(text, code=False):
    text = text.replace("\\", "\\e")
    if code:
        for c, name in (("-", "\\-"), ("'", "\\(aq"), ("`", "\\(ga"), ("^", "\\(ha"), ("~", "\\(ti")):
            text = text.replace(c, name)
    else:
        text = re.sub(r"(?<![\w])-(?=\w)", r"\\-", text)
    return text


def protected(line):
    """Escapes a control character at the beginning of a line, so that roff prints the line as text."""
    return "\\&" + line if line[:1] in (".", "'") else line


def inline(text):
    out, at = "", 0
    for m in pages.SPAN.finditer(text):
        out += escaped(text[at:m.start()])
        kind, body, behind = m.lastgroup, m[m.lastgroup], ""
        if kind == "function":
            behind = "()"
        elif kind == "manual":
            body, behind = body[:-3], body[-3:]
        out += f"\\f{FONTS[kind]}{escaped(body, code=True)}\\fP{behind}"
        at = m.end()
    return out + escaped(text[at:])


def filled(text):
    """Breaks a paragraph into lines of at most one sentence each."""
    lines = []
    for sentence in re.split(r"(?<=[.:;]) (?=\S)", inline(text)):
        line = ""
        for word in sentence.split(" "):
            if line and len(line) + len(word) > 95:
                lines.append(line)
                line = ""
            line += (" " if line else "") + word
        lines.append(line)
    return "\n".join(protected(line) for line in lines if line)


def declaration(text):
    """A prototype with its parameters in italics."""
    lines = []
    for line in pages.declaration_lines(text, 78):
        words = ["".join(w for w, _ in part) for _, part in itertools.groupby((p for p in line if p[0]), lambda p: p[1])]
        lines.append(".BI " + " ".join(f'"{escaped(w, code=True)}"' for w in words[:-1] + [words[-1].rstrip()]))
    return "\n".join(lines)


def synopsis(header, declarations):
    lines = [".nf", f".B #include <{header}>"]
    for d in declarations:
        lines += [".PP", declaration(d)]
    return lines + [".fi"]


def rendered(nodes):
    out, fresh = [], True  # fresh: directly behind a heading, where roff allows no .PP
    for node in nodes:
        kind, body = node[0], node[1]
        if kind in ("section", "sub"):
            out.append((".SH " if kind == "section" else ".SS ") + escaped(body, code=True))
            fresh = True
            continue
        if kind == "synopsis":
            out += synopsis(body, node[2])
        elif kind == "p":
            out += ([] if fresh else [".PP"]) + [filled(body)]
        elif kind == "code":
            out += ([] if fresh else [".PP"]) + [".nf", ".RS 4"] + [protected(escaped(line, True)) for line in body.splitlines()] + [".RE", ".fi"]
        elif kind == "list":
            for text in body:
                out += [".IP \\(bu 2", filled(text)]
        elif kind == "defs":
            for term, text in body:
                out += [".TP", f".B {escaped(term, True)}", filled(text) if text else "\\&"]
        elif kind == "see":
            out += [f".BR {escaped(n, True)} ({s})" + ("," if i + 1 < len(body) else "") for i, (n, s) in enumerate(body)]
        fresh = False
    return out


def page(name, names, title, nodes, library, about):
    version, date = about
    head = ['.\\" SPDX-License-Identifier: MIT', f'.TH {escaped(name.upper(), True)} 3 {date} "{library.layer} {version}" "Libraries"',
            ".SH NAME", f"{', '.join(escaped(n, True) for n in names)} \\- {escaped(title)}"]
    return "\n".join(head + rendered(nodes)) + "\n"


def date_of(source, layer):
    """The date of the layer's manual: with it the pages are the same at each build."""
    return re.search(r"^\.TH \S+ 7 (\S+)", (folder_of(source, layer) / "man" / f"{layer}.7").read_text(), re.M)[1]


def write(out, source, version, layers):
    examples = pages.examples_of(source)
    for layer in layers:
        library = pages.Library(source, layer)
        library.refuse()
        about = version, date_of(source, layer)
        for header in library.headers:
            text = page(header.name, [header.name], pages.title_of(header)[0], pages.header_nodes(header, library), library, about)
            (out / f"{header.name}.3").write_text(text)
        for p in library.pages:
            text = page(p.name, p.names, pages.summary(p), pages.nodes_of(p, examples), library, about)
            (out / f"{p.name}.3").write_text(text)
        for name, p in library.home.items():
            if name != p.name and (name in p.names or name in library.types):
                (out / f"{name}.3").write_text(f".so man3/{p.name}.3\n")
        library.refuse()


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1])
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    try:
        write(target, pathlib.Path(sys.argv[3]), sys.argv[4], sys.argv[5:])
        pages.write_dependencies(sys.argv[2], sys.argv[1], pathlib.Path(sys.argv[3]), sys.argv[5:])
    except BaseException:
        shutil.rmtree(target)
        raise
