# SPDX-License-Identifier: MIT
"""rxe.py SOFTHCA-RUN PEER RECORDS [KERNEL-PACKAGE...]: the software HCA and the kernel's rdma_rxe, against
each other.

A network namespace is the software HCA's host, a guest (guest.py) is rxe's. Each program is run as a pair of
server and client, with the server at either host. All pairs are run without faults, and some (FAULTY) also with
packets lost, doubled and late each way. If something that the test needs is missing, the test names it and is
skipped.

A pair that fails leaves the capture of the software HCA's side and the guest's kernel log in directory RECORDS.
"""
import collections
import contextlib
import ctypes
import os
import re
import select
import shutil
import signal
import socket
import struct
import sys
import tempfile
import threading
import time

import guest as guests
import hosts

GUARD_S = 7100  # these three only guard against hanging
PAIR_GUARD_S = 600
QUIET_LOOKS = 8
TRIES = 10  # for a pair that fails for a known reason; see Matrix.known()
PACE_S = 0.02
GUEST, GUEST_IPV6 = "10.99.0.2", "fd99:0::2"

# GID and GID6: the index of the end's IPv4 and IPv6 GID. -F: perftest accepts that the guest has no steady clock.
# -u, and -t of PEER: a QP's timeout, long because a loaded machine answers late. The pingpongs always use 14.
PATH_MTUS = (256, 512, 1024, 2048, 4096)
CASES = [
    *[f"ibv_rc_pingpong -g GID -c -n 30 -s 10000 -m {mtu}" for mtu in PATH_MTUS],
    "ibv_rc_pingpong -g GID -c -n 30 -e",
    "ibv_srq_pingpong -g GID -c -n 30 -q 4",
    "ibv_ud_pingpong -g GID -c -n 30 -s 1024",
    "ib_send_lat -F -x GID -u 19 -n 20",
    "ib_send_lat -F -x GID -u 19 -n 20 -c UD",
    "ib_send_bw -F -x GID -u 19 -n 30 -c UD -s 1024",
    "ib_send_bw -F -x GID -u 19 -n 30 -s 65536",
    "ib_write_lat -F -x GID -u 19 -n 20",
    "ib_write_bw -F -x GID -u 19 -n 30 -q 2 -s 65536",
    "ib_read_lat -F -x GID -u 19 -o 4 -n 20",
    "ib_read_bw -F -x GID -u 19 -o 4 -n 30 -s 65536",
    "ib_atomic_lat -F -x GID -u 19 -o 4 -n 20",
    "ib_atomic_bw -F -x GID -u 19 -o 4 -n 30 -A CMP_AND_SWAP",
    *[f"PEER -g GID -f -t 17 -n 200 -m {code}" for code in range(1, 6)],
    "PEER -g GID -f -t 17 -n 100 -q 4 -s",
    "ibv_rc_pingpong -g GID6 -c -n 30 -s 10000 -m 4096",
    "ibv_ud_pingpong -g GID6 -c -n 30 -s 1024",
    "ib_write_bw -F -x GID6 -u 19 -n 30 -s 65536",
    *[f"PEER -g GID6 -f -t 17 -n 200 -m {code}" for code in (1, 5)],
]
FAULTY = [
    "ibv_rc_pingpong -g GID -c -n 200 -s 10000 -m 1024",
    "ib_send_bw -F -x GID -u 17 -n 50 -s 65536",
    "ib_write_bw -F -x GID -u 17 -n 50 -s 65536",
    "ib_read_bw -F -x GID -u 17 -o 4 -n 50 -s 65536",
    "ib_atomic_bw -F -x GID -u 17 -o 4 -n 200",
    "PEER -g GID -f -t 17 -n 300",
    "PEER -g GID -f -t 17 -n 100 -q 4 -s -m 1",
    "PEER -g GID6 -f -t 17 -n 150",
]
FAULTY_MTUS = [f"PEER -g GID -f -t 17 -n 150 -m {code}" for code in (2, 4, 5)]
# Faults of packets: a name, the fault rules of the software HCA, the arguments of netem in the guest, counters of
# rxe that must increase, and the cases.
FAULTS = [
    ("1 % lost", "lost=1", "loss 1%", ("out_of_seq_request", "rcvd_seq_err"), FAULTY + FAULTY_MTUS),
    ("2 % twice", "twice=2", "duplicate 2%", ("duplicate_request",), FAULTY),
    ("2 % late", "late=2", "delay 2ms reorder 98%", ("out_of_seq_request", "rcvd_seq_err"), FAULTY),
    ("1 % lost, 1 % twice, 1 % late", "lost=1 twice=1 late=1",
     "loss 1% duplicate 1% delay 2ms reorder 99%", ("out_of_seq_request", "duplicate_request"), FAULTY),
]


