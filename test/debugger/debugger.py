# SPDX-License-Identifier: MIT
"""debugger.py GDB BUILD SOFTHCA-RUN OBJECTS: installs the commands for gdb, runs OBJECTS, and inspects the stopped
process with these commands, then a core of it. The states that are expected here are made by objects.c."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

GDB, BUILD, RUN, OBJECTS = sys.argv[1:]
NAME = f"debugger.{os.getpid()}"  # of the fabric and the regions
NAMES = ("copyrpc", "delegrpc", "shmipc", "flux", "tent", "softhca")

# Per command and object: patterns that the output must contain, in this order.
EXPECTED = {
    "copyrpc": [[r"copyrpc context 0x\w+: 1 endpoints, 0 requests wait", r"endpoint +QPN +peer +status +calls",
                 r" 0 +5/\d+ +1 +2/3 +7/\d+ "],
                [r"copyrpc context 0x\w+: 1 endpoints, 2 requests wait", r" 0 +0/\d+ +0 +- +0/\d+ "]],
    "delegrpc": [[r"delegrpc client 0x\w+: 3 of \d+ calls in flight, 0 staged; 3 sent, 0 done; 0 posts in flight"],
                 [r"delegrpc server 0x\w+: ring of \d+: reserved to 3, found to 3, received to 1, given back to 0; "
                  r"replied 0 of 1; 0 posts; status 0", r"\n +0 +1 +0 +1 +1"]],
    "shmipc": [[r"shmipc client 0x\w+: 2 of \d+ calls in flight; requests at [1-9]\d*/\d+ lap 1, responses at 0/"],
               [r"shmipc server 0x\w+: 1 of \d+ clients, 1 requests, 0 replies", r"\n +0 +1 +\d+/\d+ lap 1"]],
    "flux": [[r"flux node 1 of 3 .*; 1 messages in 1 open bursts", r"\n +2 +10/\d+ +0 +[1-9]\d*/"]],
    "tent": [[r"tent engine 0x\w+ \(\S+ port \d+\): 2 rails \(shared memory\), 1 buffers, 0 connections of peers, 0 requests",
              r"segment 0 of \S+ pid \d+: 0 tasks", r"\n +0 +\S+ +\S+ +up +0 +0 ", r"\n +1 +\S+ +\S+ +up +0 +0 "],
             [r"2 rails \(shared memory\), 1 buffers, 1 connections of peers"]],
    "softhca": [[r"software HCA /dev/shm/\S+: this process has slot \d+; mutex's word 0x\w+; held: no lane", r"QPN +pid +type +state",
                 r" RC +RTS +0x\w+ +0 ", r" RC +RTS +0x\w+ +0 "]],
}


def install(root):
    """Installs layers.py alone. Returns its path."""
    subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--tags", "gdb", "--destdir", root], check=True,
                   capture_output=True)
    (found,) = pathlib.Path(root).rglob("*.py")
    assert str(found).endswith("/share/mlx5rpc/gdb/layers.py"), found
    return found


def gdb(target, *commands):
    """Returns the output of each command, and gdb's standard error."""
    mark = "-- next command --"
    arguments = [x for command in commands for x in ("-ex", command, "-ex", f"echo \\n{mark}\\n")]
    done = subprocess.run([GDB, "-nx", "-q", "-batch", "-iex", "set debuginfod enabled off", "-x", layers, *target,
                           "-ex", f"echo \\n{mark}\\n", *arguments], capture_output=True, text=True, timeout=400)
    outputs = done.stdout.split(mark)
    assert len(outputs) == len(commands) + 2, done.stdout + done.stderr
    return [output + "\n" for output in outputs[1:-1]], done.stderr


def expect(output, patterns, where):
    at = 0
    for pattern in patterns:
        found = re.compile(pattern).search(output, at)
        assert found, f"{where}: no {pattern!r} from here on:\n{output[at:]}\nof\n{output}"
        at = found.end()


def look(target, where):
    outputs, errors = gdb(target, *(f"info {name}" for name in NAMES))
    for name, output in zip(NAMES, outputs):
        for patterns in EXPECTED[name]:
            expect(output, patterns, f"{name} in {where}")
    assert "Traceback" not in errors, errors


def look_at_one(target):
    """An expression selects one object. A wrong expression is refused with one line."""
    outputs, errors = gdb(target, "info copyrpc", "info copyrpc rpc.ctx[1]", "info copyrpc rpc", "info tent nothing")
    expect(outputs[0], [r"context", r"context"], "all")
    expect(outputs[1], [r"context 0x\w+: 1 endpoints, 2 requests"], "one")
    assert outputs[1].count("context") == 1, outputs[1]
    assert "info copyrpc: rpc is no pointer to copyrpc_ctx or copyrpc_ep" in errors, errors
    assert 'info tent: No symbol "nothing"' in errors and "Traceback" not in errors, errors
    _, errors = gdb(target, "info delegrpc (struct delegrpc_server *)8")
    assert "info delegrpc: Cannot access memory at address" in errors and "Traceback" not in errors, errors


with tempfile.TemporaryDirectory() as work:
    layers = install(f"{work}/installed")
    process = subprocess.Popen([RUN, "--fabric", NAME, OBJECTS, NAME], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    try:
        pid = process.stdout.readline().strip()
        pathlib.Path(f"/proc/{pid}/coredump_filter").write_text("0x7f")
        core = f"{work}/core"
        live = ["-p", pid]
        look(live, "a stopped process")
        look_at_one(live)
        gdb(live, f"generate-core-file {core}")
        process.stdin.close()
        assert process.wait(timeout=240) == 0
        look([OBJECTS, core], "a core")
    finally:
        process.kill()
print("each layer's objects are shown, in a process and in a core")
