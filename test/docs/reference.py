# SPDX-License-Identifier: MIT
"""The reference is complete: each function that a library exports has a page, and no link is dead.

	reference.py man SOURCE BUILD LAYER...    the pages of section 3, and what the generator refuses
	reference.py site SOURCE BUILD LAYER...   the same as HTML, with the documents and the search index
"""
import json
import pathlib
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile

source, build = (pathlib.Path(a).resolve() for a in sys.argv[2:4])
sys.path.insert(0, str(source / "test/layers"))
from layers import LAYERS, exported, fail

HEADER = """/* SPDX-License-Identifier: MIT */
/*
 * demo: shows a header. It has no other use.
 *
 * Threads: any.
 */
#ifndef DEMO_H
#define DEMO_H

struct demo;

/* Bits of flags. */
enum demo_flags {
	DEMO_FAST = 1, /* less exact */
	DEMO_SAFE = 2 /* exact */
};

struct demo_attr {
	unsigned flags; /* enum demo_flags */
	/* Seconds. */
	int limit;
};

/*
 * Opens a demo: see Threads. The caller owns *d_p. Returns 0, or
 *	-ENODEV, -EIO	the device is gone:
 *			get another
 *	-ENOMEM
 */
int demo_open(const struct demo_attr *attr, struct demo **d_p);

/* Return the width, and the height. */
int demo_width(const struct demo *d);
int demo_height(const struct demo *d);

/*
 * Moves a demo by @n.
 *
 *	...
 *
 * -EAGAIN: busy; call again. -EPERM: not yours. Otherwise an error of demo_open().
 */
int demo_move(struct demo *d, int n);

/* hot. Calls a function for each part. */
typedef void demo_fn(void *arg);
static inline void demo_each(struct demo *d, demo_fn *fn, void *arg)
{
	fn(arg);
}

#endif
"""
# The parts that the page of each name must have. ABSENT: the parts that it must not have.
EXPECTED = {
    "demo_open": ["demo_open \\- opens a demo", "see Threads in", ".TP\n.B \\-ENODEV, \\-EIO\nthe device is gone:\nget another\n",
                  ".SH RETURN VALUE\nReturns 0, or one of the errors below.\n", ".SS struct demo_attr", ".B unsigned flags", ".B int limit\nSeconds.",
                  ".SS enum demo_flags", ".B DEMO_SAFE = 2\nexact", "From demo/examples/demo.c", "demo_open(NULL", ".BR demo.h (3)"],
    "demo_width": ["demo_width, demo_height \\- return the width", "int demo_height("],
    "demo_height": [".so man3/demo_width.3"],
    "demo_attr": [".so man3/demo_open.3"],
    "demo_move": ["Returns 0, or one of the errors below", ".B \\-EAGAIN\nbusy;\ncall again", ".B \\-EPERM\nnot yours\n", "Otherwise an error of",
                  ".BR demo_open (3)", "by \\fIn\\fP.", "\n\\&...\n"],
    "demo_each": ["typedef void demo_fn(void *", "\\- calls a function for each part"],
    "demo.h": ["demo.h \\- shows a header", ".SS Threads\nAny.", ".B demo_move()\nMoves a demo by n."],
}
ABSENT = {"demo_each": ["hot", "static", "fn(arg)"], "demo_open": [".SS struct demo\n"], "demo_move": ["SYNOPSIS\n.SH"]}
# A change of the header that the generator refuses, and its message.
REFUSED = [
    ("/* Return the width, and the height. */\n", "", "demo_width() has no comment"),
    ("/* Return the width, and", "/* The width, and", "demo_width(const struct demo *d); says nothing of the values"),
    ("struct demo;\n", "/* Of nothing. */\n\nstruct demo;\n", "belongs to no declaration: Of nothing."),
    ("demo_open(const struct demo_attr *attr, struct demo **d_p);", "demo_open(const struct demo_attr *attr, struct demo **d_p); /* why */",
     "stands behind a declaration: why"),
    ("struct demo;\n", "struct demo;\n\nunion demo_any *pointer;\n", "not understood: union demo_any"),
    ("#endif\n", "\nenum demo_last {\n\tDEMO_LAST,\n};\n\n#endif\n", "nothing uses enum demo_last"),
]
errors = []


def generate(program, out, tree, layers):
    """Runs a generator. Returns its message, which is "" on success."""
    r = subprocess.run([sys.executable, "-B", source / f"docs/reference/{program}.py", out, f"{out}.d", tree, "1.2.3", *layers],
                       capture_output=True, text=True)
    return r.stderr.strip() if r.returncode else ""


def expect(ok, text):
    if not ok:
        errors.append(text)


def check_generator(tmp):
    for path, text in (("include/demo.h", HEADER), ("man/demo.7", '.TH DEMO 7 2026-01-02 "demo"\n'), ("README.md", "# demo\n"),
                       ("examples/demo.c", "int main(void)\n{\n\treturn demo_open(NULL, &d);\n}\n")):
        (tmp / "demo" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp / "demo" / path).write_text(text)
    said = generate("man", tmp / "out", tmp, ["demo"])
    if said:
        fail([f"demo.h is refused: {said}"])
    for name, parts in EXPECTED.items():
        page = (tmp / f"out/{name}.3").read_text()
        errors.extend(f"the page of {name} lacks {part!r}:\n{page}" for part in parts if part not in page)
        errors.extend(f"the page of {name} has {part!r}:\n{page}" for part in ABSENT.get(name, []) if part in page)
    expect("demo.h" in pathlib.Path(f"{tmp}/out.d").read_text(), "the pages do not depend on the header")
    for old, new, why in REFUSED:
        assert HEADER.count(old) == 1, old
        (tmp / "demo/include/demo.h").write_text(HEADER.replace(old, new))
        said = generate("man", tmp / "out", tmp, ["demo"])
        expect(why in said, f"instead of {why!r} the generator says {said!r}")
        expect(not (tmp / "out").exists(), f"{why!r}: pages remain")