class Pace:
    """
    Sends echo requests to the guest's kernel all the time. A silence means that the guest does not run, or that
    this machine has no time for this process.
    """
    ECHO = struct.pack("!BBHI", 8, 0, 0xF7FF, 0)

    def __init__(self, namespace, address):
        self.namespace, self.address = namespace, address
        self.silences, self.last, self.over = [], time.monotonic(), False
        threading.Thread(target=self.work, daemon=True).start()

    def work(self):
        with open(f"/proc/{self.namespace}/ns/net") as f:
            assert not ctypes.CDLL(None).setns(f.fileno(), 0), "setns has failed"
        s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        s.connect((self.address, 0))
        while not self.over:
            due = time.monotonic() + PACE_S
            with contextlib.suppress(OSError):  # not even ARP is answered
                s.send(self.ECHO)
            while select.select([s], [], [], max(0, due - time.monotonic()))[0]:
                with contextlib.suppress(OSError):
                    s.recv(4096)
                    self.answered(time.monotonic())

    def answered(self, now):
        if now - self.last > 5 * PACE_S:
            self.silences.append((now, now - self.last))
        self.last = now

    def longest(self, since):
        """Returns the longest silence that has ended after @since, or still lasts."""
        return max([gap for at, gap in self.silences if at > since] + [time.monotonic() - self.last])


class Software(hosts.Host):
    """The software HCA's host. @rules: a percentage for each kind of fault."""
    rules, guard, capture = "", None, ""

    def start(self, *program, env={}):
        rules = [f"action=packet_{kind} count=0 percent={percent} seed={n}"
                 for n, (kind, percent) in enumerate((r.split("=") for r in self.rules.split()), 1)]
        gids = {"GID": "0", "GID6": "1"}
        p = super().start(*(gids.get(word, word) for word in program),
                          env={**env, "SOFTHCA_FAULTS": ";".join(rules), "SOFTHCA_CAPTURE": self.capture})
        return self.guard.watch(p) if self.guard else p

    def datagrams(self):
        """Returns the number of UDP packets that came and went. In this namespace all of them are RoCE."""
        with open(f"/proc/{self.pid}/net/snmp") as v4, open(f"/proc/{self.pid}/net/snmp6") as v6:
            names, values = [line.split() for line in v4 if line.startswith("Udp:")]
            counters = {**dict(zip(names, values)), **dict(line.split() for line in v6)}
        return sum(int(counters[name]) for name in ("InDatagrams", "OutDatagrams", "Udp6InDatagrams",
                                                    "Udp6OutDatagrams"))


class Patience:
    """
    A call returns None while the test should wait for the programs of a pair, otherwise the reason to stop. A check
    that finds no traffic runs a command in the guest. So the next check comes only after the guest has run, and a
    guest that does not run is not taken for a program that hangs.
    """

    def __init__(self, software, guest):
        self.software, self.guest, self.began = software, guest, time.monotonic()
        self.seen, self.quiet, self.programs = software.datagrams(), 0, []

    def watch(self, program):
        program.guard = self
        self.programs.append(program)
        return program

    def __call__(self):
        assert self.guest.qemu.running(), "the guest has ended"
        if any(p.process.poll() for p in self.programs):
            return "the other end has failed"
        if time.monotonic() - self.began > PAIR_GUARD_S:
            return f"the program has not ended in {PAIR_GUARD_S} s; the last {self.quiet} checks saw no packet"
        seen, before = self.software.datagrams(), self.seen
        self.seen = seen
        self.quiet = self.quiet + 1 if seen == before else 0
        if self.quiet:
            self.guest.shell("true").end()
        return f"no packet has moved in {self.quiet} checks" if self.quiet > QUIET_LOOKS else None


def retries_take(case):
    """Returns how long, in s, a silence must be for a QP of the case to use up most of its 7 retries."""
    said = re.search(r" -[ut] (\d+)", case)
    return 6 * 4.096e-6 * 2 ** (int(said[1]) if said else 14)


