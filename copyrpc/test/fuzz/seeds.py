# SPDX-License-Identifier: MIT
"""seeds.py DIR: writes the first inputs of both fuzzers: the beginning of a connection blob, and those of batch.txt,
because the time is too short for the fuzzer to find them anew."""

import pathlib
import re
import sys

to = pathlib.Path(sys.argv[1])
(to / "blob").write_bytes(b"CPRPCINF\x01\x00\x60\x00".ljust(96, b"\0"))
text = (pathlib.Path(__file__).parent / "batch.txt").read_text()
inputs = re.findall(r"^[0-9a-f]+(?:\n [0-9a-f]+)*", text, re.M)
for number, digits in enumerate(inputs):
    (to / f"batch-{number}").write_bytes(bytes.fromhex(digits))
