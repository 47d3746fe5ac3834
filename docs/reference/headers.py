# SPDX-License-Identifier: MIT
"""Reads public headers: their opening comments, sections, and groups of declarations with the comment of each.

A comment belongs to the declarations that follow it without an empty line or another comment. The headers are
regular (clang-format), so this need not be a full parser of C: declarations end at `;` or `}`.
"""
import dataclasses
import re

COMMENT = re.compile(r"/\*.*?\*/", re.S)
SECTION = re.compile(r"^-{4,} *(.*?)(?: *-+)?$")
ATTRIBUTE = re.compile(r"__attribute__\(\(.*?\)\)\)? *")
LINKAGE = re.compile(r"\b(?:[A-Z0-9]+_INLINE|static|inline|__extension__)\s+")


class Bad(SystemExit):
    """Raised for a header that cannot be documented. It ends the program."""


@dataclasses.dataclass
class Item:
    kind: str  # function, callback, struct, enum, opaque, macro
    name: str  # of an enum without a name: ""
    text: str  # the declaration; for a macro, its value
    fields: list = dataclasses.field(default_factory=list)  # (declaration, comment) of a struct or an enum
    note: str = ""  # the comment behind a macro or an opaque struct
    blocks: list = dataclasses.field(default_factory=list)  # the comment of the group


@dataclasses.dataclass
class Group:
    blocks: list
    section: str
    items: list

    def functions(self):
        return [i for i in self.items if i.kind == "function"]


@dataclasses.dataclass
class Header:
    name: str
    layer: str
    blocks: list = dataclasses.field(default_factory=list)
    groups: list = dataclasses.field(default_factory=list)


def lines_of(comment):
    """Returns the lines of a comment without `/*`, `*/` and the ` * ` before each line. Tabs behind these stay."""
    inner = comment[2:-2].strip("\n").removeprefix(" ")
    return [re.sub(r"^\s*\* ?", "", line).rstrip() for line in inner.splitlines()]


def plain(comment):
    return " ".join(" ".join(lines_of(comment)).split())


def blocks_of(lines):
    """Cuts a comment into ("p", text), ("errors", [(names, text)]), ("list", [text]) and ("code", text)."""
    blocks, i = [], 0
    while i < len(lines):
        if not lines[i].strip():
            i += 1
        elif lines[i].startswith("\t"):
            end = i
            while end < len(lines) and (lines[end].startswith("\t") or not lines[end]):
                end += 1
            blocks.append(indented([line.removeprefix("\t") for line in lines[i:end]]))
            i = end
        else:
            end = i
            while end < len(lines) and lines[end].strip() and not lines[end].startswith("\t"):
                end += 1
            blocks.append(("p", " ".join(" ".join(lines[i:end]).split())))
            i = end
    return blocks


def indented(lines):
    def entries(begins):
        parts = []
        for line in (x for x in lines if x):
            if begins(line):
                parts.append([line])
            else:
                parts[-1].append(line)
        return parts

    if lines[0].startswith("- "):
        return ("list", [" ".join(" ".join(e)[2:].split()) for e in entries(lambda x: x.startswith("- "))])
    if re.match(r"-E[A-Z]", lines[0]):
        parts = entries(lambda x: not x.startswith("\t"))
        return ("errors", [(e[0].split("\t")[0], " ".join(" ".join([e[0].partition("\t")[2]] + e[1:]).split())) for e in parts])
    return ("code", "\n".join(lines).strip("\n").expandtabs(8))


def prototype(text):
    text = COMMENT.sub("", text)
    return " ".join(ATTRIBUTE.sub("", LINKAGE.sub("", text)).split()).replace("( ", "(")


def parameters(text):
    """Returns [(type, name, rest)] for the parameters of a prototype: the name, and the text before and behind it."""
    inner, parts, depth = text[text.index("(") + 1:text.rindex(")")], [""], 0
    for c in inner:
        depth += (c == "(") - (c == ")")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    found = []
    for part in (p.strip() for p in parts):
        m = re.match(r"(.*\(\*)(\w+)(\).*)$", part) or re.match(r"(.*[ *])(\w+)((?:\[.*\])?)$", part)
        found.append(m.groups() if m else (part, "", ""))
    return found


def fields_of(body, separator):
    """Returns [(declaration, comment)]. The comment stands behind the declaration, or alone on the lines before it."""
    found, before, at = [], "", 0
    token = re.compile(r"\s*(/\*.*?\*/)|\s*([^/]*?)" + separator + r"[ \t]*(/\*.*?\*/)?", re.S)
    while m := token.match(body, at):
        at = m.end()
        if m[1]:
            before = plain(m[1])
        elif declaration := " ".join(m[2].split()):
            found.append((declaration, plain(m[3]) if m[3] else before))
            before = ""
    return found


