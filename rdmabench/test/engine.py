#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""rdmabench engine on the software HCA, as a user runs it.

    engine.py CASE RDMABENCH SOFTHCA-RUN [LIBRARY]

LIBRARY is preloaded: virtual-clock.c in the cases delayed and larger, and the software HCA's no-fork.c in no_process."""
import atexit
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../test/support"))
import hdrlog  # noqa: E402
import strangers as strangers_module  # noqa: E402
import support  # noqa: E402
from ports import free_port  # noqa: E402
from support import topology  # noqa: E402

case, exe, runner = sys.argv[1], *map(os.path.abspath, sys.argv[2:4])
FABRIC = ["--fabric", f"rdmabench-{case}-{os.getpid()}"]
VERSION = 4  # of the protocol
HANG = 400  # seconds, after which a run counts as hanging


def command(*args, hca=(), what="engine"):
    return [runner, *FABRIC, *hca, exe, what, *(a if isinstance(a, bytes) else str(a) for a in args)]


def start(*args, hca=(), what="engine", **kw):
    return subprocess.Popen(command(*args, hca=hca, what=what), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kw)


def run(*args, hca=(), what="engine", **kw):
    return support.run(*command(*args, hca=hca, what=what), timeout=HANG, **kw)


def report(*args, status=0, what="engine", **kw):
    """Returns the JSON object, which must be all of standard output."""
    out = run("--json", "-", *args, status=status, what=what, **kw).stdout
    assert out.endswith("\n") and out.count("\n") == 1, out
    o = json.loads(out)
    assert o["command"] == what and o["status"] == status, o
    return o


class Server:
    """Starts a server in the background and waits until it reports that it is waiting."""

    def __init__(self, *args, hca=(), what="engine", **kw):
        self.port = free_port()
        self.p = start("-p", self.port, "--json", "-", *args, hca=hca, what=what, **kw)
        atexit.register(self.p.terminate)  # a failed test leaves nothing behind
        while "waiting" not in self.p.stderr.readline():
            assert self.p.poll() is None

    def end(self, status=0):
        out, err = self.p.communicate(timeout=HANG)
        assert self.p.returncode == status, (self.p.returncode, out, err)
        return json.loads(out), err


