# SPDX-License-Identifier: MIT
"""Two containers without privileges exchange packets over UDP (udp=on in the topology).

    containers.py SOFTHCA-RUN HOSTS-PY-DIRECTORY

A container has namespaces of its own for network, host name, mounts, processes and IPC, in a user namespace that has no
privileges outside. Ends with 77, a skip, if the kernel refuses such namespaces or a tool is not installed.
"""
import os
import shutil
import subprocess
import sys
import tempfile

RUN = os.path.abspath(sys.argv[1])
PROGRAMS = ["ibv_rc_pingpong -g 0 -c -e -n 50", "ib_write_bw -x 0 -m 1024 -n 50"]
# Replaces softhca-run: runs it in namespaces of its own.
CONTAINER = """#!/bin/sh
exec unshare -m -p -i --fork --kill-child --mount-proc sh -c '
	mount -t tmpfs tmpfs /dev/shm && exec "$@"' sh RUN "$@"
"""


def skip(why):
    print(why)
    sys.exit(77)


def inside():
    sys.path.insert(0, sys.argv[2])
    import hosts
    with tempfile.TemporaryDirectory() as tmp:
        container = os.path.join(tmp, "container")
        with open(container, "w", opener=lambda path, flags: os.open(path, flags, 0o755)) as f:
            f.write(CONTAINER.replace("RUN", RUN))

        def pairs():
            with hosts.Network(container, mtu=1500, built=RUN) as (a, b):
                for program in PROGRAMS:
                    said = hosts.pair(a, b, *program.split(), port=18515)  # both have ended with 0
                    assert all("remote address" in text for text in said), said
        return hosts.run(pairs, False)


if sys.argv[3:] == ["inside"]:
    sys.exit(inside())
NEW_USER = ["unshare", "--user", "--map-root-user", "--mount", "--net", "--pid", "--fork", "--mount-proc"]
if not all(shutil.which(p.split()[0]) for p in PROGRAMS):
    skip("ibverbs-utils or perftest is not installed")
if subprocess.run([*NEW_USER, "true"], check=False).returncode:
    skip("the kernel refuses user namespaces")
os.execvp(NEW_USER[0], [*NEW_USER, sys.executable, *sys.argv, "inside"])
