# SPDX-License-Identifier: MIT
"""foreign.py PEER STRANGER TARGET [PID|flood]: sends packets to TARGET that change nothing there, until it is killed.

PEER and STRANGER are addresses of this host; PEER's QPs are connected to those of TARGET. PID: a process of TARGET's
host; packets are sent only while few wait there, so that none is lost because a queue is full. flood: garbage from
STRANGER only, as fast as the host can send it.
"""
import os
import random
import socket
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../capture"))
import pcapng  # noqa: E402


def sealed(source, port, target, bth):
    """The packet with its ICRC, as the socket sends it."""
    length = 8 + len(bth) + 4
    if ":" in target:
        ends = [socket.inet_pton(socket.AF_INET6, a) for a in (source, target)]
        raw = struct.pack("!IHBB16s16s", 6 << 28, length, 17, 64, *ends)
    else:
        ends = [socket.inet_aton(a) for a in (source, target)]
        raw = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + length, 0, 0x4000, 64, 17, 0, *ends)
    head = len(raw) + 8
    raw += struct.pack("!HHHH", port, 4791, length, 0) + bth + bytes(4)
    return bth + pcapng.icrc(raw, head)


WAITING = 65536  # bytes that may wait in a socket of the target; its queue is larger


def waiting(table):
    """Returns how many bytes wait in the sockets of this table (/proc/PID/net/udp) that receive RoCE packets."""
    with open(table) as f:
        rows = [line.split() for line in f.readlines()[1:]]
    return max((int(r[4].split(":")[1], 16) for r in rows if r[1].endswith(":12B7")), default=0)


def bth(opcode, qpn, psn, flags=0x40, rest=b""):
    return struct.pack("!BBHII", opcode, flags, 0xFFFF, qpn, psn & 0xFFFFFF | 1 << 31) + rest


def main():
    peer, stranger, target = sys.argv[1:4]
    pace = sys.argv[4] if sys.argv[4:] else ""
    table = f"/proc/{pace}/net/udp{'6' if ':' in target else ''}"
    rng = random.Random(1)
    sockets = {}
    for address in (peer, stranger):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        s = socket.socket(family, socket.SOCK_DGRAM)
        if family == socket.AF_INET:
            s.setsockopt(socket.IPPROTO_IP, 10, 3)  # IP_MTU_DISCOVER, IP_PMTUDISC_PROBE
        s.bind((address, 0))
        sockets[address] = s

    def send(address, packet, icrc=True):
        s = sockets[address]
        if icrc:
            packet = sealed(address, s.getsockname()[1], target, packet)
        s.sendto(packet, (target, 4791))

    print("running", flush=True)
    while pace == "flood":
        send(stranger, b"garbage", icrc=False)
    while True:
        while pace and waiting(table) > WAITING:
            os.sched_yield()
        psn = 0xFFFFF0 + rng.randrange(1500)
        text = b"foreign!" * rng.randrange(1, 8)
        reth = struct.pack("!QII", rng.getrandbits(64), rng.getrandbits(32), len(text))
        qpn = 0x40 + rng.randrange(2)
        send(stranger, bth(4, qpn, psn, rest=text))  # a SEND, correct except for its sender
        send(stranger, bth(17, qpn, psn, rest=b"\x1f\0\0\0"))  # an acknowledgement
        send(stranger, bth(17, qpn, psn, rest=b"\x62\0\0\0"))  # a NAK
        send(peer, bth(4, qpn, psn, rest=text) + b"bad!", icrc=False)
        send(peer, bth(4, qpn + 99, psn, rest=text))  # no such QP
        send(peer, bth(4, qpn + (1 << 14), psn, rest=text))  # the number of an earlier or later QP
        send(peer, bth(0x24, qpn, psn, rest=text))  # UC
        send(peer, bth(0x64, qpn, psn, rest=bytes(8) + text))  # UD
        send(peer, bth(21 + rng.randrange(10), qpn, psn, rest=text))  # not an operation
        send(peer, bth(4, qpn, psn, flags=0x41, rest=text))  # another version
        send(peer, bth(10, qpn, psn, rest=reth[: rng.randrange(16)]))  # cut off
        send(peer, bth(4, qpn, psn, rest=text)[: 5 + rng.randrange(7)])
        send(peer, bth(17, qpn, 0x7FFFFF, rest=b"\x1f\0\0\0"))  # acknowledges a packet that was never sent
        send(peer, bth(10, qpn, 0x800010, rest=reth + text))  # a PSN far behind or far ahead
        send(peer, rng.randbytes(rng.randrange(1, 200)), icrc=False)
        send(peer, b"", icrc=False)
        send(peer, bth(4, qpn, psn, rest=bytes(4400)))  # longer than any packet


main()
