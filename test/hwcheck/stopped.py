# SPDX-License-Identifier: MIT
"""A signal to hw-check ends the programs that it runs.

    stopped.py HW-CHECK BUILD
"""
import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile

MARK = f"HWCHECK_STOPPED={os.getpid()}"


def left():
    """The processes that hw-check has started, whatever their parent is now."""
    found = []
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            if MARK.encode() in pathlib.Path(f"/proc/{p}/environ").read_bytes().split(b"\0"):
                found.append(int(p))
        except OSError:
            pass  # it has ended, or is another user's
    return found


def serves():
    """True if the program that hw-check has announced runs."""
    try:
        return any(pathlib.Path(f"/proc/{p}/comm").read_text() == "copyrpc-bench\n" for p in left())
    except OSError:
        return False  # one of them has ended


def await_end(pid):
    try:
        end = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    select.select([end], [], [], 10)
    os.close(end)


def stop(sig):
    """Sends the signal to hw-check --serve, which waits for a peer for ever, and checks that no process is left."""
    argv = [sys.argv[1], "--serve", "--softhca", "--steps", "copyrpc", "--build", sys.argv[2]]
    with tempfile.TemporaryFile("w+") as said:
        proc = subprocess.Popen(argv, env=os.environ | dict([MARK.split("=")]), stdout=subprocess.PIPE, stderr=said, text=True)
        line = proc.stdout.readline()  # precedes the start of the program
        while proc.poll() is None and not serves():
            os.sched_yield()
        proc.send_signal(sig)
        proc.wait()
        said.seek(0)
        err = said.read()
    for p in left():
        await_end(p)
    behind = left()
    for p in behind:
        os.kill(p, signal.SIGKILL)
    if behind or proc.returncode != 128 + sig or "Traceback" in err or not line.startswith("waiting: "):
        sys.exit(f"{sig.name}: status {proc.returncode}, {len(behind)} processes left: {line}{err}")


for s in signal.SIGTERM, signal.SIGINT:
    stop(s)
