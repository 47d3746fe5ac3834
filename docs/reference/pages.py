# SPDX-License-Identifier: MIT
"""Makes a page for each group of functions, and for each header, that headers.py has read. A page is a list of nodes:

	("section", title)  ("sub", title)  ("p", text)  ("code", text)  ("list", [text])
	("defs", [(term, text)])  ("synopsis", header, [declaration])  ("see", [(name, section)])
"""
import pathlib
import re

from headers import Bad, header_files, headers_of, parameters

# Matches a name in a text. The name of the regular expression's group that matched is the kind of the name.
SPAN = re.compile(r"`(?P<code>[^`]+)`|@(?P<argument>\w+)|(?P<function>\b[a-z_]\w+)\(\)|(?P<manual>\b[a-z_][\w.-]*\([1-8]\))"
                  r"|\b(?P<type>(?:struct|enum) [a-z]\w+)|\b(?P<constant>[A-Z][A-Z0-9]*_[A-Z0-9_]*[A-Z0-9])\b|(?P<errno>-E[A-Z0-9]{3,})\b")
ERRNOS = r"-E[A-Z0-9]+(?:(?:, | or |, or | and )-E[A-Z0-9]+)*(?:, \.\.\.)?"
MARK = re.compile(rf"(?:^|(?<=[.;] )|(?<=Both: ))({ERRNOS}): ")
AFTER = re.compile(r"(Otherwise|After|Another|Both|In both|In all|Then) ")  # begins a sentence about several errors
HIDDEN = re.compile(r"_(INLINE|UNLIKELY|H)$")


def sentences(text):
    return re.split(r"(?<=\.)(?<!e\.g\.)(?<!\.\.) +(?=[A-Za-z@*`-])", text)


def named(text, *kinds):
    """The names of these kinds in a text."""
    return [m[m.lastgroup] for m in SPAN.finditer(text) if m.lastgroup in kinds]


def texts_of(blocks):
    for kind, body in blocks:
        if kind in ("p", "code"):
            yield body
        else:
            yield from (" ".join(e) if isinstance(e, tuple) else e for e in body)


class Page:
    def __init__(self, library, header, group):
        self.owner, self.header, self.group = library, header, group
        self.functions = group.functions()
        self.names = [f.name for f in self.functions]
        self.types = [i for i in group.items if i.kind not in ("function", "macro")]

    @property
    def name(self):
        return self.names[0]


class Library:
    """The pages of a layer, and for each name the page that describes it."""

    def __init__(self, source, layer):
        self.layer, self.bad = layer, []
        self.headers = headers_of(source, layer)
        self.pages, self.home, self.types = [], {}, {}
        for header in self.headers:
            for group in header.groups:
                if group.functions():
                    self.pages.append(Page(self, header, group))
                    if not group.blocks:
                        self.bad.append(f"{header.name}: {self.pages[-1].name}() has no comment")
                for item in group.items:
                    if item.kind in ("struct", "enum", "callback"):
                        self.types[item.name or id(item)] = item
        for page in self.pages:
            self.home.update((name, page) for name in page.names)
            self.home.update((t.name, page) for t in page.types)
            page.types += [self.types[n] for n in page.names if n in self.types]
        for uses in (self.declared, self.described, self.mentioned):
            for page in self.pages:
                for item in page.functions + page.types:
                    self.take(page, item, uses)
        self.take_neighbours()
        for page in self.pages:
            for value, _ in (f for t in page.types if t.kind == "enum" for f in t.fields):
                self.home[value.split(" ")[0]] = page

    def refuse(self):
        """Ends the program if a comment is missing or incomplete."""
        if self.bad:
            raise Bad("\n".join(self.bad))

    def known(self, text):
        return [n for n in re.findall(r"\w+", text) if n in self.types]

    def declared(self, item):
        """Returns the types that an item's declarations name; described() and mentioned() use its comments."""
        return self.known(" ".join([item.text] + [f for f, _ in item.fields]))

    def described(self, item):
        named = re.findall(r"(?:struct|enum) (\w+)", " ".join(texts_of(item.blocks)))
        return self.known(" ".join([note for _, note in item.fields] + named))

    def mentioned(self, item):
        return self.known(" ".join(texts_of(item.blocks)))

    def take(self, page, item, uses):
        """Describes the types that an item uses, directly or through other types, on the item's page."""
        for name in uses(item):
            if name not in self.home:
                self.home[name] = page
                page.types.append(self.types[name])
                self.take(page, self.types[name], uses)

    def take_neighbours(self):
        """Puts each type that has no page yet on the page of the next function in the header."""
        for header in self.headers:
            waiting = []
            for group in header.groups:
                waiting += [i for i in group.items if i.kind in ("struct", "enum") and (not i.name or i.name not in self.home)]
                page = self.home.get(group.functions()[0].name) if group.functions() else None
                if page and waiting:
                    page.types += waiting
                    self.home.update((i.name, page) for i in waiting if i.name)
                    waiting = []
            self.bad += [f"{header.name}: nothing uses {i.text}" for i in waiting]

    def headings(self):
        """Returns {title: name of the header} for the titles in the opening comments."""
        return {title: h.name for h in self.headers for kind, title in opening(h) if kind == "sub"}

    def placed(self, nodes):
        """Adds the header's name to each `see TITLE`, because a comment in the header names only the title."""
        titles = self.headings()
        see = re.compile(rf"\b([Ss]ee ({'|'.join(map(re.escape, titles))}))\b(?! in | and )")

        def place(body):
            if isinstance(body, str):
                return see.sub(lambda m: f"{m[1]} in {titles[m[2]]}(3)", body)
            return [place(x) for x in body] if isinstance(body, list) else tuple(place(x) for x in body)

        return [(n[0], place(n[1])) if n[0] in ("p", "defs", "list") and titles else n for n in nodes]