def functions_of(layer):
    """The public functions of a layer, found without the generator."""
    folder = source / ("subprojects/softhca" if layer == "softhca" else layer)
    inline = "".join(p.read_text() for p in (folder / "include").glob("*_inline.h"))
    headers = "".join(p.read_text() for p in (folder / "include").glob("*.h") if "_inline" not in p.name)
    if layer not in LAYERS:  # no library, or one whose other symbols are libc's
        return set(re.findall(rf"^[\w \t*]*?\b({layer}_\w+)\([^;{{}}]*?\)(?:;|\n\{{)", headers, re.M))
    names = {n for n in exported(build / layer / f"lib{layer}.so") if n.startswith(LAYERS[layer][0])}
    return {n for n in names if re.search(rf"\b{n}\b", headers) or not re.search(rf"\b{n}\b", inline)}


def check_pages(layers):
    pages = {p.name[:-2]: p.read_text() for p in (build / "docs/man3").glob("*.3")}
    count = 0
    for name in (n for layer in layers for n in functions_of(layer)):
        text = pages.get(name, "")
        text = pages.get(text[len(".so man3/"):-3], "") if text.startswith(".so ") else text
        count += 1
        expect(re.search(rf"^\.SH NAME\n.*?\b{name}\b.* \\- \S", text, re.M), f"{name}() has no page, or no summary")
        expect(f"{name}(" in text.split(".SH NAME")[-1], f"the page of {name}() has no declaration")
    for name, text in pages.items():
        for link in re.findall(r"^\.so man3/(\S+)\.3$|^\.BR (\S+) \(3\)", text, re.M):
            target = "".join(link).replace("\\-", "-")
            ours = target.startswith(tuple(page.split("_")[0] + "_" for page in pages))
            expect(target in pages or not ours, f"{name}(3): there is no {target}(3)")
    if shutil.which("mandoc"):
        files = [build / f"docs/man3/{n}.3" for n, text in pages.items() if not text.startswith(".so ")]
        errors.extend(subprocess.run(["mandoc", "-T", "lint", "-W", "warning", *files], capture_output=True, text=True).stdout.splitlines())
    print(f"{count} functions, {len(pages)} pages")
    expect(count > 100 or len(layers) < 5, "too few functions")


def check_links(site):
    texts = {str(p.relative_to(site)): p.read_text() for p in site.rglob("*.html")}
    anchors = {name: set(re.findall(r'\bid="?([^" >]+)', text)) for name, text in texts.items()}
    index = json.loads((site / "index.js").read_text().removeprefix("const INDEX = ").rstrip(";\n"))
    links = {(page, href) for page, text in texts.items() for href in re.findall(r'href="([^"]*)"', text)}
    links |= {("index.html", place) for _, place, _, _ in index}
    for page, href in sorted(links):
        if re.match(r"https?:", href):
            continue
        path, _, anchor = href.partition("#")
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
        expect((site / target).is_file(), f"{page}: {href} leads nowhere")
        expect(not anchor or target not in texts or anchor in anchors[target], f"{page}: {href}: there is no such place")
    print(f"{len(texts)} pages, {len(links)} links, {len(index)} entries of the index")
    return texts, {(name, kind): place for name, place, kind, _ in index}


def check_site(tmp, layers):
    said = generate("site", tmp / "site", source, layers)
    if said:
        fail([said])
    texts, index = check_links(tmp / "site")
    for name in (n for layer in layers for n in functions_of(layer)):
        place = index.get((name, "function"), "")
        expect(f"{name}(" in texts.get(place, ""), f"the search does not lead to {name}(): {place!r}")
    for name, kind, part in (("copyrpc_ctx_attr", "type", "srq_depth"), ("COPYRPC_INFO_SIZE", "constant", "connection blob"),
                             ("Architecture", "document", "Glossary"), ("benchkv", "program", "queue-depth")):
        place = index.get((name, kind), "").split("#")[0]
        expect(part in texts.get(place, ""), f"the search does not lead to the {kind} {name}: {place!r}")
    for document in [*source.glob("docs/*.md"), *source.glob("*/README.md")]:
        expect(str(document.relative_to(source))[:-3] + ".html" in texts, f"{document.name} of {document.parent.name} has no page")
    for manual in [*source.glob("*/man/*.[17]"), *source.glob("subprojects/*/man/*.[17]")]:
        expect(f"man/{manual.name}.html" in texts, f"{manual.name} has no page")


with tempfile.TemporaryDirectory() as directory:
    if sys.argv[1] == "man":
        check_generator(pathlib.Path(directory))
        check_pages(sys.argv[4:])
    else:
        check_site(pathlib.Path(directory), sys.argv[4:])
fail(errors)