def kinds():
    """All operations on RC and some on UC and UD, some in both directions, with all payloads compared."""
    every = "w_1_5000,s_2_4096_512,r_1_3000,a_1_8,c_1_8,wi_1_7,si_4_1_2_3_4,s_1_3"
    for args in (["--request", every], ["--request", every, "-b", "-q", 3, "-l", 4],
                 ["-c", "UC", "--request", "w_2_100_3,s_2_4096_512,si_1_5", "-q", 2],
                 ["--op", "r", "-s", 100, "-l", 7, "-t", 50], ["-q", 7, "--mr-num", 3, "-b", "--request", every], ["--op", "s", "-s", 1, "-I", 0],
                 ["-c", "UD", "--request", "s_2_1000_512,si_1_77", "-b", "-r", 2000]):
        o = report("--fork", "--check", "-n", 203, *args)
        qps = o["traffic"]["qp_num"]
        assert o["sent"]["messages"] == 203 * qps and o["mismatches"] == 0 and o["errors"] == 0, o
        assert o["peers"][0]["received"]["mismatches"] == 0
        assert o["traffic"]["mr_num"] == (3 if "--mr-num" in args else 1)
        batches = -(-203 // o["traffic"]["send_batch"])
        assert o["latency_ns"]["samples"] == batches * qps, o
        if "-b" in args:
            assert o["peers"][0]["sent"]["messages"] == 203 * qps, o
            assert o["peers"][0]["received"]["bytes"] == o["received"]["bytes"] > 0, o
        elif args[:2] == ["--op", "s"]:
            assert o["peers"][0]["received"]["bytes"] == o["sent"]["bytes"], o
    # The port's counters cover the whole run and both sides.
    o = report("--fork", "-n", 300, "--op", "a", "-b")
    assert o["counters"]["rx_atomic_requests"] == 600, o
    times = o["times_ns"]
    assert times["counters_before"] <= times["start"] < times["end"] <= times["counters_after"], times
    assert (times["end"] - times["start"]) / 1e9 > o["sent"]["seconds"] - 1e-8, o  # the server may have sent for longer
    o = report("--fork", "-n", 300, "--op", "a")
    assert abs((o["times_ns"]["end"] - o["times_ns"]["start"]) / 1e9 - o["sent"]["seconds"]) < 1e-8, o
    # The server's last message is late, so its traffic ends after the client's requests.
    fault = {"SOFTHCA_FAULTS": "device=mlx5_1 opcode=write nth=100 action=delay delay_ns=50000000"}
    hca = ["-n", "2"]
    server = Server("-d", "mlx5_1", hca=hca, env={**os.environ, **fault})
    o = report("-p", server.port, "-d", "mlx5_0", "-b", "-n", 100, "-s", 64, "127.0.0.1", hca=hca)
    theirs, _ = server.end()
    assert o["peers"][0]["sent"]["messages"] == theirs["sent"]["messages"] == 100, o
    assert theirs["times_ns"]["start"] + theirs["sent"]["seconds"] * .99e9 < o["times_ns"]["end"], (theirs["times_ns"], o["times_ns"])


def buffers():
    """QPs with several buffers. With as many regions as QPs, each QP has a region, outside of which its requests fail."""
    for kind, op in (("RC", "w"), ("RC", "r"), ("UC", "s")):
        o = report("--fork", "-c", kind, "--op", op, "-n", 500, "-s", 5000, "-q", 5, "--buf-num", 7, "--mr-num", 5)
        assert o["sent"]["messages"] == 2500 and o["traffic"]["buf_num"] == 7 and o["errors"] == 0, o


def roce():
    """Ports are addressed by GID, and a datagram is at most as long as the port's MTU."""
    with topology("name=mlx5_0 link=roce mtu=1024 netdev=lo\n") as devices:
        hca = ["--topology", devices]
        for kind, size in (("RC", 3000), ("UC", 3000), ("UD", 1024)):
            report("--fork", "--check", "-n", 100, "-c", kind, "--op", "s", "-s", size, hca=hca)
        o = report("--fork", "-c", "UD", "--op", "s", "-s", 1025, status=1, hca=hca)
        assert "1024 bytes" in o["error"], o
        o = report("--fork", "-m", 4096, status=1, hca=hca)
        assert "MTU" in o["error"], o
    with topology("name=mlx5_0 link=ib gid=fe80::1 gid=fe80::2\n") as devices:
        for index in 0, 1:  # the server has no GID
            server = Server(hca=["--topology", devices])
            o = report("-p", server.port, "-x", index, "127.0.0.1", status=1, hca=["--topology", devices])
            assert "the QPs cannot be connected" in o["error"], o
            server.end(1)


def table():
    """The table has perftest's columns, with their units."""
    out = run("--fork", "-n", 100, "-s", 4096).stdout
    assert "#bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]" in out, out
    for column in ("t_min[usec]", "t_max[usec]", "t_typical[usec]", "t_avg[usec]", "t_stdev[usec]",
                   "99% percentile[usec]", "99.9% percentile[usec]"):
        assert column in out, out
    lines = out.splitlines()
    assert lines[2].split()[:2] == ["4096", "100"] and lines[4].split()[:2] == ["4096", "100"], out
    assert "BW average[Gb/sec]" in run("--fork", "-n", 100, "--report-gbits").stdout
    assert "clock: " in out and "nearest rank" in out


LATENCIES = "t_min[usec] t_max[usec] t_typical[usec] t_avg[usec] t_stdev[usec] 99% percentile[usec] 99.9% percentile[usec]"


def ping_pong():
    """Round trips: the server answers each message with an equal one; both sides record the latency, without the warm-up."""
    for args in (["--op", "w"], ["--op", "w", "-s", 1], ["--op", "wi", "-s", 5000], ["--op", "s", "-e"], ["--op", "si", "-I", 0],
                 ["-c", "UC", "--op", "w", "-s", 3000], ["-c", "UC", "--op", "s", "-s", 8], ["-c", "UD", "--op", "si", "-e"]):
        for check in ([], ["--check"]):
            server = Server(what="lat")
            o = report("-p", server.port, "-n", 8, "--warm-up", 3, *check, *args, "127.0.0.1", what="lat")
            theirs, _ = server.end()
            assert o["traffic"]["ping_pong"] and o["sent"]["messages"] == theirs["sent"]["messages"] == 11, o
            assert o["latency_ns"]["samples"] == theirs["latency_ns"]["samples"] == 7, o  # times between posts
            assert o["mismatches"] == theirs["mismatches"] == o["errors"] == 0 and not o["events"], o
            received = 11 if "w" not in args else 0  # a WRITE needs no receive
            assert o["received"]["messages"] == theirs["received"]["messages"] == received, o
    for op, size in (("r", 300), ("a", 8), ("c", 8)):
        o = report("--fork", "--check", "--op", op, "-s", size, "-n", 30, "--warm-up", 4, what="lat")
        assert not o["traffic"]["ping_pong"] and o["traffic"]["depth"] == 1 and o["sent"]["messages"] == 34, o
        assert o["latency_ns"]["samples"] == 30 and o["sent"]["bytes"] == 34 * size, o
    o = report("--fork", "--op", "s", "-D", ".05", "-e", what="lat")
    assert o["sent"]["messages"] == o["received"]["messages"] and o["latency_ns"]["samples"] == max(o["sent"]["messages"], 1) - 1, o
    # Many clients at once, each with round trips of its own.
    server = Server("--hosts", 3, what="lat")
    clients = [start("-p", server.port, "-n", 40, "--op", "s", "-e", "127.0.0.1", what="lat") for _ in range(3)]
    assert [c.communicate(timeout=HANG) and c.returncode for c in clients] == [0, 0, 0]
    assert server.end()[0]["sent"]["messages"] == 120


def rdma_cm():
    """QPs that rdma_cm connects: of each kind, in ping-pong, of one client and of two clients at once. A device at which
    the path to the server's address does not begin is refused."""
    with topology("name=mlx5_0 link=roce netdev=lo\nname=mlx5_1 link=roce\n") as devices:
        hca = ["--topology", devices]
        for what, args in (("engine", ["-q", 5, "-b", "--check"]), ("lat", ["--op", "s"]), ("bw", ["--op", "r", "-q", 2])):
            o = report("--fork", "-R", "-n", 50, "-s", 4096, *args, what=what, hca=hca)
            assert o["traffic"]["rdma_cm"] and o["errors"] == o["mismatches"] == 0 and o["sent"]["messages"] >= 50, o
        for kind in ("RC", "UC", "UD"):
            server = Server("--hosts", 2, hca=hca)
            args = ["-p", server.port, "-R", "-c", kind, "-n", 50, "-q", 3, "--op", "s", "-s", 100, "-r", 1024, "--check", "127.0.0.1"]
            for c in [start(*args, hca=hca) for _ in range(2)]:
                out, err = c.communicate(timeout=HANG)
                assert c.returncode == 0, (out, err)
            o, _ = server.end()
            assert o["traffic"]["rdma_cm"] and o["traffic"]["qp_type"] == kind, o
            assert o["received"]["messages"] == 300 and o["mismatches"] == 0, o
        o = report("--fork", "-R", "-n", 10, "-d", "mlx5_1", "--timeout", 2, hca=hca, status=1)
        assert "does not begin at mlx5_1: give another address or --ib-dev" in o["error"], o


def unanswered():
    """A lost message ends the round trips, at both ends, and the report says which one it was. The server sends nothing first."""
    for lost in 1, 7:
        server = Server("--timeout", 60, what="lat")
        o = report("-p", server.port, *"-c UC --op s -e -n 50 --timeout 8 --inject".split(), f"drop@{lost}", "127.0.0.1", what="lat", status=1)
        assert o["errors"] == 1 and f"no answer to message {lost}" in o["events"][0] and o["latency_ns"]["samples"] == lost - 1, o
        theirs, _ = server.end(1)
        assert theirs["sent"]["messages"] == lost - 1 and not theirs["peers"][0]["lost"], theirs


def columns():
    """The tables of lat and bw are perftest's, one row per size, and a histogram has all samples."""
    head = ["#bytes", "#iterations", *LATENCIES.split()]
    rows = [r.split() for r in run("--fork", "-n", 30, "--op", "s", "-s", 64, "-H", what="lat").stdout.splitlines()]
    assert rows[1] == head and rows[2][:2] == ["64", "30"] and len(rows[2]) == 9, rows
    buckets = [(float(a), float(b), int(n)) for a, b, n in (r for r in rows[3:] if len(r) == 3)]
    assert sum(n for *_, n in buckets) == 29 and buckets == sorted(buckets), rows
    assert buckets[0][0] <= float(rows[2][2]) <= buckets[0][1] and buckets[-1][0] <= float(rows[2][3]) <= buckets[-1][1], rows
    rows = [r.split() for r in run("--fork", "-a", "-n", 9, "-c", "UD", "--op", "s", "-m", 512, "-e", what="lat").stdout.splitlines()]
    assert rows[1] == head and [r[:2] for r in rows[2:11]] == [[str(2 << i), "9"] for i in range(9)], rows
    rows = [r.split() for r in run("--fork", "-n", 300, "-s", 4096, what="bw").stdout.splitlines()]
    assert rows[1] == "#bytes #iterations BW peak[MiB/sec] BW average[MiB/sec] MsgRate[Mpps]".split(), rows
    assert rows[2][:2] == ["4096", "300"] and len(rows) == 3 and len(rows[2]) == 5, rows
    o = report("--fork", "-n", 300, "--check", what="bw")
    assert o["traffic"]["cq_mod"] == 100 and o["traffic"]["depth"] == 128 and o["sent"]["messages"] == 300, o


def overdue():
    """Every batch that is due within the duration is posted or counted, at rates that are too high and at one that is not."""
    for rate, batch, qps in ((50_000_000, 1, 1), (40_000_000, 4, 3), (2000, 2, 2)):
        args = ["--op", "w", "-s", 8, "-D", ".2", "--rate", rate, "-l", batch, "-q", qps]
        o = report("--fork", *args)
        due = qps * -(-rate // 5 // (batch * qps))  # whole turns of all QPs
        all_due = o["sent"]["messages"] // batch + o["sent"]["overdue_batches"]
        assert due - qps <= all_due <= due, (o["sent"], due)
        assert (o["sent"]["overdue_batches"] > 0) or rate < 1e6, o["sent"]
    assert "due and not sent" in run("--fork", "--op", "w", "-s", 8, "-D", ".1", "--rate", 50_000_000).stdout
    assert report("--fork", "-n", 10, "--rate", 1000)["sent"]["overdue_batches"] == 0


def open_loop():
    """With a rate there is a second figure, response_ns, which includes the wait before the post; a duration ends the
    run."""
    o = report("--fork", "-D", ".3", "-s", 64, "--rate", 20000, "-q", 2, "-l", 2)
    assert o["response_ns"]["samples"] == o["latency_ns"]["samples"] > 0, o
    assert o["response_ns"]["p50"] >= o["latency_ns"]["p50"], o
    assert 0 < o["sent"]["messages"] <= 20000 * .3 + 8, o  # never ahead of what is due
    assert "response_ns" not in report("--fork", "-D", ".1", "-s", 64)


def hw_ts():
    """Completions are timed by the device's stamps with a stated error; a clock of another rate is refused."""
    with tempfile.TemporaryDirectory() as d, topology("name=mlx5_0 latency_ns=3000000\n") as devices:
        o = report("--fork", "--hw-ts", "-b", "-n", 3000, "-s", 64, "--stats-dir", d, "--run", "r")
        assert o["clock"].startswith("completion time stamps of mlx5_0, accurate to "), o["clock"]
        assert f"accurate to {o['hw_ts']['error_ns']} ns" in o["clock"], o
        assert o["hw_ts"]["jumps"] == 0 and o["hw_ts"]["probes"] >= 32, o
        assert 0 < o["hw_ts"]["mean_error_ns"] <= o["hw_ts"]["error_ns"], o
        assert o["latency_ns"]["samples"] == 3000, o
        lines = [json.loads(p.read_text()) for p in pathlib.Path(d, "r").glob("*.jsonl")]
        assert len(lines) == 2 and all("time stamps of mlx5_0" in x["clock"] for x in lines), lines
        assert "hw_ts" not in report("--fork", "-n", 10)
        # The latency of a message is at least the link's.
        real = ["--topology", devices, "--link", "real"]
        o = report("--fork", "--hw-ts", "-n", 20, "-s", 64, "-t", 1, hca=["--fabric", FABRIC[1] + "-real", *real])
        assert o["latency_ns"]["min"] >= 3000000 - o["hw_ts"]["error_ns"], o
    r = run("--fork", "--hw-ts", "--json", "-", status=1, hca=["--fabric", FABRIC[1] + "-virtual", "--link", "virtual"])
    assert "does not run at the host's rate" in json.loads(r.stdout)["error"], r.stdout
    assert [x for x in r.stderr.splitlines() if x.startswith("rdmabench")] == [
        "rdmabench engine: --hw-ts: the device stamps completions by a clock that does not run at the host's rate: leave it out"], r.stderr


def all_sizes():
    """perftest's -a prints a row and a JSON line per size; a server ends after the last size."""
    out = run("--fork", "-a", "-n", 10).stdout.splitlines()
    assert "#bytes" in out[1] and "BW average[MiB/sec]" in out[1] and "t_typical[usec]" in out[1], out
    rows = [line.split() for line in out[2:-1]]
    assert [int(r[0]) for r in rows] == [2 << i for i in range(23)] and all(r[1] == "10" and len(r) == 12 for r in rows), rows
    assert out[-1].startswith("percentiles") and sum("#bytes" in line for line in out) == 1, out
    with tempfile.TemporaryDirectory() as tmp:
        server = Server()
        run("-a", "-c", "UD", "--op", "s", "-m", 1024, "--check", "-n", 10, "--json", tmp + "/j", "-p", server.port, "127.0.0.1")
        objects = [json.loads(line) for line in open(tmp + "/j")]
        assert [o["traffic"]["request"] for o in objects] == [f"s_1_{8 << i}" for i in range(8)], objects
        assert all(o["status"] == 0 and o["mismatches"] == 0 for o in objects)
        server.p.communicate(timeout=HANG)
        assert server.p.returncode == 0
        # If a client does not come back, the server waits for it as long as for a silent client.
        server = Server("--timeout", 1)
        assert "/dev/full: No space" in run("-a", "-n", 10, "--json", "/dev/full", "-p", server.port, "127.0.0.1", status=1).stderr
        _, err = server.p.communicate(timeout=HANG)
        assert server.p.returncode == 1 and "the next run" in err, err


def hdr_log():
    """The log has the samples of the report and of the statistics file, bucket by bucket, by kind and by size."""
    with tempfile.TemporaryDirectory() as tmp:
        path = pathlib.Path(tmp, "log")
        o = report("--fork", "-n", 300, "--rate", 20000, "-s", 64, "--hdr-log", path, "--stats-dir", tmp + "/s", "--run", "r")
        logged = hdrlog.read(path.read_text())
        assert [x[0] for x in logged] == ["latency", "response"], logged
        for name, (_, start, seconds, most, counts) in zip(("latency_ns", "response_ns"), logged):
            assert sum(counts.values()) == o[name]["samples"] == 300 and abs(most - o[name]["max"]) <= 500, (o[name], most)
            assert min(counts) <= o[name]["min"] and max(counts) <= o[name]["max"], (counts, o[name])
            assert abs(seconds - o["sent"]["seconds"]) <= .001 and 0 <= time.time() - start - seconds < HANG, (start, seconds)
        line = json.loads(next(pathlib.Path(tmp, "s", "r").glob("*-client.jsonl")).read_text())
        buckets = [x.split() for x in line["histogram"].splitlines() if x[0].isdigit()]
        assert {hdrlog.lowest(int(high)): int(n) for high, n in buckets} == logged[0][4], (buckets, logged)
        run("--fork", "-a", "-n", 20, "-c", "UD", "--op", "s", "-m", 512, "--hdr-log", path, what="lat")
        logged = hdrlog.read(path.read_text())
        assert [x[0] for x in logged] == [f"latency-{2 << i}" for i in range(9)], logged
        assert all(sum(x[4].values()) == 19 for x in logged), logged  # times between posts
        assert hdrlog.read(run("--fork", "-n", 10, "--hdr-log", "-").stdout)[0][0] == "latency"
    assert "/dev/full: No space" in run("--fork", "-n", 10, "--hdr-log", "/dev/full", status=1).stderr
    assert "--hdr-log" in run("--fork", "-n", 10, "--hdr-log", "/nowhere/x", status=2).stderr


def moderation():
    """perftest's -Q: one completion stands for many requests, and all requests are carried out."""
    timed = ["-D", ".1"]
    for args in (["-n", 1000], timed, ["-n", 1000, "-l", 8, "-q", 3], timed + ["-l", 8, "-b", "-q", 3],
                 timed + ["-t", 5, "-l", 2], timed + ["-c", "UD", "--op", "s"], timed + ["-t", 8, "--burst", 3]):
        # On a machine with other work a tenth of a second may be too short to fill the queues once.
        for longer in ([], ["-D", 1], ["-D", 10]):
            o = report("--fork", "--check", "-Q", 100, "-s", 200, *args, *(longer if args[0] == "-D" else []))
            t, sent = o["traffic"], o["sent"]["messages"]
            if sent > t["depth"] * t["qp_num"]:
                break
        assert sent > t["depth"] * t["qp_num"] and o["mismatches"] == 0 and o["errors"] == 0 and t["cq_mod"] == 100, o
        per = min(100, t["depth"] - t["depth"] % t["send_batch"])
        assert o["latency_ns"]["samples"] <= sent / (per // t["send_batch"] * t["send_batch"]) + t["qp_num"], o
        if args == timed:  # the last batches are completed by an extra request, and have no latency
            assert o["latency_ns"]["samples"] * 100 <= sent, o
        if t["iterations"]:
            assert sent == 1000 * t["qp_num"] and o["latency_ns"]["samples"] > 0, o


def sleeps():
    """perftest's -e: both sides sleep, and completions wake them."""
    with topology("name=mlx5_0 latency_ns=2000000\n") as devices:
        real = ["--topology", devices, "--link", "real"]
        server = Server(hca=real)
        o = report("-e", "--check", "-n", 100, "--op", "s", "-s", 64, "-t", 1, "-p", server.port, "127.0.0.1", hca=real)
        assert o["traffic"]["cq_events"] and o["wakeups"] > 0 and o["sent"]["messages"] == 100, o
        theirs, _ = server.end()
        assert theirs["wakeups"] > 0 and theirs["received"]["messages"] == 100, theirs
        # A ping-pong sleeps for its send and for the answer.
        o = report("--fork", "-e", "--op", "s", "-n", 50, what="lat", hca=real)
        assert o["wakeups"] > 75, o
    o = report("--fork", "-e", "--check", "-b", "-q", 3, "-n", 500, "--request", "w_1_64,s_1_200", "--rate", 20000)
    assert o["sent"]["messages"] == 1500 and o["mismatches"] == 0, o
    # With one request at a time each completion is awaited by its event, even if it is there at once.
    o = report("--fork", "-e", "-t", 1, "--op", "r", "-n", 300)
    assert o["wakeups"] == o["sent"]["messages"] == 300, o
    # While many QPs repeat SENDs that find no receive, a receiver that arms its CQ can still lock the fabric's mutex.
    o = report("--fork", "-e", "-q", 256, "-t", 8, "-l", 4, "-r", 16, "--recv-batch", 8, "-D", ".1", "--op", "s", "-s", 64)
    assert o["errors"] == 0 and o["counters"].get("rnr_nak_retry_err", 0) < 20 * o["sent"]["messages"], o


def control():
    """Verbs of the control path, and requests that must fail, do not disturb the traffic; they are counted and timed."""
    for kind in ("mr", "qp", "modify", "rkey", "lkey"):
        o = report("--fork", "--check", "-n", 1000, "--request", "w_1_100,s_1_200", "-b", "--control", kind, "--control-every", 200)
        c = o["control"]
        assert c["kind"] == kind and c["count"] > 0 and c["errors"] == 0 and c["max_ns"] >= c["p50_ns"] > 0, o
        assert o["mismatches"] == 0 and o["errors"] == 0 and not o["events"] and o["sent"]["messages"] == 1000, o
    assert "control" not in report("--fork", "-n", 10)
    out = run("--fork", "-n", 1000, "--control", "mr", "--control-every", 100).stdout
    assert "mr: " in out and "0 failed" in out, out
    # A request that fails with another error than the expected one is counted, with its error.
    o = report("--fork", "-n", 1000, "-s", 64, "--op", "s", "--control", "rkey", "--control-every", 100, status=1,
               env={"SOFTHCA_FAULTS": "opcode=write count=0 action=error syndrome=remote_op"})
    assert o["control"]["errors"] == o["control"]["count"] > 0 and o["control"]["first_error"] < 0, o
    assert o["errors"] == 0 and o["sent"]["messages"] == 1000, o


def devices():
    """Two devices of a machine: one receives the bytes that the other sends."""
    hca = ["-n", "2"]
    o = report("--fork", "-d", "mlx5_0", "--server-dev", "mlx5_1", "--check", "-n", 100, "-s", 5000, hca=hca)
    assert o["device"] == "mlx5_0" and o["mismatches"] == 0, o
    c = o["counters"]
    assert c["tx_vport_rdma_unicast_bytes"] == 500000 and c["rx_vport_rdma_unicast_bytes"] == 0, c
    o = report("--fork", "-d", "mlx5_1", "--server-dev", "mlx5_0", "--op", "r", "-n", 100, "-s", 5000, hca=hca)
    assert o["counters"]["rx_vport_rdma_unicast_bytes"] == 500000 and o["counters"]["tx_vport_rdma_unicast_bytes"] == 0, o
    assert "give" in run("--server-dev", "mlx5_1", status=2).stderr


def machine(cpus, near):
    """Returns hwloc's XML of a machine whose device mlx5_0 is near processor `near`; None: it has no device."""
    def sets(units, kind, number, more=""):
        mask = hex(sum(1 << u for u in units))
        return (f'<object type="{kind}" os_index="{number}" cpuset="{mask}" complete_cpuset="{mask}" nodeset="0x1" complete_nodeset="0x1" '
                f'gp_index="{len(parts) + 1}"{more}>')

    parts = ['<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n<topology version="2.0">']
    allowed = hex(sum(1 << u for u in cpus))
    parts.append(sets(cpus, "Machine", 0, f' allowed_cpuset="{allowed}" allowed_nodeset="0x1"'))
    parts.append(sets(cpus, "NUMANode", 0, ' local_memory="4096"') + "</object>")
    for u in cpus:
        parts.append(sets([u], "Package", u) + sets([u], "Core", u).replace('gp_index="', 'gp_index="1000'))
        parts.append(sets([u], "PU", u) + "</object></object>")
        if u == near:
            parts.append('<object type="Bridge" gp_index="9001" bridge_type="0-1" depth="0" bridge_pci="0000:[00-01]">'
                         '<object type="PCIDev" gp_index="9002" pci_busid="0000:01:00.0" pci_type="0207 [15b3:101b] [15b3:0001] 00" '
                         'pci_link_speed="0.0"><object type="OSDev" gp_index="9003" name="mlx5_0" osdev_type="3"/></object></object>')
        parts.append("</object>")
    return "\n".join([*parts, "</object>", "</topology>"])


def placed():
    """An engine is bound to the processors and nodes that are given, or to those near its device."""
    cpus = sorted(os.sched_getaffinity(0))
    for args, want in ((["--cpu", cpus[0]], str(cpus[0])), (["--cpu", cpus[-1], "--numa", "0"], str(cpus[-1]))):
        o = report("--fork", "-n", 10, *args)
        assert o["place"]["cpus"] == want and ("--numa" not in args or o["place"]["nodes"] == "0"), o
    assert "place" not in report("--fork", "-n", 10)
    with tempfile.NamedTemporaryFile("w") as f:
        for near, says in ((cpus[-1], None), (cpus[0], None), (None, "does not know where mlx5_0 is")):
            pathlib.Path(f.name).write_text(machine(cpus, near))
            o = report("--fork", "-n", 10, "--cpu", "near", "--numa", "near", status=1 if says else 0,
                       env={"HWLOC_XMLFILE": f.name, "HWLOC_THISSYSTEM": "1"})
            assert says in o["error"] if says else o["place"] == {"cpus": str(near), "nodes": "0"}, o
    for args in (["--cpu", "4000"], ["--cpu", "x"], ["--numa", "900"], ["--cpu", "0-4000"]):
        # A server reports this before a client comes, and a client before there is a server.
        for role, where in (("client", ["--fork"]), ("server", ["--wait", 5]), ("client", ["127.0.0.1"])):
            o = report(*args, *where, status=2)
            assert "give near or some of " in o["error"] and o["role"] == role, o


def planted():
    """An event is injected at the n-th message of the first QP, and at no other."""
    o = report("--fork", "--check", "-n", 300, "-q", 2, "-s", 64, "-u", 10, "--inject", "drop@100")
    assert o["injected"] == 1 and o["mismatches"] == 0 and o["sent"]["messages"] == 600, o
    assert o["latency_ns"]["max"] > 4096 << 10, o  # the time-out
    o = report("--fork", "--check", "-n", 300, "-c", "UC", "--op", "s", "-s", 64, "--inject", "drop@100")
    assert o["injected"] == 1 and o["peers"][0]["received"]["messages"] == 299, o
    # A server waits at least 200 ms for a message that is lost, after its traffic has ended.
    server = Server()
    report("-p", server.port, "-n", 300, "-c", "UC", "--op", "s", "-s", 64, "--inject", "drop@300", "127.0.0.1")
    o, _ = server.end()
    times = o["times_ns"]
    assert o["received"]["messages"] == 299 and times["start"] <= times["end"] <= times["counters_after"] - 190000000, o
    o = report("--fork", "--check", "-n", 300, "--op", "s", "-s", 64, "--inject", "rnr@7", "-b")
    assert o["injected"] == 1 and o["mismatches"] == 0 and o["sent"]["messages"] == 300, o
    o = report("--fork", "--check", "-n", 300, "-s", 64, "-t", 1, "--inject", "delay@300")
    assert o["injected"] == 1 and o["latency_ns"]["max"] >= 1000000, o
    assert report("--fork", "-n", 10, "--inject", "drop@1000")["injected"] == 0
    # Without repetitions the first lost message makes the QP fail.
    o = report("--fork", "-n", 300, "-s", 64, "-u", 8, "--retry-count", 0, "--inject", "drop@100", status=1)
    assert o["errors"] == 1 and o["injected"] == 1 and "timed out" in o["events"][0], o
    o = report("--fork", "--check", "-n", 300, "--op", "r", "-o", 16, "-S", 3, "--tclass", 96)
    assert (o["traffic"]["outs"], o["traffic"]["sl"], o["traffic"]["tclass"]) == (16, 3, 96) and o["errors"] == 0, o
    for bad in ("drop", "drop@0", "drop@x", "@1", "fall@1", "none@", "a-name-that-is-too-long@1"):
        r = run("--fork", "--inject", bad, status=2)
        assert r.stderr.splitlines()[-1].count("give") == 1, r.stderr


def burst():
    """After N batches nothing is posted for the length of the pause."""
    o = report("--fork", "-n", 50, "-s", 64, "--burst", 10, "--burst-pause", 20000)
    assert o["sent"]["seconds"] >= .08 and o["sent"]["messages"] == 50, o


def stats():
    """Two files per process and role are written to a directory of the run; --compat writes the file of older tools."""
    with tempfile.TemporaryDirectory() as tmp:
        o = report("--fork", "-b", "-n", 100, "--stats-dir", tmp + "/s", "--run", "r1")
        assert o["run"] == "r1"
        files = sorted(p.name for p in pathlib.Path(tmp, "s", "r1").iterdir())
        assert sorted(f.rsplit("-", 1)[1] for f in files) == [
            "client.jsonl", "client.txt", "server.jsonl", "server.txt"], files
        for f in files:
            if f.endswith(".jsonl"):
                line = json.loads(pathlib.Path(tmp, "s", "r1", f).read_text())
                assert line["run"] == "r1" and line["latency_samples"] == 100, line
        # 100 requests in batches of 4 give 25 samples: two windows of ten; the last five are not written.
        path = pathlib.Path(tmp, "old")
        run("--fork", "-n", 100, "-l", 4, "--stats-file", path, "--compat")
        text = path.read_text().splitlines()
        assert [line.split(":")[0] for line in text] == support.KEYS
        values = [int(line.split()[1]) for line in text]
        assert values[0] == 10 and values[1] <= values[3] <= values[4] == values[5] == values[6], text
        # Receives give no samples.
        run("--fork", "-n", 100, "--op", "s", "--stats-dir", tmp + "/q", "--run", "r")
        assert len(list(pathlib.Path(tmp, "q", "r").iterdir())) == 2
        for option in "--stats-dir", "--stats-file":  # before anything is sent
            o = report("--fork", "-n", 10, option, "/nowhere/x", status=1)
            assert "/nowhere/x: No such file" in o["error"] and "events" not in o, o
        os.mkdir(tmp + "/x.jsonl")  # a directory that has the name of the second file
        o = report("--fork", "-n", 10, "--stats-file", tmp + "/x", status=1)
        assert "/x: it, or the .jsonl beside it, is a directory" in o["error"] and "events" not in o, o
        # A directory that disappears after the server has checked that it can write there.
        server = Server("--hosts", 2, "--stats-dir", tmp + "/gone", "--run", "r")
        args = ["-b", "-n", 100, "-p", server.port, "127.0.0.1"]
        clients = [start(*args)]
        support.until(clients[0], pathlib.Path(tmp, "gone", "r").exists)
        with socket.create_connection(("127.0.0.1", server.port), timeout=HANG) as s:
            s.sendall(bytes(12))
            assert s.recv(1)  # the server answers this stranger only after that check
        os.rename(tmp + "/gone", tmp + "/kept")
        clients.append(start(*args))
        for c in clients:
            _, err = c.communicate(timeout=HANG)
            assert c.returncode == 0, err
        o, _ = server.end(1)
        assert "No such file" in o["events"][0] and o["sent"]["messages"] == 200, o


def incast():
    """Two clients at the same time; both use the name that the server gives the run."""
    server = Server("--hosts", "2", "--run", "many")
    args = ["-p", server.port, "-n", 200, "--check", "--op", "s", "-s", 500, "--json", "-", "127.0.0.1"]
    clients = [start(*args) for _ in range(2)]
    for c in clients:
        out, _ = c.communicate(timeout=HANG)
        assert c.returncode == 0 and json.loads(out)["run"] == "many", out
    o, _ = server.end()
    assert o["received"]["messages"] == 400 and len(o["peers"]) == 2 and o["role"] == "server", o


def apart():
    """A server tells each client what concerns this client: if a QP of the server fails, only the client at this QP fails."""
    os.environ["SOFTHCA_FAULTS"] = "device=mlx5_1 opcode=write nth=20 action=error syndrome=remote_access"
    hca = ["-n", "2"]
    server = Server("--hosts", "2", "-d", "mlx5_1", hca=hca)
    args = ["-p", server.port, "-d", "mlx5_0", "-b", "-n", 100, "--op", "w", "-s", 500, "--qp-timeout", 8, "--retry-count", 1, "--check", "--json", "-"]
    reports = []
    for c in [start(*args, "127.0.0.1", hca=hca) for _ in range(2)]:
        reports.append(json.loads(c.communicate(timeout=HANG)[0]))
    theirs, _ = server.end(1)
    good, bad = sorted(reports, key=lambda o: o["status"])
    assert (good["status"], bad["status"], theirs["errors"]) == (0, 1, 1), (good, bad, theirs)
    assert 100 <= theirs["sent"]["messages"] < 200 and bad["peers"][0]["sent"]["messages"] < 100, (bad, theirs)
    assert all((bad["peers"][0][way]["errors"], bad["peers"][0][way]["first_error"]) == (1, -13) for way in ("sent", "received")), bad
    peer = good["peers"][0]
    assert (peer["sent"]["messages"], peer["sent"]["bytes"]) == (100, 50000), peer
    took = [o["peers"][0]["sent"]["elapsed_ns"] for o in (good, bad)]
    assert took[0] != took[1] and abs(max(took) / 1e9 - theirs["sent"]["seconds"]) < 1e-8, (took, theirs["sent"])
    assert not any(peer[way][k] for way in ("sent", "received") for k in ("errors", "first_error", "mismatches")), peer


def machines():
    """Three machines (each with a host name, device and directory of its own): incast, and the merge of measurements."""
    if os.geteuid() and "RDMABENCH_NAMESPACE" not in os.environ:  # only root may change the host name
        os.environ["RDMABENCH_NAMESPACE"] = "1"
        if subprocess.run(["unshare", "-Ur", "true"], stderr=subprocess.DEVNULL).returncode:
            print("skipped: this user is not allowed to make namespaces")
            sys.exit(77)
        os.execvp("unshare", ["unshare", "-Ur", sys.executable, *sys.argv])
    tmp = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, tmp, ignore_errors=True)  # a failed test leaves nothing behind
    pathlib.Path(tmp, "topology").write_text("".join(f"name=mlx5_{i} link=roce netdev=lo\n" for i in range(3)))
    pathlib.Path(tmp, "ssh").write_text(support.SSH.replace("HOSTS", tmp))
    os.chmod(tmp + "/ssh", 0o755)
    hca = ["--topology", tmp + "/topology"]

    def on(host, *args):
        os.makedirs(f"{tmp}/{host}", exist_ok=True)
        line = command("--json", "-", "--stats-dir", "stats", *args, hca=hca)
        p = subprocess.Popen(["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', host, *line],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=f"{tmp}/{host}")
        atexit.register(p.terminate)
        return p

    port = free_port()
    server = on("alpha", "--hosts", 2, "--run", "incast", "-d", "mlx5_0", "-p", port)
    while "waiting" not in server.stderr.readline():
        assert server.poll() is None
    args = ["-b", "--check", "-n", 500, "--op", "s", "-s", 100, "-p", port, "127.0.0.1"]
    processes = [server, *(on(host, "-d", device, *args) for host, device in (("beta", "mlx5_1"), ("gamma", "mlx5_2")))]
    reports = []
    for p in processes:
        out, err = p.communicate(timeout=HANG)
        assert p.returncode == 0, err
        reports.append(json.loads(out))
    assert [r["device"] for r in reports] == ["mlx5_0", "mlx5_1", "mlx5_2"] and all(r["mismatches"] == 0 for r in reports)
    assert reports[0]["received"]["messages"] == 1000 and {r["run"] for r in reports} == {"incast"}, reports
    # Each machine has its own files. One machine collects those of all, and names the machine that ssh does not reach.
    files = [sorted(p.name for p in pathlib.Path(tmp, h, "stats", "incast").iterdir()) for h in ("alpha", "beta", "gamma")]
    assert all(len(f) == 2 and f[0].startswith(h + "-") for f, h in zip(files, ("alpha", "beta", "gamma"))), files
    r = support.run(exe, "collect", "--json", "-", "--run", "incast", "--host", "beta", "--host", "gamma", "--host", "delta",
                    "stats", cwd=tmp + "/alpha", env={"PATH": f"{tmp}:{os.environ['PATH']}"})
    o = json.loads(r.stdout)
    assert o["latency_samples"] == sum(x["latency_ns"]["samples"] for x in reports) == 2000, (o, r.stderr)
    assert "delta" in r.stderr and len(o["skipped"]) == 1, r.stderr


def differ():
    """A server refuses a client whose traffic differs from the first client's."""
    server = Server("--hosts", "2")
    first = start("-p", server.port, "-n", 10, "127.0.0.1")
    r = run("-p", server.port, "-n", 11, "--json", "-", "127.0.0.1", status=1)
    _, err = first.communicate(timeout=HANG)
    assert first.returncode == 1, (err, r)
    assert "first client" in err + r.stdout, (err, r.stdout)
    server.end(1)


def strangers():
    """A client of another protocol or version is refused, and does not delay the next one."""
    server = Server("--timeout", HANG // 4)
    header = struct.Struct("<IHHI")

    def say(data):
        s = socket.create_connection(("127.0.0.1", server.port), timeout=HANG)
        s.sendall(data)
        return s

    for theirs in VERSION - 1, VERSION + 1:
        s = say(header.pack(0x424d4452, theirs, 1, 0))
        magic, version, kind, length = header.unpack(s.recv(12, socket.MSG_WAITALL))
        assert (magic, version, kind) == (0x424d4452, VERSION, 7), (magic, version, kind)
        why = f"version {theirs} of the protocol, this server speaks version {VERSION}"
        assert why.encode() in s.recv(length, socket.MSG_WAITALL)
    sockets = [say(b"GET / HTTP/1.1\r\n\r\n"), say(b""), say(header.pack(0x424d4452, VERSION, 1, 1 << 30)),
               say(header.pack(0x424d4452, VERSION, 1, 4) + b"abcd"), say(header.pack(0x424d4452, VERSION, 8, 0)),
               say(header.pack(0x424d4452, VERSION, 1, 1000) + b"slow")]
    run("-p", server.port, "-n", 10, "--timeout", 60, "127.0.0.1")
    _, err = server.end()
    assert err.count("refused 127.0.0.1") >= 5, err  # the server need not have given up the silent ones
    del sockets


def foreign_server():
    """If the server has another version, the client's error names both versions."""
    for theirs in VERSION - 1, VERSION + 1:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            c = start("-p", listener.getsockname()[1], "--timeout", HANG // 2, "127.0.0.1")
            with listener.accept()[0] as s:
                s.sendall(struct.pack("<IHHI", 0x424d4452, theirs, 7, 0))
                _, err = c.communicate(timeout=HANG)
        lines = [line for line in err.splitlines() if not line.startswith("softhca-run")]
        assert c.returncode == 1 and len(lines) == 1, err
        assert f"version {theirs} of the protocol, this program version {VERSION}" in lines[0], err


def no_process():
    """A server with a process for each client refuses a client for which it cannot start one, with the reason."""
    port, header = free_port(), struct.Struct("<IHHI")
    env = {"LD_PRELOAD": os.path.abspath(sys.argv[4]), "ASAN_OPTIONS": "verify_asan_link_order=0"}
    server = subprocess.Popen([exe, "engine", "--serve", "-p", str(port)], stderr=subprocess.PIPE, text=True, env={**os.environ, **env})
    try:
        assert "waiting" in server.stderr.readline()
        for hello in header.pack(0x424d4452, VERSION, 1, 0), b"GET / HTTP/1.1\r\n\r\n", b"":
            with socket.create_connection(("127.0.0.1", port), timeout=HANG) as s:
                s.sendall(hello)
                _, version, kind, length = header.unpack(s.recv(12, socket.MSG_WAITALL))
                assert (version, kind) == (VERSION, 7), kind
                assert s.recv(length, socket.MSG_WAITALL) == b"the server cannot start a process for this client: Resource temporarily unavailable"
            assert "refused 127.0.0.1" in server.stderr.readline()
    finally:
        server.terminate()
        server.communicate(timeout=HANG)


def silent():
    """Silent or slow strangers do not delay a run with two clients."""
    hello = struct.Struct("<IHHI").pack(0x424d4452, VERSION, 1, 1000)
    for kind in strangers_module.KINDS:
        server = Server("--hosts", 2, "--timeout", 3600)
        crowd = strangers_module.Strangers(kind, server.port, hello + bytes(1000))
        clients = [start("-p", server.port, "-n", 10, "--timeout", HANG // 2, "127.0.0.1") for _ in range(2)]
        for c in clients:
            _, err = c.communicate(timeout=HANG)
            assert c.returncode == 0, (kind, err)
        server.end()
        crowd.leave()


def nobody():
    """Without a server, a host or a device, the JSON object has the error."""
    o = report("-p", free_port(), "--timeout", 1, "127.0.0.1", status=1)
    assert "refused" in o["error"], o
    assert "?" in report(b"\xff\xfe", status=1)["error"]  # no UTF-8, and still JSON
    assert "no such host" in report("no-such-host.invalid", status=1)["error"]
    assert "mlx5_9" in report("--fork", "-d", "mlx5_9", status=1)["error"]
    assert "port or GID" in report("--fork", "-x", "99", status=1)["error"]
    r = support.run(exe, "engine", "--fork", "--json", "-", status=None)
    if r.returncode:  # no device on this machine
        assert "softhca-run" in json.loads(r.stdout)["error"], r


def bad():
    """A bad command line: one line, status 2, and nothing else."""
    for args in (["--frobnicate"], ["-s", "0"], ["a", "b"], ["-c", "UD"], ["--fork", "host"],
                 ["--fork", "-D", 86400, "--json", "/nowhere/x"]):
        r = run(*args, status=2)
        lines = [line for line in r.stderr.splitlines() if not line.startswith("softhca-run")]
        assert len(lines) == 1 and "give" in lines[0] and not r.stdout, r
    for args in ([], ["frobnicate"], ["--help", "x"]):
        r = support.run(exe, *args, status=2)
        assert r.stderr.count("\n") == 1 and "give" in r.stderr, r
    assert "engine" in support.run(exe, "--help").stdout
    assert "--request" in run("--help").stdout
    assert "/dev/full: No space" in run("--fork", "-n", 1, "--json", "/dev/full", status=1).stderr
    with open("/dev/full", "w") as full:
        for line in (["--help"], ["--version"], ["engine", "--help"], ["collect", "--help"], ["search", "--help"],
                     ["search", "--dry-run"], command("--fork", "-n", 1), command("--fork", "-n", 1, "--json", "-")):
            r = subprocess.run(line if line[0] == runner else [exe, *line], stdout=full, stderr=subprocess.PIPE, text=True)
            lines = [x for x in r.stderr.splitlines() if not x.startswith("softhca-run")]
            assert r.returncode == 1 and len(lines) == 1, (line, r)


def faults():
    """Errors of the device are counted, named and end in status 1; the other QPs continue."""
    fault = {"SOFTHCA_FAULTS": "opcode=write nth=100 action=error syndrome=remote_access"}
    o = report("--fork", "-n", 200, "-q", 2, "-s", 64, "-t", 16, status=1, env=fault)
    assert o["errors"] == 1 and "Permission denied" in o["events"][0], o
    assert 200 <= o["sent"]["messages"] < 400, o
    o = report("--fork", "-n", 200, "-s", 64, status=1,
               env={"SOFTHCA_FAULTS": "opcode=write nth=1 action=error syndrome=remote_access"})
    assert o["latency_ns"]["samples"] == 0 and o["sent"]["messages"] == 0, o
    o = report("--fork", "-n", 200, "--op", "s", "-s", 64, "--check", status=1,
               env={"SOFTHCA_FAULTS": "opcode=send nth=50 action=error syndrome=retry_exceeded"})
    assert o["errors"] == 1 and o["mismatches"] == 0, o


def events():
    """Asynchronous events of the device are in the report."""
    o = report("--fork", "-n", 300, "-s", 64, "-t", 4, status=1,
               env={"SOFTHCA_FAULTS": "opcode=write nth=50 action=link_down"})
    assert "the port is down" in o["events"] and any("timed out" in e for e in o["events"]), o


def corrupted():
    """A WRITE that ends with an error, after a part of its payload was placed, is counted as an error."""
    o = report("--fork", "-n", 100, "-s", 4096, "-t", 200, "--check", status=1,
               env={"SOFTHCA_FAULTS": "opcode=write nth=50 action=partial bytes=100"})
    assert o["errors"] >= 1, o


def engine_below(pid, runs):
    """Waits until process pid has a child that is an engine, and returns the child. Fails if `runs` ends first."""
    while True:
        assert runs.poll() is None, runs.stderr.read()
        try:
            for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
                if pathlib.Path(f"/proc/{child}/comm").read_text().strip() == os.path.basename(exe)[:15]:
                    return int(child)
        except OSError:
            pass  # the process has just ended


def killed():
    """If a peer is killed, the other side names it and ends."""
    with tempfile.TemporaryDirectory() as tmp:
        server = Server("--timeout", 2)
        client = start("-p", server.port, "-D", 100, "-s", 64, "--stats-file", tmp + "/s", "--compat", "127.0.0.1", start_new_session=True)
        while not os.path.exists(tmp + "/s"):  # traffic flows
            assert client.poll() is None, client.stderr.read()
        os.killpg(client.pid, signal.SIGKILL)
        client.communicate()
        o, _ = server.end(1)
        assert o["peers"][0]["lost"] and "gone" in o["events"][0], o
        assert o["times_ns"]["end"] == o["times_ns"]["counters_after"], o  # not known better
    # With --fork the server ends with the client, even if it still waits for the client's connection.
    both = start("--fork", "-D", 100)
    client = engine_below(both.pid, both)
    server = engine_below(client, both)
    os.kill(client, signal.SIGKILL)
    try:
        both.communicate(timeout=HANG)  # until the server, which has the same standard error, has ended
    except subprocess.TimeoutExpired:
        os.kill(server, signal.SIGKILL)
        raise


def virtual(devices, *args, what="engine", env=None):
    """Returns the report of an engine that preloads virtual-clock.c: its clock shows the virtual time of the link."""
    preload = f'LD_PRELOAD="{os.path.abspath(sys.argv[4])}:$LD_PRELOAD" exec "$@"'
    line = command("--fork", "-s", 8, *args, "--json", "-", hca=["--topology", devices, "--link", "virtual", "sh", "-c", preload, "sh"], what=what)
    o = json.loads(support.run(*line, timeout=HANG, env=env).stdout)
    assert o["clock"] == "virtual time", o
    return o


def larger():
    """Larger messages and larger batches take longer, on a link that has a rate: as long as the link needs."""
    with topology("name=mlx5_0 link=ib rate_mbps=100\n") as devices:
        for size in 1024, 8192, 65536:
            for batch in 1, 16, 64:
                latency = virtual(devices, "-n", 2 * batch, "-s", size, "-l", batch, "-t", batch)["latency_ns"]
                assert size * batch * 80 <= latency["min"] <= latency["max"] <= size * batch * 84, (size, batch, latency)


def delayed():
    """A link with a latency of 50 us. The result of an atomic takes this time twice. With a rate, or with pauses,
    batches are due at exact times."""
    with topology("name=mlx5_0 link=ib rate_mbps=1000000 latency_ns=50000\n") as devices:
        for what, op, ways in (("engine", "w", 1), ("engine", "s", 1), ("lat", "w", 1), ("lat", "s", 1), ("lat", "a", 2)):
            o = virtual(devices, "-n", 100, "--op", op, *(["-t", 1] if what == "engine" else []), what=what)
            latency = o["latency_ns"]
            assert latency["samples"] >= 99, o
            assert all(50000 * ways <= latency[k] <= 52500 * ways for k in ("min", "p50", "max")), (what, op, o)
        for args, least, most in ((["--rate", 2000], .00955, .0103), (["--burst", 2, "--burst-pause", 1000], .009, .0105)):
            o = virtual(devices, "-n", 20, "--op", "w", "-t", 1, *args, env={"VIRTUAL_IDLE": "1"})
            assert least <= o["sent"]["seconds"] <= most and 50000 <= o["latency_ns"]["max"] <= 52500, (args, o)
            assert args[0] != "--rate" or o["response_ns"]["max"] <= 101000, o


globals()[case]()
print("passed")
