# SPDX-License-Identifier: MIT
"""seeds.py DIR: what a connection blob begins with, as the fuzzer's time is short."""

import sys

with open(f"{sys.argv[1]}/blob", "wb") as f:
    f.write(b"CPRPCINF\x01\x00\x60\x00".ljust(96, b"\0"))
