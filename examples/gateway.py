# SPDX-License-Identifier: MIT
"""gateway.py GATEWAY LOCAL-ECHO ECHO-CLIENT: network clients reach local servers through the gateway. The gateway sleeps
between two clients and survives the death of a server, and a SIGTERM ends it after the last reply."""
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time

GATEWAY, LOCAL, CLIENT = sys.argv[1:]
CALLS = 10000  # of each run of the client
names = [f"gateway.{os.getpid()}.{i}" for i in range(2)]
children = []


def start(*command, **options):
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
    children.append(child)
    return child, child.stdout.readline().strip()


def client(port):
    child = subprocess.Popen([CLIENT, port], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    children.append(child)
    return child


def succeeds(child):
    output, errors = child.communicate(timeout=240)
    if child.returncode or output != f"{CALLS} echoes\n":
        print(f"client: status {child.returncode}: {output}{errors}")
        return False
    return True


def end(gateway):
    """Ends a gateway by a signal; returns the number of replies that it has counted."""
    gateway.send_signal(signal.SIGTERM)
    output = gateway.communicate(timeout=240)[0].splitlines()
    replies, _, rest = output[-1].partition(" ")
    assert gateway.returncode == 0 and rest == "replies, 0 requests held", output
    return int(replies)


def sleeps(pid):
    """Waits until the process sleeps in the kernel."""
    limit = time.monotonic() + 60
    while pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "S":
        assert time.monotonic() < limit, "the process does not sleep"
        os.sched_yield()


try:
    servers = []
    for name in names:
        server, ready = start(LOCAL, name)
        assert ready == "ready", ready
        servers.append(server)
    gateway, port = start(GATEWAY, *names)
    assert succeeds(client(port))
    sleeps(gateway.pid)
    both = client(port), client(port)
    assert all([succeeds(c) for c in both])
    assert end(gateway) == 3 * CALLS

    # Calls that a dead server has taken end with an empty reply, which makes the client fail. Later clients succeed.
    gateway, port = start(GATEWAY, *names)
    servers[0].kill()
    servers[0].wait()
    while not succeeds(client(port)):
        pass
    assert end(gateway) >= CALLS

    # A gateway that cannot have the descriptor of its last handle ends, and does not sleep without it.
    gateway, _ = start(GATEWAY, names[1])
    assert gateway.stdout.readline().startswith("0 replies"), "the loop does not run"
    most = len(os.listdir(f"/proc/{gateway.pid}/fd")) - 1
    end(gateway)
    gateway, _ = start(GATEWAY, names[1], stderr=subprocess.PIPE,
                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most)))
    assert not gateway.stdout.readline(), "the gateway runs without a descriptor"
    assert gateway.wait(timeout=240) == 1 and "Too many open files" in gateway.stderr.read()

    with tempfile.TemporaryFile("w+") as errors:  # without servers the gateway ends and prints the reason
        gateway, port = start(GATEWAY, names[1], stderr=errors)
        servers[1].terminate()
        assert servers[1].wait(timeout=240) == 0
        assert gateway.wait(timeout=240) == 1
        errors.seek(0)
        assert "local server 0: Broken pipe" in errors.read()
    usage = subprocess.run([GATEWAY], capture_output=True, text=True)
    assert usage.returncode == 2 and usage.stderr.count("\n") == 1, usage
    missing = subprocess.run([GATEWAY, "no-such-server"], capture_output=True, text=True)
    assert missing.returncode == 1 and "no-such-server: No such file or directory\n" in missing.stderr, missing
finally:
    for child in children:
        child.kill()
for left in pathlib.Path("/dev/shm").glob(f"*gateway.{os.getpid()}*"):
    if names[0] not in left.name:  # a killed server leaves its region behind, until its next start
        sys.exit(f"{left} is left")
    left.unlink()
print("requests from the network are answered by local servers")
