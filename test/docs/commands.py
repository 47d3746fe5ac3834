# SPDX-License-Identifier: MIT
"""Runs the commands of the documents: each ```sh block of the .md files, and each .nf block in
the EXAMPLES of the man pages of programs, as a shell script that must end with 0. A ```c block with
a main() is a program: it is stored as app.c, which a later command compiles and another one runs.

	commands.py SOURCE BUILD [DOCUMENT...]

A command that cannot run here, or only in a changed form, is listed in commands.txt with the reason. An
entry there that fits no command is an error, so the list does not outlive the documents.
"""
import functools
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "layers"))
from layers import tracked  # noqa: E402

source, build = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
here = pathlib.Path(__file__).parent
LIMIT = 1200  # seconds for a block: against hanging


def documents():
    if sys.argv[3:]:
        return [source / f for f in sys.argv[3:]]
    return tracked(source, "*.md", "*.1")


def blocks_of(file):
    """Yields (line number, language, text) of each block of commands or C."""
    text = file.read_text()
    if file.suffix == ".md":
        for m in re.finditer(r"^```(sh|c)\n(.*?)^```", text, re.M | re.S):
            yield text.count("\n", 0, m.start()) + 2, m[1], m[2]
        return
    examples = re.search(r"^\.SH EXAMPLES?\n(.*?)(?=^\.SH|\Z)", text, re.M | re.S)
    for m in re.finditer(r"^\.nf\n(.*?)^\.fi", examples[1] if examples else "", re.M | re.S):
        start = examples.start(1) + m.start(1)
        plain = m[1].replace("\\-", "-").replace("\\(aq", "'").replace("\\e", "\\")
        yield text.count("\n", 0, start) + 1, "sh", re.sub(r"^\w*\$ ", "", plain, flags=re.M)


def commands_of(block):
    """Returns the commands of a block; continued lines are one command."""
    return [c for c in re.sub(r"\\\n\s*", "", block).splitlines() if c.strip()]


def exceptions():
    """Returns [pattern, what to run instead or None, times used] for each entry."""
    entries = []
    for line in (here / "commands.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            pattern, instead, _reason = (part.strip() for part in line.rsplit(" | ", 2))
            entries.append([re.compile(pattern), None if instead == "-" else instead, 0])
    return entries


def as_run_here(command, entries):
    for entry in entries:
        if entry[0].search(command):
            entry[2] += 1
            return "" if entry[1] is None else entry[0].sub(entry[1], command, count=1)
    return command


def install(root):
    """Installs the programs, which the documents call by name as a user does."""
    subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", root],
                   check=True, capture_output=True)
    pc = next(root.rglob("*.pc")).parent
    return root / "usr/local/bin", pc.parent, pc


def tree(root):
    """Makes a directory like the source tree, with links to its files and to `build`. A document's commands may write
    into it."""
    root.mkdir()
    (root / "app.c").write_text((source / "test/layers/consumer/delegrpc.c").read_text())
    for entry in source.iterdir():
        if entry.name not in (".git", "build"):
            (root / entry.name).symlink_to(entry)
    (root / "build").symlink_to(build)
    return root


def run(block, cwd, env):
    """Returns output and status when all processes that the block has started have ended. Kills them after LIMIT."""
    script = "set -e -o pipefail\n" + block + "\nwait\n"
    with subprocess.Popen(["bash", "-c", script], cwd=cwd, env=env, text=True, start_new_session=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as p:
        try:
            return p.communicate(timeout=LIMIT)[0], p.returncode
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGTERM)
            return p.communicate()[0], f"no end after {LIMIT} s"
        except BaseException:
            os.killpg(p.pid, signal.SIGTERM)
            raise


def cpu_seconds():
    used = os.times()
    return used.children_user + used.children_system


@functools.cache
def may_trace():
    """Returns true if bpftrace works, which needs root and a kernel with uprobes."""
    return subprocess.run(["bpftrace", "-e", "BEGIN { exit(); }"], capture_output=True).returncode == 0


def quit_on_sigterm(*_):
    sys.exit(1)


def main():
    entries, failures, ran = exceptions(), [], 0
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        bin_dir, lib_dir, pc_dir = install(tmp / "installed")
        env = dict(os.environ, PATH=f"{bin_dir}:{os.environ['PATH']}", LD_LIBRARY_PATH=str(lib_dir),
                   PKG_CONFIG_PATH=str(pc_dir), PKG_CONFIG_SYSROOT_DIR=str(tmp / "installed"),
                   OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   OMPI_MCA_rmaps_base_oversubscribe="1", TMPDIR=str(tmp))
        for number, file in enumerate(documents()):
            work = tree(tmp / f"tree-{number}")
            for line, language, block in blocks_of(file):
                if language == "c":
                    if "int main(" in block:
                        (work / "app.c").write_text(block)
                        if "./app" not in file.read_text():
                            failures.append(f"{file.relative_to(source)}:{line}: no command runs this as ./app")
                    continue
                commands = [as_run_here(c, entries) for c in commands_of(block)]
                script = "\n".join(c for c in commands if c)
                if not script:
                    continue
                if "bpftrace" in script and not may_trace():
                    print(f"{file.relative_to(source)}:{line}: not run: the kernel refuses bpftrace")
                    continue
                begun = cpu_seconds()
                output, status = run(script, work, env)
                ran += sum(bool(c) for c in commands)
                print(f"{file.relative_to(source)}:{line}: {status}, {cpu_seconds() - begun:.1f} CPU s")
                if status != 0:
                    failures.append(f"{file.relative_to(source)}:{line}: {status}\n{script}\n{output}")
    if not sys.argv[3:]:
        failures += [f"commands.txt: no command is like {e[0].pattern!r}"
                     for e in entries if not e[2]]
    print("\n".join(failures))
    print(f"{ran} commands run, {len(failures)} failures")
    return bool(failures)


signal.signal(signal.SIGTERM, quit_on_sigterm)
sys.exit(main())