def item_of(text):
    """Reads one declaration, which ends with `;` or the body of a function."""
    m = re.match(r"(struct|enum)\s*(\w*)\s*\{(.*)\}\s*;$", text, re.S)
    if m:
        body = m[3]
        if m[1] == "enum":  # the last value may have no comma
            body = re.sub(r"(\w)(\s*(?:/\*(?:(?!\*/).)*\*/\s*)?)$", r"\1,\2", body, flags=re.S)
        return Item(m[1], m[2], f"{m[1]} {m[2]}".strip(), fields_of(body, ";" if m[1] == "struct" else ","))
    if m := re.match(r"struct (\w+);$", text):
        return Item("opaque", m[1], f"struct {m[1]}")
    text = prototype(text.split("{")[0].strip().rstrip(";")) + ";"
    if m := re.match(r"typedef .*?(\w+)\(", text):
        return Item("callback", m[1], text)
    if m := re.match(r"[\w *]+?(\w+)\(", text):
        return Item("function", m[1], text)
    raise Bad(f"not understood: {text[:80]}")


def end_of(text, at):
    """The end of the declaration at @at."""
    depth = 0
    for m in re.compile(r"/\*.*?\*/|[{};]", re.S).finditer(text, at):
        depth += (m[0] == "{") - (m[0] == "}")
        if not depth and m[0] == ";":
            return m.end()
        if not depth and m[0] == "}" and ")" in COMMENT.sub("", text[at:text.index("{", at)]):
            return m.end()
    raise Bad(f"no end of: {text[at:at + 60]}")


TOKEN = re.compile(r'(?P<comment>/\*.*?\*/)|(?P<directive>#(?:[^\n\\]|\\\n|\\.|/\*.*?\*/)*)|(?P<skip>extern "C(?:\+\+)?" \{|\})|(?P<code>\S)', re.S)


def read(path, layer):
    """Reads a header."""
    header, text = Header(path.name, layer), path.read_text()
    comment, section, group, at = None, "", None, text.index("*/") + 2  # after the licence
    known, last = set(), 0
    while m := TOKEN.search(text, at):
        apart = "\n\n" in text[at:m.start()].replace("\t", "")
        if apart:
            group = None
            if comment:
                raise Bad(f"{path.name}: a comment belongs to no declaration: {comment[0]}")
        at = m.end()
        if m["comment"]:
            if group and "\n" not in text[last:m.start()]:
                if group.items[-1].kind != "opaque":
                    raise Bad(f"{path.name}: a comment stands behind a declaration: {plain(m[0])}")
                group.items[-1].note = plain(m[0])
                continue
            lines, group = lines_of(m[0]), None
            if title := SECTION.match(lines[0].strip()):
                section = title[1]
            elif not header.blocks:
                header.blocks = blocks_of(lines)
            else:
                comment = lines
            continue
        if m["skip"]:
            continue
        if m["directive"]:
            define = re.match(r"#define (\w+(?:\([^)]*\))?)\s+(.*)", m[0], re.S)
            if not define:
                if m[0].startswith("#pragma") or m[0].startswith("#if") or m[0].startswith("#e"):
                    group = group if not comment else None
                continue
            value = COMMENT.sub("", define[2]).replace("\\\n", " ")
            note = COMMENT.search(define[2])
            item = Item("macro", define[1], " ".join(value.split()), note=plain(note[0]) if note else "")
        else:
            at = last = end_of(text, m.start())
            item = item_of(text[m.start():at].strip())
        if item.kind == "function" and item.name in known:
            continue  # the same function for another compiler
        if item.kind == "function":
            known.add(item.name)
        if comment is not None or group is None:
            group = Group(blocks_of(comment or []), section, [])
            header.groups.append(group)
        item.blocks, comment = group.blocks, None
        group.items.append(item)
    return header


def folder_of(source, layer):
    return source / ("subprojects/softhca" if layer == "softhca" else layer)


def header_files(source, layer):
    """The public headers of a layer, without those with `_inline` in the name, which declare no further interfaces."""
    return [p for p in sorted((folder_of(source, layer) / "include").glob("*.h")) if "_inline" not in p.name]


def headers_of(source, layer):
    return [read(p, layer) for p in header_files(source, layer)]
