# SPDX-License-Identifier: MIT
"""Writes the site: the reference, the documents and the manuals, as plain HTML with a search that needs no server.

	site.py OUT DEPFILE SOURCE VERSION LAYER...

Documents are converted by cmark-gfm, manuals by mandoc. Files to which documents link become pages as well.
"""
import html
import json
import os
import pathlib
import posixpath
import re
import shutil
import subprocess
import sys

import pages
from headers import folder_of

HERE = pathlib.Path(__file__).parent
START = {"README.md": "Overview", "examples/README.md": "Examples", "bindings/python/README.md": "Python", "CHANGELOG.md": "Changes",
         "SECURITY.md": "Security", "CONTRIBUTING.md": "Contributing"}
GUIDES = ["architecture", "cluster", "many-cores", "gpu", "hw-check", "observability", "hangs", "developing", "assurance"]
REFERENCE = re.compile(r"\b([Ss]ee )([A-Z][\w() -]*?) in <span>(\w+\.h)\(3\)</span>")
EXAMPLE = re.compile(r"^From (\S+\.(?:c|md)),")
NAME = re.compile(r"\b[A-Za-z_]\w{2,}\b")


def run(*command):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, check=True).stdout


def slug(title):
    """The anchor of a heading, as on GitHub."""
    return re.sub(r"[^\w\- ]", "", html.unescape(re.sub(r"<[^>]*>", "", title)).lower()).strip().replace(" ", "-")


def inline(text):
    """A text of a header as HTML. with_links() turns the names in it into links."""
    out, at = "", 0
    for m in pages.SPAN.finditer(text):
        body = html.escape(m[m.lastgroup], quote=False)
        tag = {"argument": "var", "manual": "span"}.get(m.lastgroup, "code")
        out += html.escape(text[at:m.start()], quote=False) + f"<{tag}>{body}{'()' if m.lastgroup == 'function' else ''}</{tag}>"
        at = m.end()
    return out + html.escape(text[at:], quote=False)


