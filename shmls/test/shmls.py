# SPDX-License-Identifier: MIT
"""shmls as its user runs it: living regions, those of a killed server, foreign files, bad input.

    shmls.py SHMLS REGION

REGION is the program of region.c, which makes the regions.
"""
import json
import os
import pathlib
import struct
import subprocess
import sys

shmls, region = sys.argv[1:3]
NAME = f"shmls.{os.getpid()}"
FILES = [f"delegrpc.{NAME}", f"shmipc.{NAME}"]
SHM = pathlib.Path("/dev/shm")


def run(*args, status=0):
    done = subprocess.run([shmls, *args], capture_output=True, text=True, timeout=240)
    assert done.returncode == status, (args, done)
    if status:
        assert done.stderr.startswith("shmls: ") and done.stderr.count("\n") <= len(args), done
    else:
        assert not done.stderr, done
    return done.stdout


def start():
    p = subprocess.Popen([region, NAME], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "ready\n"
    return p


def objects(*args):
    return [json.loads(line) for line in run("--json", *args).splitlines()]


server = start()
try:
    deleg, ipc = objects(*FILES)
    assert deleg["layer"] == "delegrpc" and ipc["layer"] == "shmipc"
    for r, places, depth in (deleg, 4, 16), (ipc, 8, 32):
        assert r["name"] == NAME and r["server"] == "running", r
        assert (r["clients"], r["dead_clients"], r["max_clients"], r["depth"]) == (2, 0, places, depth), r
        assert [c["index"] for c in r["client"]] == [0, 1], r
        assert r["bytes"] == (SHM / f"{r['layer']}.{NAME}").stat().st_size
        assert r["mode"] == 0o600 and r["gid"] == (SHM / f"{r['layer']}.{NAME}").stat().st_gid
    assert (deleg["slots_in_use"], deleg["slots"]) == (3, 256), deleg
    assert "slots" not in ipc
    # Without operands all regions are listed; other tests may have regions too.
    everything = run("--clients")
    for name in FILES:
        assert everything.count(f"  {name}\n") == 1, everything
    assert run(*FILES, "-c").count(" client 1\n") == 2
    assert "3/256" in run(FILES[0]) and "2/4" in run(FILES[0])
    if os.geteuid() == 0:
        os.chown(SHM / FILES[0], -1, 0xfffffff0)  # as in a user namespace with high ids
        assert objects(FILES[0])[0]["gid"] == 0xfffffff0
    # The region of a living server is not removed.
    run("--remove", *FILES, status=1)
    assert all((SHM / f).exists() for f in FILES)
finally:
    server.kill()
    server.communicate()

deleg, ipc = objects(*FILES)
assert deleg["server"] == ipc["server"] == "dead"
assert (deleg["clients"], deleg["dead_clients"]) == (0, 2) and (ipc["clients"], ipc["dead_clients"]) == (0, 2)
assert run("-r", *FILES) == f"{FILES[0]}: removed\n{FILES[1]}: removed\n"
assert not any((SHM / f).exists() for f in FILES)
run(*FILES, status=1)
run("-r", *FILES, status=1)

# A region of another version is listed with both versions, and is not removed.
for layer, magic, ours in ("delegrpc", 0x444C475250435631, 8), ("shmipc", 0x31304350494D4853, 9):
    for version in ours - 1, ours + 1:
        path = SHM / f"{layer}.{NAME}"
        path.write_bytes(struct.pack("<QII", magic ^ 1, version, 0) + bytes(100000))
        path.chmod(0o600)
        try:
            assert "not a complete region" in objects(path.name)[0]["error"]
            path.write_bytes(struct.pack("<QII", magic, version, 0) + bytes(100000))
            why = f"of version {version}, this shmls reads version {ours}"
            assert f"{path.name}: {why}\n" in run(path.name) and objects(path.name)[0]["error"] == why
            r = subprocess.run([shmls, "-r", path.name], capture_output=True, text=True)
            assert r.returncode == 1 and r.stderr == f"shmls: {path.name}: not removed: {why}\n", r
            assert path.exists()
        finally:
            path.unlink()

# A file that no server made is listed with the reason, and is not removed. Control characters in its name are not printed.
foreign = f"delegrpc.{NAME}\x1b[2J"
path = SHM / foreign
path.write_bytes(b"somebody's data" * 100)
path.chmod(0o600)
try:
    (found,) = objects(foreign)
    assert "region" in found["error"] and "server" not in found, found
    assert "\x1b" not in run(foreign) and "\x1b" not in run(), "an escape sequence"
    assert "\x1b" not in subprocess.run([shmls, "-r", foreign], capture_output=True, text=True).stderr
    assert path.read_bytes() == b"somebody's data" * 100
finally:
    path.unlink()

# Another user's region is not removed.
if os.geteuid() == 0:
    server = start()
    server.kill()
    server.communicate()
    for f in FILES:
        os.chown(SHM / f, 65534, 65534)
    run("--remove", *FILES, status=1)
    for f in FILES:
        os.chown(SHM / f, 0, 0)
    run("--remove", *FILES)

# A server that ends by itself removes its regions.
server = start()
server.communicate("")
assert server.returncode == 0 and not any((SHM / f).exists() for f in FILES)

for bad in (["--nothing"], ["-r", "-j"], ["--remove", "--clients"], ["--json=x"]):
    assert not run(*bad, status=2)
for bad in ("flux.x", "delegrpc", "delegrpc.", "../etc/passwd", "delegrpc.a/b"):
    assert not run(bad, status=1)
assert "Usage: shmls" in run("--help") and run("--version").startswith("shmls ")
with open("/dev/full", "w") as full:
    for args in [], ["--help"], ["--version"]:
        r = subprocess.run([shmls, *args], stdout=full, stderr=subprocess.PIPE, text=True, timeout=240)
        assert r.returncode == 1 and r.stderr.count("\n") == 1 and "standard output" in r.stderr, (args, r)
print("regions listed and removed")