class Matrix:
    """Runs pairs of programs and counts their results."""

    def __init__(self, software, guest, peer, records):
        self.software, self.guest, self.peer, self.records = software, guest, peer, records
        self.pace = Pace(software.pid, guest.address)
        self.counted = collections.Counter()  # by rxe
        self.results = collections.Counter()

    def run(self, faults, cases):
        for case in cases:
            for server, client, way in ((self.guest, self.software, "rxe serves"),
                                        (self.software, self.guest, "rxe asks")):
                name = f"{faults}, {way}: {case}"
                for _ in range(TRIES):
                    result = self.attempt(server, client, name, case)
                    self.results[result] += 1
                    if result in ("ok", "FAILED"):
                        break
                else:
                    print(f"{name}: FAILED: {TRIES} times")
                    self.results["FAILED"] += 1

    def attempt(self, server, client, name, case):
        """Runs a pair. Returns "ok", "FAILED", or the known reason for which it has failed."""
        self.guest.forget_messages()
        began, before, result, why = time.monotonic(), self.guest.counters(), "ok", ""
        try:
            self.pair(server, client, case)
        except AssertionError as e:
            why = f": {e}"
            result = self.known(case, why, began) or "FAILED"
            self.keep(name)
        counted = self.guest.counters()
        counted.subtract(before)
        self.counted.update(counted)
        print(f"{name}: {result}{why} ({time.monotonic() - began:.1f} s, longest silence "
              f"{self.pace.longest(began):.1f} s; {dict(+counted)})", flush=True)
        return result

    def known(self, case, why, began):
        """Returns the known reason for which a pair has failed, if there is evidence of it."""
        unanswered = "transport retry counter exceeded" in why or "Failed status 12" in why
        if unanswered and self.pace.longest(began) > retries_take(case):
            return "guest starved"
        if unanswered and self.software.rules and re.search(r"\d+ iters in ", why):
            return "last acknowledgement lost"  # the other end has received all, and has exited
        if re.search(r"WARNING: .* rxe_completer", self.guest.shell("dmesg").end()):
            return "rxe completed a failed request with success"
        return None

    def pair(self, server, client, case):
        program = case.replace("PEER", self.peer).split()
        self.software.guard = self.guest.guard = Patience(self.software, self.guest)
        said = hosts.pair(server, client, *program, port=4444 if "PEER" in case else 18515)
        assert "PEER" not in case or all("all is right" in s for s in said), said

    def keep(self, name):
        """Keeps the records of a pair that has failed, and ends its programs that still run in the guest."""
        os.makedirs(self.records, exist_ok=True)
        path = os.path.join(self.records, re.sub(r"\W+", "-", name))
        if os.path.exists(self.software.capture):
            shutil.copy(self.software.capture, path + ".pcapng")
        names = " ".join(os.path.basename(p) for p in [self.peer, *guests.TOOLS])
        with open(path + ".log", "w") as f:
            f.write(self.guest.shell(f"killall -q -9 {names}; dmesg").end())


def all_pairs(software, guest, peer, records):
    """Returns the number of failures."""
    matrix = Matrix(software, guest, peer, records)
    matrix.run("no faults", CASES)
    for name, software.rules, netem, shown_by, cases in FAULTS:
        guest.shell(f"{shutil.which('tc')} qdisc replace dev eth0 root netem {netem}").end()
        matrix.counted.clear()
        matrix.run(name, cases)
        idle = [counter for counter in shown_by if not matrix.counted[counter]]
        if idle:
            print(f"{name}: rxe has not counted any {', '.join(idle)}")
            matrix.results["FAILED"] += 1
    matrix.pace.over = True
    print(", ".join(f"{n} {result}" for result, n in matrix.results.items()))
    return matrix.results["FAILED"]


def run(tmp, runner, peer, records, package):
    software = Software(tmp, 1, runner, hosts.tell_listen(runner), ipv6=True)
    software.capture = os.path.join(tmp, "capture")
    try:
        for words in ("link set lo up", "tuntap add wire0 mode tap", "link set wire0 mtu 9000 up",
                      f"addr add {software.address}/24 dev wire0",
                      *(f"addr add {a}/64 dev wire0 nodad" for a in software.ipv6[0])):
            hosts.ip(*words.split(), pid=software.pid)
        guest = guests.Guest(tmp, package, peer, GUEST, GUEST_IPV6, software.prefix)
        kernel = guest.shell("uname -r").end().strip()
        print("rxe of Linux", kernel, flush=True)
        failed = all_pairs(software, guest, peer, os.path.join(records, kernel))
        guest.qemu.process.kill()
        return failed
    finally:
        hosts.end_all()
        software.keeper.stdin.close()
        software.keeper.wait()


def main():
    for sig in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT):
        signal.signal(sig, lambda number, _: sys.exit(f"ended by {signal.Signals(number).name}"))
    signal.alarm(GUARD_S)
    if not hosts.possible():
        return hosts.SKIP
    runner, peer, records, *packages = [os.path.abspath(path) for path in sys.argv[1:]]
    packages = packages or guests.kernel_packages()
    lacks = guests.missing()
    if not packages:
        lacks.append(f"{guests.CACHE}/linux-image-*-amd64_*.deb (apt-get download)")
    if lacks:
        print("needs", ", ".join(lacks))
        return hosts.SKIP
    failed = 0
    for package in packages:
        with tempfile.TemporaryDirectory() as tmp:
            failed += run(tmp, runner, peer, records, package)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
