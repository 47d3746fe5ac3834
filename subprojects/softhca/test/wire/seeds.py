# SPDX-License-Identifier: MIT
"""seeds.py DIR: inputs for fuzz-wire.c: packets of each operation that fit the first messages."""

import itertools
import struct
import sys

HEADER_BYTES = {3: 4, 5: 4, 6: 16, 9: 4, 10: 16, 11: 20, 12: 16, 13: 4, 15: 4, 16: 4, 17: 4, 18: 12,
                19: 28, 20: 28}
BEFORE = {1: [0], 2: [0, 1], 3: [0, 1], 7: [6], 8: [6, 7], 9: [6, 7], 14: [13], 15: [13, 14]}
AETH = range(13, 19)
EMPTY = (12, 17, 18, 19, 20)
LAST = (2, 3, 8, 9, 15)
ACK = 17
FIRST_PSN = 0xfffffc
MTU = 256


def packet(op, psn, payload, syndrome=0):
    header = struct.pack("!QII12x", 8, 0x1234, 600)[: HEADER_BYTES.get(op, 0)]
    if op in AETH:
        header = struct.pack("!I", syndrome << 24).ljust(len(header), b"\0")
    bth = struct.pack("!III", op << 24 | 0x40ffff, 1, psn & 0xffffff)
    data = bth + header + payload * b"x"
    return struct.pack("<H", len(data)) + data


def payload_of(op):
    if op in EMPTY:
        return 0
    return 88 if op in LAST else MTU


def one(kind, op, syndrome):
    """Returns packets: those that must precede the operation, the operation twice, and an answer to it."""
    before = BEFORE.get(op, [])
    chain = [packet(first, FIRST_PSN + i, MTU) for i, first in enumerate(before)]
    last = packet(op, FIRST_PSN + len(before), payload_of(op), syndrome)
    return b"\x08" + bytes([kind] * 8) + b"".join(chain) + last + last + packet(ACK, 0xffffff, 0, syndrome)


for kind, op, syndrome in itertools.product(range(6), range(21), (0x1f, 0x20, 0x60, 0x61, 0x62)):
    with open(f"{sys.argv[1]}/{kind}-{op}-{syndrome}", "wb") as f:
        f.write(one(kind, op, syndrome))
