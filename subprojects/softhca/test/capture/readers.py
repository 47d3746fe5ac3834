# SPDX-License-Identifier: MIT
"""Reads captures by tshark and scapy."""
import subprocess
import zlib

# The highest severity of what tshark prints of correct packets: a comment has a lower one, and this one stands at a source
# port of the kernel's choice that traceroute uses, too.
PI_CHAT = 0x00200000


def tshark(path):
    """Returns opcode and PSN of each packet, as tshark prints them. A complaint of tshark ends the test."""
    fields = ["infiniband.bth.opcode", "infiniband.bth.psn", "_ws.expert.severity", "_ws.malformed"]
    command = ["tshark", "-r", path, "-T", "fields", "--disable-protocol", "rpcordma"]
    command += ["-o", "udp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"]
    for f in fields:
        command += ["-e", f]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seen = []
    for line in out.splitlines():
        opcode, psn, severity, malformed = (line.split("\t") + [""] * 3)[:4]
        assert all(int(s) <= PI_CHAT for s in severity.split(",")), line
        assert not malformed, line
        seen.append((int(opcode, 0), int(psn, 0)))
    return seen


def scapy_icrc(packet):
    """Returns the ICRC of a packet with an IPv6 header. Scapy's RoCE layer computes it for IPv4 only."""
    from scapy.contrib.roce import BTH
    from scapy.layers.inet import UDP
    from scapy.packet import Raw

    masked = packet.copy()
    masked.tc, masked.fl, masked.hlim, masked[UDP].chksum = 0xFF, 0xFFFFF, 0xFF, 0xFFFF
    bth = masked[BTH]
    bth.fecn, bth.becn, bth.resv6 = 1, 1, 0x3F
    masked[UDP].payload = Raw(bth.self_build() + bytes(bth.payload))
    return zlib.crc32(b"\xff" * 8 + bytes(masked)).to_bytes(4, "little")


def scapy_agrees(packets):
    from scapy.contrib.roce import BTH
    from scapy.layers.inet import IP
    from scapy.layers.inet6 import IPv6

    for p in packets:
        again = (IP if p.ip == 4 else IPv6)(p.raw)
        if p.ip == 4:
            again[BTH].icrc = None
            assert bytes(again) == p.raw, p
        else:
            assert scapy_icrc(again) == p.raw[-4:], p
