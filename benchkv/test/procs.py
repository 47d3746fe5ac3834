# SPDX-License-Identifier: MIT
"""Reads the state of a job's processes and threads from /proc."""
import contextlib
import os
import re


def of_threads(pid, file):
    """The contents of this file of /proc for each thread of a process, by the thread's id."""
    found = {}
    for t in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError):  # a thread that has ended in the meantime
            found[t] = open(f"/proc/{pid}/task/{t}/{file}").read()
    return found


def threads(pid):
    """The names of a process's threads."""
    return [name.strip() for name in of_threads(pid, "comm").values()]


def resident(pid):
    """The largest resident memory of a process so far, in bytes."""
    return int(re.search(r"VmHWM:\s*(\d+) kB", open(f"/proc/{pid}/status").read()).group(1)) << 10


def asleep(pid):
    """The voluntary context switches of each thread that is no daemon. Empty unless all these threads sleep now."""
    found = {}
    for t, status in of_threads(pid, "status").items():
        if not status.startswith("Name:\tdaemon"):
            if "\nState:\tS" not in status:
                return {}
            found[t] = int(re.search(r"\nvoluntary_ctxt_switches:\t(\d+)", status).group(1))
    return found


def state(pid):
    """The state of a process as in proc(5): R, S, T (stopped) or another letter. None: there is no such process."""
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return None


def descends(p, ancestor):
    while p > 1:
        if p == ancestor:
            return True
        try:
            p = int(open(f"/proc/{p}/stat").read().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError):
            return False
    return False


def running(pid, prog):
    """The process pid and its descendants whose program is prog."""
    found = []
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            exe = os.readlink(f"/proc/{p}/exe")
        except OSError:
            continue
        if exe == os.path.realpath(prog) and descends(int(p), pid):
            found.append(int(p))
    return found


def rank_of(pid):
    """The rank of a process, as text. None if its environment does not exist yet, because it is just starting."""
    environ = open(f"/proc/{pid}/environ").read().split("\0")
    return next((e.removeprefix("PMIX_RANK=") for e in environ if e.startswith("PMIX_RANK=")), None)


def clients_in_run(pid):
    """The CPU time in ns of each client thread whose name shows that it is in a run."""
    used = {}
    try:
        for t in os.listdir(f"/proc/{pid}/task"):
            if re.fullmatch(r"client\d+/\d+\n", open(f"/proc/{pid}/task/{t}/comm").read()):
                used[t] = int(open(f"/proc/{pid}/task/{t}/schedstat").read().split()[0])
    except OSError:
        pass  # a thread that has ended in the meantime
    return used


def listening_ports(pid):
    """TCP ports at which a process listens."""
    inodes, ports = set(), set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            m = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{fd}"))
        except OSError:
            continue
        inodes |= {m[1]} if m else set()
    for table in "tcp", "tcp6":
        for line in open(f"/proc/{pid}/net/{table}").read().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in inodes:
                ports.add(int(words[1].rpartition(":")[2], 16))
    return ports
