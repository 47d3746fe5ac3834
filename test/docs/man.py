# SPDX-License-Identifier: MIT
"""Every installed program and library has a man page, groff reports nothing about it, and the
options of --help and those of the man page are the same, with their ranges and defaults.

	man.py SOURCE BUILD [LAYER...]
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys

source, build = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
layers = sys.argv[3:]  # with a page in section 7
COMMANDS = {  # commands whose --help lists more options
    "benchkv": ["delegation", "meta", "direct", "ucx", "measure"],
    "rdmabench": ["engine", "collect", "search"],
    "tentbench": ["sim", "server", "client"],
}
OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z0-9-]*|-[A-Za-z])(?!\w)")


def installed_programs():
    out = subprocess.run(["meson", "introspect", "--installed", build], capture_output=True, text=True, check=True).stdout
    return sorted(pathlib.Path(file) for file, to in json.loads(out).items() if pathlib.Path(to).parent.name == "bin")


def page(name):
    return next((p for folder in ("*", "subprojects/*", "test/hwcheck/installed") for p in source.glob(f"{folder}/man/{name}")), None)


def help_of(program):
    text = ""
    for command in [[]] + [[c] for c in COMMANDS.get(program.name, [])]:
        r = subprocess.run([program, *command, "--help"], capture_output=True, text=True)
        if r.returncode:
            bad.append(f"{program.name} {' '.join(command)} --help: status {r.returncode}")
        text += r.stdout
    return text


def limits_of_help(text):
    """Yields option and limit: the range and the default in parentheses in --help, if they are not prose."""
    for block in re.findall(r"^  (?:-\S, )?(--.*(?:\n {23}.*)*)", text, re.M):
        said = re.search(r"\(([^()]*)\)(?:; also \S+)?$", " ".join(block.split()))
        for limit in said[1].split("; ") if said else []:
            if " " not in limit or re.fullmatch(r"\S+ to \S+(, a multiple of \d+)?", limit):
                yield OPTION.match(block)[1], limit


def plain(text):
    """Text of a page without its markup."""
    text = text.replace("\\-", "-").replace('"', "")
    text = re.sub(r"\\f.|\\\||\\&|^\.[BIR]{1,2} ", "", text, flags=re.M)
    return text


def entries_of_page(text):
    """Yields the options that begin an entry, and the text of the entry, for each entry."""
    for entry in re.split(r"^\.T[PQ].*\n", text, flags=re.M)[1:]:
        entry = re.split(r"^\.S[HS]", entry, flags=re.M)[0]
        yield OPTION.findall(entry.split("\n")[0]), " ".join(re.sub(r" (?=[.,;)])|(?<=\() ", "", entry).split())


bad, pages = [], 0
programs = installed_programs()
for name in [f"{p.name}.1" for p in programs] + [f"{layer}.7" for layer in layers]:
    path = page(name)
    if not path:
        bad.append(f"there is no man page {name}")
        continue
    pages += 1
    said = subprocess.run(["groff", "-t", "-man", "-ww", "-z", path], capture_output=True, text=True).stderr
    bad += [f"{name}: {line}" for line in said.splitlines()]
    if shutil.which("mandoc"):
        lint = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", path], capture_output=True, text=True).stdout
        bad += lint.splitlines()
for program in programs:
    if not page(f"{program.name}.1"):
        continue
    helped, text = help_of(program), plain(page(f"{program.name}.1").read_text())
    entries = list(entries_of_page(text))
    listed = set(OPTION.findall(helped))
    bad += [f"{program.name}: the man page has no {o}" for o in sorted(listed - set(OPTION.findall(text)))]
    bad += [f"{program.name}: --help has no {o}" for o in sorted({o for names, _ in entries for o in names} - listed)]
    for option, limit in limits_of_help(helped):
        if not any(option in names and limit in entry for names, entry in entries):
            bad.append(f"{program.name}: the entry of {option} in the man page lacks: {limit}")
print("\n".join(bad))
print(f"{pages} pages, {len(programs)} programs")
sys.exit(bool(bad) or not pages)
