# SPDX-License-Identifier: MIT
"""live.py SHMLS SOFTHCA-RUN SOFTHCACTL OBJECTS HANGS.md: runs OBJECTS with threads that wait, and looks at the process
from outside with shmls --live. Each kind of object must be shown, with the numbers that the process itself counts, and
under the names that HANGS.md uses."""
import json
import os
import pathlib
import re
import subprocess
import sys
import time

SHMLS, RUN, CTL, OBJECTS, HANGS = sys.argv[1:]
FABRIC = NAME = f"live.{os.getpid()}"
KINDS = {("copyrpc", "context"): 2, ("copyrpc", "endpoint"): 2, ("delegrpc", "client"): 1, ("delegrpc", "server"): 1,
         ("shmipc", "client"): 2, ("shmipc", "server"): 2, ("flux", "node"): 3, ("tent", "engine"): 4,
         ("tent", "segment"): 2, ("tent", "rail"): 3}
# The object that each part of the statistics describes: layer, kind, and its number among the objects of this kind.
COUNTED = {"endpoint": ("copyrpc", "endpoint", 1), "delegrpc": ("delegrpc", "server", 0), "shmipc": ("shmipc", "server", 0),
           "flux": ("flux", "node", 1), "rail": ("tent", "rail", 0)}


def shmls(*args, status=0):
    done = subprocess.run([SHMLS, *args], capture_output=True, text=True, timeout=240)
    assert done.returncode == status, (args, done)
    return done.stdout, done.stderr


def look(pid):
    """The objects of the process by layer and kind, and the whole answer."""
    everything = json.loads(shmls("--live", "--json", pid)[0])
    kinds = {}
    for found in everything["objects"]:
        kinds.setdefault((found["layer"], found["kind"]), []).append(found)
    return kinds, everything


def await_objects(pid, what, condition):
    """Looks until the condition holds. Fails after 240 s."""
    until = time.monotonic() + 240
    while True:
        kinds, everything = look(pid)
        if condition(kinds):
            return kinds, everything
        assert time.monotonic() < until, (what, everything)


def waits(kinds, layer, kind):
    return [o for o in kinds.get((layer, kind), []) if "thread" in o]


OBJECT = re.compile(r"  (\w+) (\w+) 0x[0-9a-f]+(?: .*)?: (.*)")
THREAD = re.compile(r"  thread \d+ \S+ \([A-Z]\)(?:, waits for (\w+) (\w+) \S+ \(\d+\.\d s\))?")


def compare_page(kinds, output):
    """Checks that the lines of the page have the form of those that shmls prints, and name values of the objects."""
    blocks = re.findall(r"^```\n(process .*?)^```", pathlib.Path(HANGS).read_text(), re.M | re.S)
    lines = [line for block in blocks for line in block.splitlines()]
    assert any(THREAD.fullmatch(line) for line in lines), lines
    seen = {m.groups() for line in output.splitlines() if (m := THREAD.fullmatch(line))}
    for line in lines:
        if found := OBJECT.fullmatch(line):
            values = kinds[found[1], found[2]][0]["values"]
            for pair in found[3].split(", "):
                assert pair.split(" ")[0] in values, (line, values)
        elif found := THREAD.fullmatch(line):
            assert not found[1] or (found[1], found[2]) in seen, (line, output)
        else:
            assert line.startswith(("process ", "adapter ", "mlx5_0 ")), line


