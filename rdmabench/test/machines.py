#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""rdmabench between machines: network namespaces with fabrics of their own, and a stand-in for ssh.

    machines.py WIRE-HOSTS RDMABENCH SOFTHCA-RUN [CASE...]
"""
import json
import os
import sys

sys.path.insert(0, sys.argv[1])
import hosts  # noqa: E402
import support  # noqa: E402

exe, runner = map(os.path.abspath, sys.argv[2:4])
FIXED = ["0.process_num=2", "*.qp_num=4", "0.requests=1", "0.request0.op=s", "0.request0.size=4096", "0.qp_type=RC", "*.bidirectional=0",
         "*.control=none", "*.qp_timeout=16", "0.events=0", "0.burst=0", "*.mtu=1024"]


def stand_in(tmp, machines):
    """Writes a program ssh that runs a command on a machine as long as tmp has a file with the machine's name."""
    lines = ["#!/bin/sh", 'while [ "$1" != -- ]; do shift; done', 'echo "$2" >>' + str(tmp / "called"),
             f'[ -e {tmp}/"$2" ] || exit 255', "case $2 in"]
    for m in machines:
        (tmp / m.name).touch()
        lines.append(f'{m.name}) exec {" ".join(m.runner)} sh -c "$3";;')
    (tmp / "ssh").write_text("\n".join([*lines, "esac", ""]))
    (tmp / "ssh").chmod(0o755)
    return {"PATH": f"{tmp}:{os.environ['PATH']}"}


def line(log, *args, fixed=()):
    return [exe, "search", "--log", log, "--program", exe, "-D", ".05", "--gbps", 0, "--packets", 0, "--no-features", *args,
            *(f"--fix={f}" for f in (*FIXED, *fixed))]


def result(path):
    """Returns the figures of a result by their names."""
    return dict(x.split(":  ") for x in path.read_text().splitlines() if ":  " in x)


def by_ssh(tmp):
    """Both ends are on other machines than the search, three in all; flows go both ways, and loopback stays on the first."""
    with hosts.Network(runner, n=3, topology="mtu=1024") as machines:
        a, b, c = machines
        env = stand_in(tmp, machines)
        ends = ["--host", a.name, "--address", a.address, "--peer", f"{b.name}={b.address}", "--peer", f"{c.name}={c.address}"]
        for way, calls in (("reverse", [4, 2, 2]), ("loopback", [4, 1, 1])):
            more = ["1.process_num=2", f"1.direction={way}", "1.requests=1", "1.request0.op=s", "1.qp_type=RC", "1.control=none"]
            # On a busy machine the first machine may receive nothing in a short time.
            for seconds in (.05, .5, 5):
                log = tmp / f"{way}-{seconds}"
                (tmp / "called").write_text("")
                args = line(log, "--tries", 1, "--json", "-", "-D", seconds, *ends, fixed=more)
                o = json.loads(support.run(*args, env=env).stdout)
                assert o["failures"] == 0 and o["measurements"] == 1, o
                figures = result(log / "result" / "0")
                if float(figures["rx_vport_rdma_unicast_bytes"]) > 0:
                    break
            # The latencies of all clients, and the counters of the first machine.
            assert figures["source"] == "port" and float(figures["tx_vport_rdma_unicast_bytes"]) > 0, figures
            assert float(figures["rx_vport_rdma_unicast_bytes"]) > 0 and int(figures["latency_samples"]) > 0, figures
            script = (log / "reproduce" / "0.sh").read_text().splitlines()
            assert len([x for x in script if "'ssh'" in x]) == sum(calls), script
            called = (tmp / "called").read_text().split()
            # Pairs of engines use the machines at the other end in turn.
            assert [called.count(m.name) for m in machines] == calls, called


def served(tmp):
    """Engines that a user has started serve one measurement after another; they have no reverse flows."""
    with hosts.Network(runner, topology="mtu=1024") as (a, b):
        server = b.start(exe, "engine", "--serve")
        server.await_listener(18515)
        command = line(tmp / "served", "--tries", 2, "--json", tmp / "json", "--server", b.address, fixed=["1.direction=none"])
        a.start(*map(str, command)).end()
        o = json.loads((tmp / "json").read_text())
        assert o["tries"] == 2 and o["failures"] == 0, o
        for i in range(2):
            figures = result(tmp / "served" / "result" / str(i))
            assert float(figures["tx_vport_rdma_unicast_bytes"]) > 0 and int(figures["latency_samples"]) > 0, figures
        said = server.stop()
        assert "error" not in said, said
    r = support.run(*line(tmp / "none", "--server", "192.0.2.1", fixed=["1.direction=reverse"]), status=2)
    assert r.stderr.count("\n") == 1 and "give" in r.stderr, r.stderr


def lost(tmp):
    """A machine that is lost ends the search with the reason; when it is back, the search can be resumed."""
    with hosts.Network(runner, topology="mtu=1024") as machines:
        a, b = machines
        env = stand_in(tmp, machines)
        command = line(tmp / "log", "--tries", 3, "--json", "-", "--host", a.name, "--peer", f"{b.name}={b.address}",
                       fixed=["1.direction=none", "0.process_num=1"])
        support.run(*command, "--measurements", 1, env=env)
        before = (tmp / "log" / "journal.jsonl").read_text()
        (tmp / b.name).unlink()
        r = support.run(*command, "--measurements", 1, "--resume", env=env)  # with this limit nothing is measured
        assert (tmp / "log" / "journal.jsonl").read_text() == before, r
        r = support.run(*command, "--resume", env=env, status=1)
        assert f"an engine on {b.name} failed: ssh does not reach it" in r.stderr and "--resume" in r.stderr, r.stderr
        assert (tmp / "log" / "journal.jsonl").read_text() == before
        (tmp / b.name).touch()
        o = json.loads(support.run(*command, "--resume", env=env).stdout)
        assert o["tries"] == o["measurements"] == 3 and o["failures"] == 0, o


def rdma_cm(tmp):
    """rdma_cm connects the QPs of two machines."""
    with hosts.Network(runner, topology="mtu=1024") as (a, b):
        for i, line in enumerate((["lat", "--op", "s"], ["lat", "--op", "s", "-c", "UD"], ["bw", "--op", "w", "-q", 2, "-s", 4096],
                                  ["engine", "-b", "--check", "--request", "r_1_512,si_1_100"])):
            port = 18600 + i
            said = hosts.pair(a, b, *map(str, [exe, *line, "-R", "-n", 30, "-p", port, "--json", "-"]), port=port)
            for o in (json.loads(x) for text in said for x in text.splitlines() if x.startswith("{")):
                assert o["traffic"]["rdma_cm"] and o["errors"] == o["mismatches"] == 0, o
            assert o["sent"]["messages"] >= 30, o  # of the client


cases = [by_ssh, served, lost, rdma_cm]


def test():
    support.run_cases(cases, sys.argv[4:])
    return 0


sys.exit(hosts.run(test))
