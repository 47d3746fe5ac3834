# SPDX-License-Identifier: MIT
"""Reads what a capture has written: its packets with their comments, and their RoCEv2 fields."""
import struct
import zlib
from collections import namedtuple

Packet = namedtuple("Packet", "interface raw comment ip udp opcode psn qpn ack_req aeth payload pkey")

HEADERS = {  # bytes between BTH and payload, by operation
    **{op: 0 for op in (0, 1, 2, 4, 7, 8, 14)},
    **{op: 4 for op in (3, 5, 9, 13, 15, 16, 17)},
    **{op: 16 for op in (6, 10, 12)},
    11: 20,
    18: 12,
    **{op: 28 for op in (19, 20)},
}


def icrc(raw, head):
    """Returns the ICRC of an IP packet whose BTH begins at @head."""
    b = bytearray(raw[:-4])
    if b[0] >> 4 == 4:
        for i in (1, 8, 10, 11):
            b[i] = 0xFF
    else:
        b[0] |= 0x0F
        for i in (1, 2, 3, 7):
            b[i] = 0xFF
    b[head - 2] = b[head - 1] = b[head + 4] = 0xFF
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + bytes(b)))


def decode(interface, raw, comment):
    ip = raw[0] >> 4
    head = 28 if ip == 4 else 48
    length = struct.unpack_from("!H", raw, 2 if ip == 4 else 4)[0] + (0 if ip == 4 else 40)
    assert length == len(raw), "IP length"
    sport, dport, udp_length, _ = struct.unpack_from("!4H", raw, head - 8)
    assert dport == 4791 and udp_length == len(raw) - head + 8, "UDP header"
    assert raw[-4:] == icrc(raw, head), "ICRC"
    word, qpn, psn = struct.unpack_from("!III", raw, head)
    opcode, pad = word >> 24, word >> 20 & 3
    start = head + 12 + HEADERS[opcode & 31] + (8 if opcode >> 5 == 3 else 0)
    aeth = struct.unpack_from("!I", raw, head + 12)[0] if opcode in range(13, 19) else None
    payload = raw[start : len(raw) - 4 - pad]
    return Packet(
        interface, raw, comment, ip, sport, opcode, psn & 0xFFFFFF, qpn, psn >> 31, aeth, payload,
        word & 0xFFFF
    )


def read(data):
    """Returns the packets of a file; every block must be whole."""
    packets, interfaces, at = [], 0, 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        assert at + length <= len(data), f"block at {at} is cut off"
        assert struct.unpack_from("<I", data, at + length - 4)[0] == length, "length at the end"
        if kind == 1:
            interfaces += 1
        if kind == 6:
            number, _, _, n, whole = struct.unpack_from("<5I", data, at + 8)
            assert number < interfaces and n == whole
            raw = data[at + 28 : at + 28 + n]
            option = at + 28 + (n + 3 & ~3)
            code, m = struct.unpack_from("<HH", data, option)
            assert code == 1, "a packet has no comment"
            packets.append(decode(number, raw, data[option + 4 : option + 4 + m].decode()))
        at += length
    return packets