def parts(page):
    """Divides the comment of a page into description, return values and errors."""
    description, returned, errors = [], [], []
    blocks = page.group.blocks
    for at, (kind, body) in enumerate(blocks):
        if kind == "errors":
            errors.append(("defs", body))
            continue
        if kind != "p":
            description.append((kind, body))
            continue
        marks = list(MARK.finditer(body.removeprefix("hot. ")))
        body = body.removeprefix("hot. ")
        keep, after = [], False  # after: the previous sentence is about a return value
        leads = at + 1 < len(blocks) and blocks[at + 1][0] == "errors"  # the last sentence introduces the errors
        said = sentences(body[:marks[0].start()] if marks else body)
        for n, s in enumerate(said):
            last = leads and n + 1 == len(said)
            about, after = after, False
            if re.match(rf"(?:(?:{'|'.join(page.names)})\(\) r|R)eturns? ", s) or (about and s.startswith("Otherwise ")):
                after = True
                s = re.sub(r";? *$", lambda m: "." if ";" in m[0] else "", s)
                returned.append(re.sub(r"([,;]?) (or,?[^.]*?,|or)$", lambda m: f"{m[1]} {m[2]} one of the errors below.", s) if last else s)
            elif s.startswith("Errors") or last or (marks and s.rstrip().endswith(":")):
                errors += [] if s == "Errors:" else [("p", s)]
            elif s.strip():
                keep.append(s)
        if marks and len(page.names) > 1 and (m := re.match(r"(\w+)\(\) ", body)):
            errors.append(("p", f"{m[1]}():"))
        if keep:
            description.append(("p", " ".join(keep)))
        for m, end in zip(marks, [n.start() for n in marks[1:]] + [len(body)]):
            errors += entry(m[1], sentences(body[m.end():end].rstrip(" ;")))
    return description, joined(returned), errors


def entry(names, said):
    """Returns the nodes of an error and of what follows its text: errors without a text, sentences about all errors."""
    after = next((i for i, s in enumerate(said) if i and (AFTER.match(s) or s.startswith("-E"))), len(said))
    text = " ".join(said[:after])
    nodes = [("defs", [(names, text.rstrip(".") if after == 1 else text)])]
    for s in said[after:]:
        if m := re.match(rf"({ERRNOS})(?:,? or (an error.*?))?\.?$", s):
            nodes += [("defs", [(m[1], "")])] + ([("p", f"Otherwise {m[2]}.")] if m[2] else [])
        elif nodes[-1][0] == "p":
            nodes[-1] = ("p", f"{nodes[-1][1]} {s}")
        else:
            nodes.append(("p", s))
    return nodes


