# SPDX-License-Identifier: MIT
"""completion.py BUILD COMPLETION.bash PROGRAM...: completes lines as bash does, and compares with CASES. Each program
must offer its option --help, and only options that its help names. Completion must be installed for each program."""
import pathlib
import re
import subprocess
import sys
import tempfile

BUILD, SCRIPT, *PATHS = sys.argv[1:]
PROGRAMS = {pathlib.Path(path).name: path for path in PATHS}

# The line, whose last word is being completed, and the words that are offered.
CASES = {
    ("benchkv", ""): "compare delegation direct measure meta run-pair ucx",
    ("benchkv", "me"): "measure meta",
    ("benchkv", "--wait", ""): "event poll",
    ("benchkv", "direct", "--queue"): "--queue-depth",
    ("benchkv", "measure", "--m"): "--machine",
    ("benchkv", "run-pair", "--"): "--help --json --pairs --save --tolerance --version",
    ("benchkv-sim", ""): "map run table",
    ("benchkv-sim", "--init", ""): "high low",
    ("rdmabench", ""): "bw collect engine lat search",
    ("rdmabench", "search", "--method", ""): "anneal mixed random sample",
    ("rdmabench", "search", "--re"): "--resume",
    ("rdmabench", "collect", "--re"): "",
    ("rdmabench", "nonsense", "--"): "--help --version",
    ("shmls", ""): "",
    ("shmls", "--"): "--clients --help --json --live --remove --version --watch",
    ("tentbench", "s"): "server sim",
    ("tentbench", "sim", "--mode", "--see"): "--seeds",
    ("softhca-run", "--to"): "--topology",
    ("softhcactl", ""): "capture fault gid link list show",
}


def complete(line):
    line = (PROGRAMS[line[0]], *line[1:])
    done = subprocess.run(["bash", "--norc", "-c", 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
                           '_workspace_complete; printf "%s\\n" "${COMPREPLY[@]}"', SCRIPT, *line],
                          capture_output=True, text=True, check=True)
    assert not done.stderr, done.stderr
    return done.stdout.split()


for line, words in CASES.items():
    assert complete(line) == words.split(), (line, complete(line))
for name, path in PROGRAMS.items():
    text = subprocess.run([path, "--help"], capture_output=True, text=True, check=True).stdout
    offered = complete((name, "-"))
    assert "--help" in offered, (name, offered)
    for option in offered:
        assert re.search(rf"{option}\b", text), (name, option)
with tempfile.TemporaryDirectory() as root:
    subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--tags", "completion", "--destdir", root],
                   check=True, stdout=subprocess.DEVNULL)
    installed = {path.name for path in pathlib.Path(root).rglob("bash-completion/completions/*")}
    assert installed == set(PROGRAMS), (installed, set(PROGRAMS))
# For a program that does not exist, or has no --help, nothing is offered.
PROGRAMS["none"], PROGRAMS["silent"] = "/nonexistent/none", "/bin/sh"
assert complete(("none", "")) == complete(("silent", "--")) == []
print(f"{len(CASES)} lines of {len(PATHS)} programs are completed")
