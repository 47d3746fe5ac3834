# SPDX-License-Identifier: MIT
"""Every installed program and library has a man page, groff has nothing to say about it, and the
options of --help and those of the man page are the same.

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
COMMANDS = {  # whose --help lists more options
    "benchkv": ["delegation", "meta", "direct", "ucx", "measure"],
    "rdmabench": ["engine", "collect", "search"],
    "tentbench": ["sim", "server", "client"],
}
OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z0-9-]*|-[A-Za-z])(?!\w)")


def installed_programs():
    out = subprocess.run(["meson", "introspect", "--installed", build], capture_output=True, text=True, check=True).stdout
    return sorted(pathlib.Path(file) for file, to in json.loads(out).items() if pathlib.Path(to).parent.name == "bin")


def page(name):
    found = [p for p in source.rglob(f"man/{name}") if not p.relative_to(source).parts[0].startswith(("build", "."))]
    return found[0] if found else None


def options_of_help(program):
    found = set()
    for command in [[]] + [[c] for c in COMMANDS.get(program.name, [])]:
        r = subprocess.run([program, *command, "--help"], capture_output=True, text=True)
        if r.returncode:
            bad.append(f"{program.name} {' '.join(command)} --help: status {r.returncode}")
        found |= set(OPTION.findall(r.stdout))
    return found


def options_of_page(path):
    """All that it mentions, and those that begin an entry."""
    text = path.read_text().replace("\\-", "-").replace('"', "")
    text = re.sub(r"\\f.|\\\||^\.[BIR]{1,2} ", "", text, flags=re.M)
    entries = re.findall(r"^\.T[PQ].*\n(.*)", text, re.M)
    return set(OPTION.findall(text)), set(OPTION.findall("\n".join(entries)))


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
    helped = options_of_help(program)
    mentioned, entries = options_of_page(page(f"{program.name}.1"))
    bad += [f"{program.name}: the man page has no {o}" for o in sorted(helped - mentioned)]
    bad += [f"{program.name}: --help has no {o}" for o in sorted(entries - helped)]
print("\n".join(bad))
print(f"{pages} pages, {len(programs)} programs")
sys.exit(bool(bad) or not pages)
