# SPDX-License-Identifier: MIT
"""Checks the number of messages per published burst, and the number of instructions per call in rpcbench_step(), which
makes calls, serves them and polls. One thread steps the whole mesh, so the counts are the same in each run.

	test-mesh-cost.py FLUX-BENCH
"""
import json
import sys

sys.path.insert(0, sys.path[0] + "/../../test/support")
from callgrind import collected  # noqa: E402

# Each row: number of nodes, calls in flight of each, pattern, least messages per burst, most instructions per
# call.
CELLS = [
    (4, 1, "turn", 1, 970),
    (8, 8, "turn", 1, 560),
    (8, 64, "turn", 4, 355),
    (8, 64, "random", 4, 360),
    (8, 64, "hot:1", 4, 385),
    (16, 64, "servers:2", 5, 295),
]


def measure(nodes, depth, pattern):
    """Returns messages per burst, and instructions per call."""
    text, n = collected(sys.argv[1], "--mesh", nodes, "--queue-depth", depth, "--mesh-pattern", pattern, "--step", 3000,
                        "--seconds", .001, "--peer", "none", "--json", "-", flags=["--toggle-collect=rpcbench_step"])
    row = json.loads(text)
    return row["per_burst"], n / row["rpcs"]


failed = False
for nodes, depth, pattern, least, most in CELLS:
    per_burst, each = measure(nodes, depth, pattern)
    print(f"{nodes} nodes, depth {depth}, {pattern}: {per_burst:.2f} messages per burst (at least {least}), "
          f"{each:.0f} instructions per call (at most {most})")
    failed |= per_burst < least or each > most
sys.exit(failed)
