# SPDX-License-Identifier: MIT
"""Finds sentences that need a second reading, by their form.

    english.py SOURCE [DIRECTORY]...     lists them, with file and line

It reads the comments of sources and scripts, the documents, the man pages, and the strings that
programs print. The patterns are few and rarely wrong; they do not find every such sentence.
"""
import pathlib
import re
import sys

from layers import tracked

PATTERNS = {  # each is matched from the start of a sentence
    "a noun clause is no sentence": re.compile(
        r"(What|Who|Whose|Whether|How|Of(?! course)|That (there|the|a|an|it|its|no|nothing|each|one|they|all|who|which)"
        r"|Whom|Whatever|Whoever|Which)\b[^?]*$"),
    "inverted order": re.compile(r"So (does|do|did|is|are|was|were|has|have|can) "),
    "the relative clause stands away from its noun": re.compile(
        r".*\b(is|are|was|were|be) (told|given|asked|answered|accused|lost|found|killed|refused|freed) (who|whose) ", re.I),
    "say it with a subject and a verb": re.compile(r".*\b(what|all that) there (is|are|was|were)\b", re.I),
}
COMMENT = re.compile(r'/\*(.*?)\*/|//([^\n]*)|"((?:[^"\\\n]|\\.)*)"', re.S)
HASH = re.compile(r'"""(.*?)"""|(?<![\w$"\'{])#(?!!)([^\n]*)', re.S)
SUFFIXES = {"c": ".c .h .S .pml", "hash": ".py .sh .build", "text": ".md .1 .7"}
KIND = {suffix: kind for kind, suffixes in SUFFIXES.items() for suffix in suffixes.split()}


def pieces_of_c(text):
    """Yields (offset, text) of each comment, and of each string of at least four words."""
    for m in COMMENT.finditer(text):
        comment = m[1] or m[2]
        if comment:
            yield m.start(), re.sub(r"^\s*\*+ ?", "", comment, flags=re.M)
        elif m[3] and m[3].count(" ") > 2:
            yield m.start(), m[3].replace("\\n", "\n")


def pieces_of_hash(text):
    """Yields (offset, text) of each docstring and comment. The lines of a comment are one piece."""
    joined = None
    for m in HASH.finditer(text):
        if m[1]:
            yield m.start(), m[1]
            continue
        begin = text.rfind("\n", 0, m.start()) + 1
        if joined and not text[joined[1]:m.start()].strip():
            joined = [joined[0], m.end(), joined[2] + "\n" + m[2]]
            continue
        if joined:
            yield joined[0], joined[2]
        joined = [m.start(), m.end(), m[2]] if text[begin:m.start()].strip() == "" else None
        if not joined:
            yield m.start(), m[2]
    if joined:
        yield joined[0], joined[2]


def pieces_of_text(text):
    """Yields (offset, text) of each paragraph, row and item of a document or man page."""
    text = re.sub(r"```.*?```|^\.nf\n.*?^\.fi|^#+ .*?$|^\.S[HS].*?$", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.M | re.S)
    at = 0
    for piece in re.split(r"(\n\s*\n|\n(?=[-*|#.\d])|\|)", text):
        yield at, re.sub(r"^\.\w+( .*)?$|^\s*([-*#]+|\d+\.) ", "", piece, flags=re.M)
        at += len(piece)


def sentences(text):
    """Yields (offset, sentence), with each sentence joined to one line."""
    at = 0
    for part in re.split(r"((?<=[.:;?!])\s+(?=[A-Z`])|\n\s*\n|\n\s*[-*] )", text):
        plain = " ".join(re.sub(r"`|\\f.|\\&", "", part).split())
        if plain:
            yield at + len(part) - len(part.lstrip()), plain
        at += len(part)


def findings(path, text):
    """Yields (line, what is wrong, sentence) of each sentence that matches a pattern."""
    pieces = globals()["pieces_of_" + KIND[path.suffix]]
    for start, piece in pieces(text):
        for at, sentence in sentences(piece):
            for wrong, pattern in PATTERNS.items():
                if pattern.match(sentence):
                    yield text.count("\n", 0, start) + piece.count("\n", 0, at) + 1, wrong, sentence
                    break


def report(source, under=()):
    for path in (p for p in tracked(source, *under) if p.suffix in KIND):
        for line, wrong, sentence in findings(path, path.read_text()):
            yield path.relative_to(source), line, wrong, sentence


if __name__ == "__main__":
    root = pathlib.Path(sys.argv[1]).resolve()
    for found in report(root, sys.argv[2:]):
        print("{}:{}: {}: {}".format(*found))
