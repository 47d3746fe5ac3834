#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the examples as their first comments say.

    examples.py steady FABRIC SOFTHCACTL PROGRAM    a cable is pulled and plugged again
    examples.py files FABRIC PROGRAM                files are fetched
"""
import os
import pathlib
import subprocess
import sys
import tempfile

what, fabric, program = sys.argv[1], sys.argv[2], sys.argv[-1]


def start(*args):
    return subprocess.Popen([program, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def wait_for(process, end):
    """Returns the first line that has this end."""
    for line in process.stdout:
        if line.strip().endswith(end):
            return line
    sys.exit(f"no line ends with {end!r}")


def steady():
    def cable(state):
        subprocess.run([sys.argv[3], "-f", fabric, "link", "mlx5_0", state], check=True)

    server = start("serve")
    client = start("call", server.stdout.readline().strip())
    wait_for(client, "connected")
    for _ in range(2):  # one pull of the cable may cause more than one pair of the lines 'lost' and 'back'
        cable("down")
        wait_for(client, "lost")
        cable("up")
        wait_for(client, "back")
    client.stdin.close()
    assert int(wait_for(client, "calls, each executed once").split()[0]) > 0
    assert client.wait() == 0
    wait_for(server, "back")
    return server


def files():
    with tempfile.TemporaryDirectory() as directory:
        root = pathlib.Path(directory)
        sent = {"one": os.urandom(1), "large": os.urandom(3_000_001)}
        for name, data in sent.items():
            (root / name).write_bytes(data)
        (root / "link").symlink_to("/etc/passwd")
        os.mkfifo(root / "fifo")  # nobody writes to it
        server = start("serve", directory)
        port = server.stdout.readline().strip()

        def get(name):
            return subprocess.run([program, "get", port, name], capture_output=True)

        for name, data in sent.items():
            assert get(name).stdout == data, name
        for name in ("missing", "../" + root.name + "/one", "link", "fifo", "x" * 256):
            r = get(name)
            assert r.returncode == 1 and not r.stdout and b"No such file" in r.stderr, (name, r)
        return server


server = {"steady": steady, "files": files}[what]()
server.terminate()
server.wait()