def code(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", lambda m: f"<i>{m[0]}</i>", html.escape(text, quote=False), flags=re.S)


def declaration(text):
    return code("\n".join("".join(word for word, _ in line) for line in pages.declaration_lines(text, 90)))


class Site:
    def __init__(self, out, source, version, layers):
        self.out, self.source, self.version = out, source, version
        self.libraries = [pages.Library(source, layer) for layer in layers]
        for library in self.libraries:
            library.refuse()
        self.index, self.places, self.manuals = [], {}, {}
        self.files, self.queue = {}, []  # file of the source: page
        for path in sorted([*source.glob("*/man/*.[17]"), *source.glob("subprojects/*/man/*.[17]")]):
            self.manuals[path.name] = path
        for library in self.libraries:
            self.name_places(library)

    def name_places(self, library):
        """Records where each name is described."""
        for name, page in library.home.items():
            own = name in library.types and library.types[name].blocks is page.group.blocks and not library.types[name].fields
            self.places[name] = f"man3/{page.name}.html" + ("" if name in page.names or own else f"#{name}")
        for header in library.headers:
            macros = [i for g in header.groups for i in g.items if i.kind == "macro" and not pages.HIDDEN.search(i.name)]
            self.places.update((i.name.split("(")[0], f"man3/{header.name}.html#{i.name.split('(')[0]}") for i in macros if "_PROBE" not in i.name)

    def of_file(self, name):
        """Returns the page of a source file, or None if it can have none. Queues the page if it is new."""
        path = self.source / name
        if path.is_dir():
            return self.of_file(posixpath.join(name, "README.md")) if (path / "README.md").exists() else None
        if path.name in self.manuals and path.parent.name == "man":
            return f"man/{path.name}.html"
        if path.suffix == ".h" and any(h.name == path.name for lib in self.libraries for h in lib.headers) and path.parent.name == "include":
            return f"man3/{path.name}.html"
        if name not in self.files and path.is_file():
            self.files[name] = "index.html" if name == "README.md" else re.sub(r"\.md$", "", name) + ".html"
            self.queue.append(name)
        return self.files.get(name)

    def of_manual(self, name, section):
        if section == "3":
            return f"man3/{name}.html" if name.endswith(".h") else self.places.get(name)
        return f"man/{name}.{section}.html" if f"{name}.{section}" in self.manuals else None

    def with_links(self, text, page):
        """Turns names and manuals in HTML into links, except those inside links and headings."""
        text = REFERENCE.sub(lambda m: f'{m[1]}<a href="man3/{m[3]}.html#{slug(m[2])}">{m[2]}</a> in {m[3]}', text)
        text = re.sub(r"(<b>|<span>)?([\w.-]+?)(</b>|</span>)?\(([1-8])\)", lambda m: self.manual_link(m), text)
        out, inside = [], 0
        for part in re.split(r"(<[^>]+>)", text):
            if tag := re.match(r"<(/?)(a|h1|h2|h3|dt)\b", part):
                inside += -1 if tag[1] else 1
            elif not part.startswith("<") and not inside:
                part = NAME.sub(lambda m: self.link(m[0], page), part)
            out.append(part)
        root = "../" * page.count("/")
        return re.sub(r'(href=")((?:man3?/)[^"]*)', lambda m: m[1] + root + m[2], "".join(out))

    def manual_link(self, m):
        place = self.of_manual(m[2], m[4])
        return f'<a href="{place}">{m[2]}({m[4]})</a>' if place else m[0]

    def example_link(self, m):
        return f'From <a href="man3/../{self.of_file(m[1])}">{m[1]}</a>,'

    def link(self, name, page):
        place = self.places.get(name)
        return f'<a href="{place}">{name}</a>' if place and place != page else name

    def body(self, nodes):
        """Nodes as HTML."""
        out = []
        for node in nodes:
            kind, body = node[0], node[1]
            if kind == "section":
                out.append(f'<h2 id="{slug(body)}">{body.capitalize()}</h2>')
            elif kind == "sub":
                anchor = body.split(" ")[-1] if body.startswith(("struct ", "enum ")) or "_" in body else slug(body)
                out.append(f'<h3 id="{anchor}">{inline(body)}</h3>')
            elif kind == "p":
                out.append(f"<p>{EXAMPLE.sub(self.example_link, inline(body))}</p>")
            elif kind == "code":
                out.append(f"<pre>{code(body)}</pre>")
            elif kind == "list":
                out.append("<ul>" + "".join(f"<li>{inline(t)}</li>" for t in body) + "</ul>")
            elif kind == "synopsis":
                out.append("<pre class=synopsis>" + "\n\n".join([f"#include &lt;{body}&gt;"] + [declaration(d) for d in node[2]]) + "</pre>")
            elif kind == "defs":
                out.append("<dl>" + "".join(self.definition(*d) for d in body) + "</dl>")
            elif kind == "see":
                out.append("<p>" + ", ".join(f"<span>{n}({s})</span>" for n, s in body) + "</p>")
        return "\n".join(out)

    def definition(self, term, text):
        name = re.match(r"[A-Z]\w+", term)
        shown = ", ".join(self.link(n[:-2], "") + "()" for n in term.split(", ")) if term.endswith("()") else html.escape(term, quote=False)
        return f"<dt{f' id={name[0]}' if name else ''}><code>{shown}</code></dt><dd>{inline(text)}</dd>"

    def nav(self, page, library):
        """The links beside each page."""
        def entry(place, text):
            return f'<li><a{" class=here" if place == page else ""} href="{place}">{text}</a></li>'

        parts = [("Start", [(self.of_file(f), title) for f, title in START.items()]),
                 ("Guides", [(self.of_file(f"docs/{g}.md"), self.title(self.source / f"docs/{g}.md")) for g in GUIDES])]
        out = "".join(f"<h2>{t}</h2><ul>{''.join(entry(*e) for e in es)}</ul>" for t, es in parts) + "<h2>Libraries</h2><ul>"
        for lib in self.libraries:
            own = [(f"man/{lib.layer}.7.html", "overview")] + [(f"man3/{h.name}.html", h.name) for h in lib.headers]
            own.append((self.of_file(str(folder_of(pathlib.Path(), lib.layer) / "README.md")), "README"))
            if lib is library:
                own += [(f"man3/{p.name}.html", f"<code>{p.name}()</code>") for p in lib.pages]
            out += f"<li><a>{lib.layer}</a><ul>{''.join(entry(*e) for e in own)}</ul></li>" if lib is library else \
                f'<li><a href="{own[1][0]}">{lib.layer}</a></li>'
        programs = [(f"man/{n}.html", n[:-2]) for n in self.manuals if n.endswith(".1")]
        return out + "</ul><h2>Programs</h2><ul>" + "".join(entry(*e) for e in sorted(programs)) + "</ul>"

    def title(self, path):
        return re.search(r"^# (.*)", path.read_text(), re.M)[1].replace("`", "")

    def write(self, page, title, body, library=None, above=""):
        root = "../" * page.count("/")
        nav = re.sub(r'href="', f'href="{root}', self.nav(page, library))
        text = f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>{html.escape(title)}</title>
<link rel="stylesheet" href="{root}style.css"><script defer src="{root}index.js"></script><script defer src="{root}search.js"></script></head>
<body data-root="{root}"><input type="checkbox" id="menu"><header><label for="menu" title="Contents">&#9776;</label>
<a href="{root}index.html">mlx5-rpc-workspace</a> <small>{self.version}</small>
<input type="search" id="search" placeholder="Search ( / )" aria-label="Search" autocomplete="off"><ol id="found"></ol></header>
<nav>{nav}</nav><main>{above}
{body}</main></body></html>
"""
        (self.out / page).parent.mkdir(parents=True, exist_ok=True)
        (self.out / page).write_text(text)

    def write_library(self, library, examples):
        for header in library.headers:
            page, title = f"man3/{header.name}.html", pages.title_of(header)[0]
            body = self.with_links(self.body(pages.header_nodes(header, library)), page)
            self.write(page, header.name, f"<h1>{header.name}</h1>{body}", library, f"<p class=above>{library.layer}</p>")
            self.index.append([header.name, page, "header", title])
        for p in library.pages:
            page, title = f"man3/{p.name}.html", pages.summary(p)
            body = self.with_links(self.body(pages.nodes_of(p, examples)), page)
            above = f'<p class=above>{library.layer} &rsaquo; <a href="{p.header.name}.html">{p.header.name}</a></p>'
            self.write(page, p.name, f"<h1>{'(), '.join(p.names)}()</h1>\n{body}", library, above)
            self.index += [[n, self.places[n], "function" if n in p.names else "type", title]
                           for n in p.names + [t.name for t in p.types if t.name and t.name not in p.names]]

    def write_manual(self, path):
        page, name = f"man/{path.name}.html", path.name.replace(".", "(") + ")"
        body = run("mandoc", "-T", "html", "-O", "fragment", path)
        body = re.sub(r"<(/?)h([12])", lambda m: f"<{m[1]}h{int(m[2]) + 1}", body)
        body = re.sub(r'<table class="(?:head|foot)">.*?</table>', "", body, flags=re.S)
        library = next((lib for lib in self.libraries if f"{lib.layer}.7" == path.name), None)
        self.write(page, name, f"<h1>{name}</h1>" + self.with_links(body, page), library)
        about = re.search(r"^\.SH NAME\n.*?\\- (.*)", path.read_text(), re.M)[1]
        self.index.append([path.name[:-2], page, "manual" if path.name.endswith("7") else "program", about.replace("\\", "")])

    def write_file(self, name):
        """Writes the page of a document, or of another file as plain text."""
        page, path = self.files[name], self.source / name
        if path.suffix != ".md":
            self.write(page, name, f"<h1>{name}</h1><pre>{self.with_links(code(path.read_text().expandtabs(8)), page)}</pre>")
            return
        title, root = self.title(path), "../" * page.count("/")
        body = run("cmark-gfm", "-e", "table", path)
        body = re.sub(r"<h([1-4])>(.*?)</h\1>", lambda m: f'<h{m[1]} id="{slug(m[2])}">{m[2]}</h{m[1]}>', body)
        body = re.sub(r'<a href="([^":]*?)(#[^"]*)?">(.*?)</a>', lambda m: self.relative(name, root, *m.groups()), body, flags=re.S)
        library = next((lib for lib in self.libraries if lib.layer in pathlib.PurePath(name).parts[:2]), None)
        self.write(page, title, self.with_links(body, page), library)
        self.index.append([title, page, "document", name])
        self.index += [[html.unescape(re.sub(r"<[^>]*>", "", t)), f"{page}#{a}", "section", title] for a, t in re.findall(r'<h[2-4] id="(.*?)">(.*?)</h', body)]

    def relative(self, document, root, target, anchor, text):
        place = self.of_file(posixpath.normpath(posixpath.join(posixpath.dirname(document), target))) if target else ""
        return text if place is None else f'<a href="{root + place if place else ""}{anchor or ""}">{text}</a>'

    def write_all(self):
        examples = pages.examples_of(self.source)
        for name in [*START, *(f"docs/{g}.md" for g in GUIDES)]:
            self.of_file(name)
        for library in self.libraries:
            self.write_library(library, examples)
        for path in self.manuals.values():
            self.write_manual(path)
        while self.queue:
            self.write_file(self.queue.pop(0))
        self.index += [[n, p, "constant", ""] for n, p in self.places.items() if n.isupper()]
        (self.out / "index.js").write_text("const INDEX = " + json.dumps(self.index, separators=(",", ":")) + ";\n")
        for name in ("style.css", "search.js"):
            shutil.copyfile(HERE / name, self.out / name)
        for library in self.libraries:
            library.refuse()


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1])
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    os.environ["LC_ALL"] = "C.UTF-8"
    site = Site(target, pathlib.Path(sys.argv[3]), sys.argv[4], sys.argv[5:])
    site.write_all()
    pages.write_dependencies(sys.argv[2], sys.argv[1], site.source, sys.argv[5:], [*site.manuals.values(), *(site.source / f for f in site.files)])