def joined(said):
    return [("p", " ".join(said))] if said else []


def merged(nodes):
    """Joins neighbouring lists of definitions."""
    out = []
    for node in nodes:
        if out and out[-1][0] == node[0] == "defs":
            out[-1] = ("defs", out[-1][1] + node[1])
        else:
            out.append(node)
    return out


def declaration_lines(text, width):
    """Breaks a prototype into lines, each a list of (text, True if the text is the name of a parameter)."""
    head, found = text[:text.index("(") + 1], parameters(text)
    lines, room = [[(head, False)]], width - len(head)
    for n, (before, name, behind) in enumerate(found):
        behind += ", " if n + 1 < len(found) else ");"
        if len(before + name + behind) > room:
            lines.append([(" " * 8, False)])
            room = width - 8
        room -= len(before + name + behind)
        lines[-1] += [(before, False), (name, True), (behind, False)]
    return lines


def summary(page):
    """The beginning of the first sentence."""
    if not page.group.blocks or page.group.blocks[0][0] != "p":
        return ""
    text = sentences(page.group.blocks[0][1].removeprefix("hot. "))[0]
    text = re.split(r"\.$|[:;](?: |$)| \(|, (?:which|and|at most) ", text)[0].replace("@", "").replace("`", "")
    return text[0].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


def type_nodes(item):
    nodes = [("sub", (item.text if item.name else "Constants") if item.kind != "callback" else item.name)]
    nodes += [(kind if kind != "errors" else "defs", body) for kind, body in item.blocks] if item.blocks else []
    if item.kind == "struct" and item.fields and not any(note for _, note in item.fields):
        nodes.append(("code", "\n".join(f"{d};" for d, _ in item.fields)))
    elif item.fields:
        nodes.append(("defs", item.fields))
    return nodes


def synopsis(header, library, items):
    return [("section", "SYNOPSIS"), ("synopsis", header.name, [i.text for i in items]),
            ("p", f"Compile and link with `pkg-config --cflags --libs {library.layer}`.")]


def nodes_of(page, examples):
    """Returns the nodes of a page of functions. Adds mistakes in the header's comments to library.bad."""
    library = page.owner
    callbacks = [t for t in page.types if t.kind == "callback"]
    description, returned, errors = parts(page)
    first = page.functions[0].text
    values = [f.name for f in page.functions if not f.text.startswith("void ")]
    if values and not returned and not errors:
        library.bad.append(f"{page.header.name}: the comment of {first} says nothing of the values that it returns")
    if values and not returned:
        returned = [("p", "Returns 0, or one of the errors below as a negative number.")]
    nodes = synopsis(page.header, library, callbacks + page.functions)
    for title, body in (("DESCRIPTION", description), ("RETURN VALUE", returned), ("ERRORS", merged(errors))):
        nodes += [("section", title)] + body if body else []
    own = page.group.blocks
    types = [t for t in page.types if t.fields or (t.kind == "callback" and t.blocks is not own)]
    nodes += [("section", "TYPES")] if types else []
    for t in types:
        nodes += [n for n in type_nodes(t) if t.blocks is not own or n not in own]
    if found := examples.best(page.names):
        nodes += [("section", "EXAMPLES"), ("p", f"From {found[0]}, which the tests build and run:"), ("code", found[1])]
    text = " ".join(texts_of(page.group.blocks))
    names = [library.home[n].name for n in named(text, "function") if n in library.home]
    names += [library.home[n].name for f in page.functions + callbacks for n in library.declared(f)]
    see = {(n, "3") for n in names if n != page.name} | {tuple(m[:-1].split("(")) for m in named(text, "manual")}
    return library.placed(nodes) + [("section", "SEE ALSO"), ("see", sorted(see) + [(page.header.name, "3"), (library.layer, "7")])]


def opening(header):
    """The nodes of the opening comment without its first paragraph. A paragraph that begins with a title and a colon, or
    with one word and a full stop, is a subsection."""
    nodes = []
    for kind, body in header.blocks[1:] if header.blocks[0][0] == "p" else header.blocks:
        m = re.match(r"([A-Z][\w-]+(?: [a-z]+){0,2}|fork\(\)): (?=\S)|([A-Z][a-z]+)\. (?=[A-Z])", body) if kind == "p" else None
        if m:
            nodes.append(("sub", m[1] or m[2]))
            body = body[m.end()].upper() + body[m.end() + 1:]
        nodes.append((kind if kind != "errors" else "defs", body))
    return nodes


