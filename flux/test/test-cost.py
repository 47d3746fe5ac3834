# SPDX-License-Identifier: MIT
"""The number of instructions of a round trip does not depend on the number of nodes, and no call or reply contains
a locked operation or a fence.

	test-cost.py TEST-COST LIBFLUX
"""
import re
import subprocess
import sys

sys.path.insert(0, sys.path[0] + "/../../test/support")
from callgrind import collected  # noqa: E402

program, library = sys.argv[1:]
LOCKED = re.compile(r"\b(lock|mfence|sfence|lfence|xchg\s.*\()")


def per_call(nodes):
    """Returns the instructions per call, not counting those of flux_create() and of the rings' first lap."""
    return (collected(program, nodes, 12800)[1] - collected(program, nodes, 6400)[1]) / 6400


def code(function, where):
    out = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", f"--disassemble={function}", where],
        capture_output=True, text=True, check=True,
    ).stdout
    return [line.split("\t", 1)[1] for line in out.splitlines() if "\t" in line]


failed = False
for function, where in [("send", program), ("answer", program), ("flux_priv_call_begin", library),
                        ("flux_priv_reply_begin", library), ("flux_priv_burst_publish", library)]:
    lines = code(function, where)
    bad = [line for line in lines if LOCKED.search(line)]
    print(f"{function}: {len(lines)} instructions; locked ones and fences among them: {bad}")
    failed |= bool(bad) or len(lines) < 10
few, many = per_call(2), per_call(256)
print(f"instructions per call and response: {few:.1f} with 2 nodes, {many:.1f} with 256")
failed |= few < 10 or many > few * 1.1
sys.exit(failed)
