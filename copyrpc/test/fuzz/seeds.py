# SPDX-License-Identifier: MIT
"""seeds.py DIR: writes the beginning of a connection blob as a seed, because the fuzzer's time is short."""

import sys

with open(f"{sys.argv[1]}/blob", "wb") as f:
    f.write(b"CPRPCINF\x01\x00\x60\x00".ljust(96, b"\0"))