def title_of(header):
    """Returns the title of a header (the first sentence of its opening comment), and the rest of that paragraph."""
    text = header.blocks[0][1]
    head, _, rest = re.sub(r"^\S+(?: -|:) ", "", text).partition(". ")
    return head.rstrip("."), rest


def header_nodes(header, library):
    """The nodes of the page of a header: its opening comment, an index, constants."""
    title, rest = title_of(header)
    nodes = synopsis(header, library, []) + [("section", "DESCRIPTION"), ("p", title[0].upper() + title[1:] + ".")]
    nodes += ([("p", rest)] if rest else []) + opening(header) + [("section", "FUNCTIONS")]
    section = None
    for page in (p for p in library.pages if p.header is header):
        if page.group.section != section:
            section = page.group.section
            nodes += [("sub", section[0].upper() + section[1:])] if section else []
        nodes.append(("defs", [(", ".join(f"{n}()" for n in page.names), summary(page)[0].upper() + summary(page)[1:] + ".")]))
    constants = []
    for group in header.groups:
        macros = [i for i in group.items if i.kind == "macro" and not HIDDEN.search(i.name) and "_PROBE" not in i.name]
        constants += [(kind, body) for kind, body in group.blocks if macros and kind != "errors"]
        constants += [("defs", [(f"{i.name} = {i.text}" if "(" not in i.name else i.name, i.note) for i in macros])] if macros else []
    nodes += [("section", "CONSTANTS")] + merged(constants) if constants else []
    others = [(h.name, "3") for h in library.headers if h is not header]
    return merged(nodes) + [("section", "SEE ALSO"), ("see", others + [(library.layer, "7")])]


class Examples:
    """Functions of the example programs, to show where a page's functions are called."""

    LINES = 32

    def __init__(self, files):
        self.functions = []
        for name, text in files:
            for m in re.finditer(r"^(?:static |int |void )[^;{}]*\)\n\{\n.*?^\}$", text, re.M | re.S):
                self.functions.append((name, m[0].expandtabs(8)))

    def best(self, names):
        """The shortest function that calls most of the names, or None. Only a part of a long function is shown."""
        rated = []
        for file, text in self.functions:
            calls = [m.start() for n in names for m in re.finditer(rf"\b{n}\(", text)]
            if calls:
                rated.append((-len({n for n in names if re.search(rf"\b{n}\(", text)}), text.count("\n"), file, text, calls[0]))
        if not rated:
            return None
        _, lines, file, text, call = min(rated)
        if lines > self.LINES:
            at = text.count("\n", 0, call)
            all_lines = text.splitlines()
            begin = max(at - self.LINES // 2, 0)
            chosen = all_lines[begin:begin + self.LINES]
            text = "\n".join((["..."] if begin else []) + chosen + (["..."] if begin + self.LINES < len(all_lines) else []))
        return file, text


def example_files(source):
    patterns = ["examples/*.c", "*/examples/*.c", "README.md", "*/README.md", "subprojects/*/README.md"]
    return [p for pattern in patterns for p in sorted(source.glob(pattern))]


def examples_of(source):
    """The example programs, and those in README files."""
    files = []
    for p in example_files(source):
        if p.suffix == ".c":
            files.append((str(p.relative_to(source)), p.read_text()))
        files += [(str(p.relative_to(source)), m[1]) for m in re.finditer(r"^```c\n(.*?)^```", p.read_text(), re.M | re.S) if "int main(" in m[1]]
    return Examples(files)


def write_dependencies(depfile, target, source, layers, more=()):
    """Writes a list, for ninja, of the files from which @target is made."""
    own = sorted(pathlib.Path(__file__).parent.glob("*.*"))
    read = [p for layer in layers for p in header_files(source, layer)] + example_files(source) + own + list(more)
    pathlib.Path(depfile).write_text(f"{target}: {' '.join(sorted({str(p) for p in read}))}\n")
