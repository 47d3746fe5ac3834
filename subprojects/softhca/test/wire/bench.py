# SPDX-License-Identifier: MIT
"""bench.py SOFTHCA-RUN UDP-PINGPONG: round trips and rates between two hosts, compared with plain UDP.

Each figure is the median of several turns; each turn measures all variants one after the other.
"""
import os
import re
import statistics
import sys

import hosts

RUN, UDP = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
TURNS, SIZES = 5, (64, 4096)


def plain(a, b, how, size, rounds):
    server = hosts.Program([*a.prefix, UDP, how, str(size), str(rounds)], {})
    while not udp_bound(a):
        assert server.running()
    us = float(hosts.Program([*b.prefix, UDP, how, str(size), str(rounds), a.address], {}).end())
    server.process.kill()
    server.process.communicate()
    return us


def udp_bound(host):
    with open(f"/proc/{host.pid}/net/udp") as f:
        return any(":12B6 " in line.split("00000000:0000")[0] for line in f)


def pingpong(a, b, size, rounds, *options):
    said = hosts.pair(a, b, "ibv_rc_pingpong", "-g", "0", "-s", str(size), "-m", "4096", "-n",
                      str(rounds), *options, port=18515)[1]
    return float(re.search(r"([\d.]+) usec/iter", said)[1])


def bandwidth(a, b, tool):
    said = hosts.pair(a, b, tool, "-x", "0", "-s", "65536", "-n", "500", port=18515)[1]
    return float(said.strip().split("\n")[-2].split()[3])


def main():
    rows = {}
    with hosts.Network(RUN) as (a, b):
        for _ in range(TURNS):
            for size in SIZES:
                for how, options in (("sleep", ["-e"]), ("poll", [])):
                    row = rows.setdefault((how, size), ([], []))
                    row[0].append(plain(a, b, how, size, 500))
                    row[1].append(pingpong(a, b, size, 500, *options))
            for tool in ("ib_write_bw", "ib_read_bw", "ib_send_bw"):
                rows.setdefault(tool, []).append(bandwidth(a, b, tool))
    print(f"{'':8}{'bytes':>6}{'UDP, us':>10}{'RC, us':>10}{'ratio':>8}")
    for (how, size), (udp, rc) in [r for r in rows.items() if isinstance(r[0], tuple)]:
        udp, rc = statistics.median(udp), statistics.median(rc)
        print(f"{how:8}{size:6}{udp:10.1f}{rc:10.1f}{rc / udp:8.1f}")
    for tool in ("ib_write_bw", "ib_read_bw", "ib_send_bw"):
        print(f"{tool:14}65536{statistics.median(rows[tool]):9.0f} MB/s")
    return 0


sys.exit(hosts.run(main))