process = subprocess.Popen([RUN, "--fabric", FABRIC, OBJECTS, NAME, "waits"], stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, text=True, bufsize=1)
try:
    pid = process.stdout.readline().strip()
    counted = json.loads(process.stdout.readline())
    waiting = [("shmipc", "client"), ("delegrpc", "client"), ("flux", "node")]
    kinds, everything = await_objects(pid, "threads that sleep", lambda k: all(waits(k, *w) for w in waiting))
    assert {kind: len(found) for kind, found in kinds.items()} == KINDS, everything
    assert everything["pid"] == int(pid) and everything["missed"] == 0
    for name, numbers in counted.items():
        layer, kind, i = COUNTED[name]
        values = kinds[layer, kind][i]["values"]
        assert {n: values[n] for n in numbers} == numbers, (name, numbers, values)
    threads = {t["thread"] for t in everything["threads"]}
    for layer, kind in waiting:
        (found,) = waits(kinds, layer, kind)
        assert found["thread"] in threads and 0 <= found["waits_s"] < 1000, found
        assert found["values"]["state"] in ("asleep", "waiting"), found
    assert not waits(kinds, "shmipc", "server")
    client, endpoint = kinds["shmipc", "client"][0], kinds["copyrpc", "endpoint"][0]["values"]
    assert client["name"] == NAME and client["values"]["in-flight"] == 2, client
    assert kinds["delegrpc", "client"][0]["values"]["in-flight"] == 3
    assert kinds["delegrpc", "server"][0]["values"]["slots-in-use"] == 3
    assert endpoint["in-flight"] == 5 and endpoint["unsent"] == 3 and endpoint["status"] == 0, endpoint
    assert [r["values"]["state"] for r in kinds["tent", "rail"]] == ["up"] * 3
    assert not waits(kinds, "tent", "batch")

    # Without a rail that is up, a request of tent stays open.
    subprocess.run([CTL, "-f", FABRIC, "link", "mlx5_0", "down"], check=True, timeout=240)
    await_objects(pid, "a rail that is down", lambda k: k["tent", "rail"][2]["values"]["state"] != "up")
    process.stdin.write("\n")
    kinds, _ = await_objects(pid, "a batch", lambda k: waits(k, "tent", "batch"))
    assert kinds["tent", "batch"][0]["values"] == {"requests": 1, "open": 1}
    assert kinds["tent", "segment"][1]["values"]["requests"] == 1
    assert kinds["tent", "rail"][2]["values"]["outages"] == 1
    text = shmls("--live", pid)[0]
    for phrase in (f"process {pid} ", ", waits for tent batch 127.0.0.1 (", f", waits for shmipc client {NAME} (",
                   "  delegrpc server 0x", "in-flight 5, "):
        assert phrase in text, (phrase, text)
    compare_page(kinds, text)
    # Without a PID all processes with objects are shown. This test's process has no objects, so it is shown only if its
    # PID is given.
    everything = [json.loads(line)["pid"] for line in shmls("--live", "--json")[0].splitlines()]
    assert int(pid) in everything and os.getpid() not in everything
    assert shmls("--live", str(os.getpid()))[0].startswith(f"process {os.getpid()} ")
    mine = json.loads(shmls("--live", "--json", str(os.getpid()))[0])
    assert mine["pid"] == os.getpid() and mine["objects"] == [], mine
    subprocess.run([CTL, "-f", FABRIC, "link", "mlx5_0", "up"], check=True, timeout=240)
    await_objects(pid, "the end of the request", lambda k: ("tent", "batch") not in k)

    # --watch prints again and again.
    watch = subprocess.Popen([SHMLS, "--live", "--watch", "0.01", pid], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(2):
        while not watch.stdout.readline().startswith(f"process {pid} "):
            assert watch.poll() is None
    watch.terminate()
    watch.communicate(timeout=240)
    process.stdin.close()
    assert process.wait(timeout=240) == 0
finally:
    process.kill()

for bad, why in (pid, "no such process"), ("1x", "give the number"), ("-1", "not valid"), ("99999999999", "give the number"):
    out, err = shmls("--live", bad, status=2 if bad == "-1" else 1)
    assert not out and err.count("\n") == 1 and why in err, (bad, err)
if os.geteuid() == 0:
    # shmls runs without the capability that another user lacks. It does not run as another user, who might not be able
    # to read the libraries in a private directory.
    other = subprocess.run(["setpriv", "--bounding-set", "-sys_ptrace", SHMLS, "--live", str(os.getpid())],
                           capture_output=True, text=True, timeout=240)
    assert other.returncode == 1 and "may not be read" in other.stderr, other
for bad in ["--live", "--remove"], ["--live", "--clients"], ["--watch", "0"], ["--watch", "1", "--remove"]:
    assert shmls(*bad, status=2)[1].count("\n") == 1
print("objects of all layers are seen in a running process")
