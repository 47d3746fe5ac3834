#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""rdmabench search writes its results, repeats and resumes a search, and removes no other files.

    search.py model RDMABENCH [CASE...]                     on the model
    search.py engines RDMABENCH SOFTHCA-RUN [CASE...]       on engines
"""
import contextlib
import fcntl
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import support
from support import KEYS, run_cases

exe = os.path.abspath(sys.argv[2])
runner = os.path.abspath(sys.argv[3]) if sys.argv[1] == "engines" else None
wanted = sys.argv[4 if runner else 3:]
prefix = [runner, "--fabric", f"rdmabench-search-{os.getpid()}"]
SIX = [f"{d}_{k}" for k in ("vport_rdma_unicast_bytes", "vport_rdma_unicast_packets", "prio3_pause_duration")
       for d in ("tx", "rx")]


def run(*args, prefix=(), **kw):
    return support.run(*prefix, exe, "search", *args, **kw)


SMALL = ["--fix=0.qp_num=4", "--fix=1.qp_num=4", "--fix=0.events=1", "--fix=1.events=1"]  # engines start quickly, and sleep


def search(log, *args, **kw):
    args = (*args, *(SMALL if "prefix" in kw and not any("0.qp_num" in str(a) for a in args) else []))
    return json.loads(run("--log", log, "--json", "-", *args, **kw).stdout)


def read_result(path):
    """Returns the blocks of a result file: JSON; and counters, the six counters with source and anomaly, latency."""
    first, rest = path.read_text().split("\n", 1)
    assert set(json.loads(first)) == {"Traffics"}, first
    assert rest.startswith("\n") and rest.endswith("\n\n"), path
    blocks = rest[1:-1].split("\n\n") if not rest.startswith("\n\n") else ["", *rest[2:-1].split("\n\n")]
    assert len(blocks) in (2, 3), blocks
    parsed = []
    for block in blocks:
        lines = block.strip("\n").splitlines()
        assert all(re.fullmatch(r"[^:]+:  \S+", line) for line in lines), block
        parsed.append({line.split(":  ")[0]: line.split(":  ")[1] for line in lines})
    assert list(parsed[1]) == [*SIX, "source", "anomaly"], parsed[1]
    if len(parsed) > 2:
        assert list(parsed[2]) == KEYS, parsed[2]
    return json.loads(first), parsed


def same_tree(a, b):
    names = sorted(str(p.relative_to(a)) for p in a.rglob("*") if p.is_file())
    assert names == sorted(str(p.relative_to(b)) for p in b.rglob("*") if p.is_file())
    for name in names:
        if not name.endswith(".sh"):  # scripts contain the name of their directory
            assert (a / name).read_bytes() == (b / name).read_bytes(), name


def layout(tmp):
    log = tmp / "log"
    o = search(log, "--model", "corner", "--anomalies", 2, "--tries", 2000)
    assert len(o["anomalies"]) == 1 and o["failures"] == 0 and o["tries"] == 2000, o
    tries = sorted(int(p.name) for p in (log / "result").iterdir() if p.is_file())
    assert tries == list(range(o["tries"])), tries
    for i, found in enumerate(o["anomalies"]):
        point, blocks = read_result(log / "result" / str(found["try"]))
        assert point == found["point"] and blocks[1]["anomaly"] == "-1" and blocks[0] == {}
        assert float(blocks[1]["tx_prio3_pause_duration"]) == 50000
        target = json.loads((log / "target" / str(i)).read_text())
        assert (target["features"], target["whole"], target["point"]) == (found["features"], True, point)
        wanted = {"0.qp_num", "0.tx_depth", "0.send_batch", "0.recv_batch", "0.request0.size", "0.request0.places"}
        assert set(found["features"]) == wanted and found["whole"] is True, found
        assert found["features"]["0.qp_num"] == ["256", "1024"] and found["features"]["0.send_batch"] == ["16", "32", "64"], found
        again, helps = log / "result" / "again" / str(found["try"]), log / "result" / "mfs_help" / str(i)
        assert {p.name.split("-")[1] for p in again.iterdir()} == {"again", "healthy"}
        assert {"healthy", "exchange", "drawn", "0.qp_num"} <= {p.name.split("-")[1] for p in helps.iterdir()}
        more = [*again.iterdir(), *helps.iterdir()]
        assert len(more) == o["measurements"] - o["tries"], o
        for p in more:
            read_result(p)
            assert (log / "reproduce" / p.parent.relative_to(log / "result") / (p.name + ".sh")).exists()
    script = log / "reproduce" / "0.sh"
    assert os.access(script, os.X_OK) and script.read_text().startswith("#!/bin/sh\n")
    assert subprocess.run(["sh", "-n", script]).returncode == 0
    # The same seed gives the same search, another seed another one.
    again = tmp / "again"
    search(again, "--model", "corner", "--anomalies", 2, "--tries", 2000)
    same_tree(log, again)
    other = tmp / "other"
    search(other, "--model", "corner", "--anomalies", 2, "--tries", 5, "--seed", 2)
    first = [(d / "journal.jsonl").read_text().splitlines()[1] for d in (log, other)]
    assert first[0] != first[1]
    for method in ("random", "sample", "anneal", "mixed"):
        search(tmp / method, "--method", method, "--model", "interior", "--tries", 20)
        read_result(tmp / method / "result" / "19")


def blunt(tmp):
    """A rule that every point breaks is reported once with the option to give; no conditions are looked for."""
    log = tmp / "log"
    r = run("--log", log, "--model", "corner", "--tries", 3, "--gbps", 1000, "--packets", 1e9)
    assert r.stderr.count("\n") == 1 and "throughput" in r.stderr and "give another --gbps or --packets" in r.stderr, r.stderr
    assert r.stdout.count("anomaly ") == 3, r.stdout
    assert not run("--log", tmp / "sharp", "--model", "corner", "--tries", 3).stderr


def report(tmp):
    """The report has an anomaly's conditions, as --fix accepts them, and says which limit ended the search."""
    args = ["--model", "corner", "--tries", 2000, "--anomalies", 1]
    out = run("--log", tmp / "log", *args).stdout
    assert out.count("\n  0.qp_num=256,1024\n") == 1 and "whole" not in out and "stopped" not in out, out
    fixed = [x for c in re.findall("^  (.*)$", out, re.M) for x in ("--fix", c)]
    assert "anomaly 0 (" in run("--log", tmp / "same", "--model", "corner", "--tries", 1, "--no-features", *fixed).stdout
    n = 1 + json.loads((tmp / "log" / "target" / "0").read_text())["try"]
    cut = run("--log", tmp / "cut", *args, "--measurements", n + 30).stdout
    assert "  the conditions are incomplete: whole is false\n" in cut and cut.endswith("stopped by --measurements: --resume continues\n"), cut
    assert run("--log", tmp / "cut", *args, "--resume").stdout == out.replace(str(tmp / "log"), str(tmp / "cut"))
    for seconds in .01, .1:  # on a busy machine the first ends before the first measurement
        r = run("--log", tmp / str(seconds), "--model", "corner", "--tries", 1000000, "--seconds", seconds)
        assert r.stdout.endswith("stopped by --seconds: --resume continues\n") and not r.stderr, r


def resume(tmp):
    args = ["--model", "corner", "--tries", 20]
    whole = tmp / "whole"
    search(whole, *args)
    lines = (whole / "journal.jsonl").read_text().splitlines(keepends=True)
    for keep, torn in ((len(lines), ""), (1, ""), (len(lines) // 2, lines[len(lines) // 2][:50])):
        part = tmp / "part"
        shutil.copytree(whole, part)
        (part / "journal.jsonl").write_text("".join(lines[:keep]) + torn)
        search(part, *args, "--resume")
        same_tree(whole, part)
        shutil.rmtree(part)
    r = run("--log", whole, "--model", "corner", "--tries", 21, "--resume", status=2)
    assert "other options" in r.stderr and "give" in r.stderr
    assert "no search to resume" in run("--log", tmp / "none", "--resume", status=2).stderr
    assert not (tmp / "none").exists()
    # A directory that cannot be created again.
    shutil.copytree(whole, tmp / "file")
    shutil.rmtree(tmp / "file" / "result")
    (tmp / "file" / "result").write_text("no directory")
    assert run("--log", tmp / "file", *args, "--resume", status=2).stderr == f"rdmabench search: {tmp}/file: Not a directory\n"
    # A journal of the version before, and of the next one.
    for version in 6, 8:
        (whole / "journal.jsonl").write_text("".join([lines[0].replace('"version":7', f'"version":{version}'), *lines[1:]]))
        assert (f"that search is of version {version}, this program resumes version 7" in
                run("--log", whole, *args, "--resume", status=2).stderr)
    # A whole line that is not JSON: the lines after it stay.
    damaged = "".join([*lines[:5], "x" + lines[5], *lines[6:]])
    (whole / "journal.jsonl").write_text(damaged)
    assert "damaged" in run("--log", whole, *args, "--resume", status=1).stderr
    assert (whole / "journal.jsonl").read_text() == damaged
    # A journal whose points are not those of the seed.
    changed = json.loads(lines[5])
    changed["at"][0] = (changed["at"][0] + 1) % 6
    (whole / "journal.jsonl").write_text("".join(lines[:5]) + json.dumps(changed) + "\n")
    assert "another search" in run("--log", whole, *args, "--resume", status=1).stderr
    # A number that another program wrote without a fraction is read (here it is an anomaly); what is no number is refused.
    line = json.loads(lines[5])
    (whole / "journal.jsonl").write_text("".join(lines[:5]) + json.dumps({**line, "v": [*line["v"][:4], 50000, 0]}) + "\n")
    assert search(whole, *args, "--resume")["refuted"] == 1  # because the model measures another value
    for damage in ({"err": None}, {"err": "x"}, {"v": ["x", *line["v"][1:]]}, {"samples": 1.5}, {"latency": ["x", *line["latency"][1:]]}):
        (whole / "journal.jsonl").write_text("".join(lines[:5]) + json.dumps({**line, **damage}) + "\n")
        assert "damaged" in run("--log", whole, *args, "--resume", status=1).stderr, damage


def keep(tmp):
    """Other files in the directory stay."""
    args = ["--model", "corner", "--tries", 5]
    log = tmp / "log"
    log.mkdir()
    search(log, *args)  # an empty directory is accepted
    (log / "mine").write_text("mine")
    before = (log / "journal.jsonl").read_text()
    r = run("--log", log, *args, status=2)
    assert r.stderr.count("\n") == 1 and "--force" in r.stderr
    assert (log / "journal.jsonl").read_text() == before and (log / "result" / "4").exists()
    search(log, "--model", "corner", "--tries", 3, "--force")
    assert (log / "mine").read_text() == "mine" and not (log / "result" / "4").exists()
    outside = tmp / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    shutil.rmtree(log / "result")
    (log / "result").symlink_to(outside)
    search(log, *args, "--force")  # the link is removed, not its target
    assert (outside / "kept").exists() and not (log / "result").is_symlink()
    foreign = tmp / "foreign"
    (foreign / "result").mkdir(parents=True)
    (foreign / "result" / "0").write_text("theirs")
    run("--log", foreign, *args, "--force", status=2)
    assert (foreign / "result" / "0").read_text() == "theirs"
    run("--log", "/nowhere/x", *args, status=2)


def locked(tmp):
    """Only one search at a time writes into a directory; a second one changes nothing."""
    args = ["--model", "corner", "--tries", 5]
    search(tmp / "log", *args)
    before = (tmp / "log" / "journal.jsonl").read_text()
    with open_dir(tmp / "log") as fd:
        fcntl.flock(fd, fcntl.LOCK_EX)
        for mode in ["--resume"], ["--force"], []:
            r = run("--log", tmp / "log", *args, *mode, status=2)
            assert r.stderr.count("\n") == 1 and "another search" in r.stderr and "give" in r.stderr, r.stderr
            assert (tmp / "log" / "journal.jsonl").read_text() == before
    search(tmp / "log", *args, "--resume")


@contextlib.contextmanager
def open_dir(path):
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


def bad(_):
    for args in ([], ["--log", ""], ["--log", "l", "extra"], ["--log", "l", "--method", "best"], ["--log", "l", "--tries", "0"],
                 ["--log", "l", "--seed", "-1"], ["--log", "l", "--anomalies", "65"], ["--log", "l", "-D", "0"],
                 ["--log", "l", "--model", "flat"], ["--log", "l", "--gbps", "x"], ["--log", "l", "--p99-us", "0"],
                 ["--log", "l", "--resume", "--force"], ["--log", "l", "--peer-dev", "mlx5_1"], ["--log", "l", "--fix", "0.qp_num=0"], ["--log", "l", "--fix", "speed=9"], ["--log", "l", "--frobnicate"], ["--log", "l", "--host", "-x"], ["--log", "l", "--peer", "=a"], ["--log", "l", "--peer", "a="],
                 ["--log", "l", "--peer", "-x=a"], ["--log", "l", "--peer", "a=-x"], ["--log", "l", "--server", "-x"], ["--log", "l", "--peer", "x" * 256 + "=a"],
                 ["--log", "l", "--server", "x" * 256], ["--log", "l", *["--server", "x"] * 17], ["--log", "l", "--address", "a"],
                 ["--log", "l", "--server", "a", "--compat"], ["--log", "l", "--peer", "a", "--fix", "1.direction=reverse"],
                 ["--dry-run", "--peer", "a", "--address", "b", "--server", "c", "--fix", "1.direction=reverse"], ["--log", "l", "--tx-pause", "nan"]):
        r = run(*args, status=2)
        assert r.stderr.count("\n") == 1 and "give" in r.stderr and not r.stdout, (args, r)
    assert "--anomalies" in run("--help").stdout


def too_long(tmp):
    """A directory or device whose name does not fit into a command is refused, with the reason."""
    args = ["--model", "corner", "--tries", 5]
    parent = tmp / ("p" * 200)
    parent.mkdir()
    log = parent / ("q" * (301 - len(str(parent)) - 1))
    search(log, *args)
    log = log.with_name(log.name + "q")
    for more in [], ["--dry-run"]:
        r = run("--log", log, *args, *more, status=2)
        assert r.stderr == f"rdmabench search: {str(log)[:120]}: give a shorter --log\n" and not r.stdout and not log.exists(), r
        r = run("--log", tmp / "log", *args, "--ib-dev", "d" * 320, *more, status=1)
        assert r.stderr.count("\n") == 1 and "the commands of a point are too long: give shorter" in r.stderr and not r.stdout, r
    far = ["--host", "a", "--peer", "b", "--dry-run"]  # engines on other machines write no files
    assert "'--report-histogram'" in run("--log", log, "--tries", 1, *far).stdout


def reasons(tmp):
    """A machine that runs something else than rdmabench is named, with a reason."""
    (tmp / "ssh").write_text("#!/bin/sh\necho '{}'\n")
    (tmp / "ssh").chmod(0o755)
    r = run("--log", tmp / "log", "--host", "a", "--peer", "b", "--tries", 1, "--fix=1.direction=none", status=1,
            env={"PATH": f"{tmp}:{os.environ['PATH']}"})
    assert "rdmabench search: 0: an engine on b failed: its report is incomplete or damaged\n" in r.stderr, r.stderr
    # The reason of another machine is one line, without the commands of a terminal. Nothing else of that machine is printed, and ssh
    # reads nothing.
    for why in {"error": "no\n\033[2J"}, {"events": ["no\n\033[2J"]}:
        (tmp / "ssh").write_text("#!/bin/sh\nprintf '\\033[2J' >&2\nread line && exit\ncat <<'END'\n" + json.dumps(why) + "\nEND\n")
        r = run("--log", tmp / "log", "--force", "--host", "a", "--peer", "b", "--tries", 1, "--fix=1.direction=none", status=1,
                env={"PATH": f"{tmp}:{os.environ['PATH']}"}, input="a line\n")
        assert "rdmabench search: 0: an engine on b failed: no??[2J\n" in r.stderr and r.stderr.isascii() and "\033" not in r.stderr, r.stderr


# The histogram of 20 latencies, as an engine writes it.
HISTOGRAM = ("latrec-hist 1\nbits 8\ncount 20\nsum 472158\nmin 16060\nmax 120950\nbuckets 10\n16063 1\n16127 1\n16255 3\n16383 2\n"
             "16511 4\n16639 4\n16895 2\n26239 1\n46079 1\n121343 1\nend 511a463496215de4\n")


def reported(tmp, name, reports, *fixed, status=0):
    """Measures a point whose engines run on machines a and b. Their clients give the reports; the clock of
    machine b differs. Returns the six figures, with source and anomaly, or standard error."""
    bin = tmp / name
    bin.mkdir()
    for i, o in enumerate(reports):
        latency = {"samples": 20, "histogram": HISTOGRAM}
        (bin / str(18515 + i)).write_text(json.dumps({"latency_ns": latency, "peers": [], **o}) + "\n")
    (bin / "ssh").write_text(f"""#!/bin/sh
for word; do command=$word; done
port=${{command#*--port=}}
case $command in *--wait=*) echo '{{"received":{{}},"times_ns":{{"start":1,"end":9000000000000}}}}';; *) cat {bin}/${{port%%\\'*}};; esac
""")
    (bin / "ssh").chmod(0o755)
    fixed = ["0.qp_type=RC", "1.direction=none", "0.bidirectional=0", f"0.process_num={len(reports)}", *fixed]
    r = run("--log", bin / "log", "--host", "a", "--peer", "b", "--tries", 1, "--gbps", 0, "--packets", 0, *(f"--fix={f}" for f in fixed),
            env={"PATH": f"{bin}:{os.environ['PATH']}"}, status=status)
    return r.stderr if status else read_result(bin / "log" / "result" / "0")[1][1]


def staggered(tmp):
    """A client's counters include the traffic of clients that began earlier; rates are of the time in which there was traffic."""
    def report(times, count):
        second = 1000000000
        return {"sent": {"messages": 1000, "bytes": 1000000, "seconds": 1}, "counters": dict.fromkeys(SIX, count * second),
                "times_ns": dict(zip(("counters_before", "start", "end", "counters_after"), (int(t * second) for t in times)))}

    # The second client reads its counters 0.5 s before it begins. The first client has begun at that time, and sends until 1.7.
    six = reported(tmp, "two", [report((.2, .7, 1.7, 1.8), 1), report((1, 1.5, 2.5, 2.7), 3)])
    assert six["source"] == "port" and float(six["tx_vport_rdma_unicast_packets"]) == 3e9 / 1.5, six
    # The time before the traffic of a single client does not count, and neither does the time after it.
    six = reported(tmp, "one", [report((1, 1.5, 3.5, 4), 3)])
    assert float(six["tx_vport_rdma_unicast_packets"]) == 3e9 / 2, six
    # Without the times, the engines' counts are used.
    o = report((0, 0, 0, 0), 3)
    del o["times_ns"]
    assert reported(tmp, "none", [o])["source"] == "engine"


def carried(tmp):
    """Without the port's counters, the bytes and packets of each request count in its direction: those of a READ in the other one."""
    def both(name, op, back, size=4128):
        sent = {"messages": 1000, "bytes": 1000 * (32 + size) // 2, "seconds": 1}
        peers = [{"sent": {"messages": 2000, "bytes": 2000 * (32 + size) // 2, "elapsed_ns": 1000000000}}]
        six = reported(tmp, name, [{"sent": sent, "peers": peers}], f"0.bidirectional={back}", "0.mtu=4096", "0.requests=2", "0.request0.op=w",
                       f"0.request1.op={op}", "0.request*.places=1", "0.request0.size=32", f"0.request1.size={size}")
        assert six["source"] == "engine", six
        return [round(float(six[k]) * (1e9 / 8 if "bytes" in k else 1)) for k in SIX[:4]]

    # tx and rx bytes, tx and rx packets: a request of 4128 bytes has two packets, one of 4096 bytes has one.
    assert both("writes", "w", 0) == [2080000, 0, 1500, 0]
    assert both("filled", "w", 0, 4096) == [2064000, 0, 1000, 0]
    assert both("reads", "r", 0) == [16000, 2064000, 500, 1000]
    assert both("both", "r", 1) == [16000 + 4128000, 2064000 + 32000, 500 + 2000, 1000 + 1000]


def endless(tmp):
    """A report with an infinite rate is no measurement: the journal could not be read again."""
    sent = {"messages": 1000, "bytes": 1000000, "seconds": 1e-308}
    assert "0: the rates in a report are not finite" in reported(tmp, "inf", [{"sent": sent}], status=1)


def values(tmp):
    """A file and --fix change the values of parameters, in their order; a resumed search needs the same values."""
    file, log = tmp / "values", tmp / "log"
    file.write_text("# Few of them.\n\n  0.qp_num = 3, 1024 # and many QPs\r\n*.direction=none\n0.rate=0\n0.rate += 1000\n0.cq_mod=8\n"
                    "*.request*.op=r\n0.outs=2\n0.qp_timeout=9\n0.retry_count=3\n0.sl=4\n0.tclass=104\n0.burst=2\n0.burst_pause=70\n"
                    "0.control=mr\n0.control_every=50")
    lines = [x for seed in range(4) for x in run("--dry-run", "--tries", 3, "--seed", seed, "--space", file).stdout.splitlines() if "engine" in x]
    assert {re.search("--qp-num=([0-9]*)", x)[1] for x in lines} == {"3", "1024"}
    assert {bool(re.search("'--rate=1000'", x)) for x in lines} == {True, False}
    for option in ("cq-mod=8", "outs=2", "qp-timeout=9", "retry-count=3", "sl=4", "tclass=104", "burst=2", "burst-pause=70", "control-every=50",
                   "qp-type=RC"):
        assert all(f"'--{option}'" in x for x in lines), option
    some = run("--dry-run", "--tries", 3, "--space", file, "--fix", "0.qp_num=7", "--fix", "0.rate=0").stdout
    assert set(re.findall("--qp-num=([0-9]*)", some)) == {"7"} and "--rate=" not in some, some
    args = ["--model", "corner", "--tries", 5]
    search(log, *args, "--space", file)
    traffics = [t for i in range(5) for t in read_result(log / "result" / str(i))[0]["Traffics"]]
    assert len(traffics) == 5 and all(t["qp_num"] in (3, 1024) and t["rate"] in (0, 1000) and t["cq_mod"] == 8 for t in traffics)
    search(log, *args, "--space", file, "--resume")
    assert "other options" in run("--log", log, *args, "--space", file, "--resume", "--inject", status=2).stderr
    file.write_text(file.read_text() + "\n0.sl += 5\n")
    assert "other options" in run("--log", log, *args, "--space", file, "--resume", status=2).stderr
    for bad, says in (("0.mtu=256\n0.qp_num=0\n", ":2: 0.qp_num '0' is not valid: give a whole number from 1 to 1024"),
                      ("\n\n0.speed=1", ":3: there is no parameter '0.speed'"), ("0.mtu=256\0,512", ":1: a byte is 0"),
                      ("0.sl=" + "1," * 300, ":1: that is too long"), ("0.sl=" + ",".join(map(str, range(16))) + "\n0.tclass=" + ",".join(map(str, range(17))), ":2: 0.tclass has too many"),
                      ("0.mtu\n", ":1: '0.mtu' is not valid"), ("0.mtu=\n", ":1: 0.mtu '' is not valid")):
        file.write_text(bad)
        r = run("--dry-run", "--space", file, status=2)
        assert r.stderr.count("\n") == 1 and f"--space: {file}{says}" in r.stderr, r.stderr
    for path in tmp, tmp / "missing":
        assert "give a file that can be read" in run("--dry-run", "--space", path, status=2).stderr
    r = run("--dry-run", "--fix", "0.qp_type=UD", "--fix", "0.request0.op=w", status=2)
    assert r.stderr.count("\n") == 1 and "no 0.qp_type has these operations" in r.stderr, r.stderr


def dry_run(tmp):
    """The commands are printed, and nothing is written."""
    os.chdir(tmp)
    out = run("--dry-run", "--tries", 3, "--seed", 5, "-D", ".25").stdout
    lines = [line for line in out.splitlines() if "engine" in line]
    assert lines and not list(tmp.iterdir())
    many = ["--dry-run", "--tries", 3, "--fix=0.process_num=6"]
    assert not any("--inject=" in run(*many, "--seed", s).stdout for s in range(5))
    assert any("--inject=" in run(*many, "--seed", s, "--inject").stdout for s in range(5))
    assert any("--control=" in run(*many, "--seed", s).stdout for s in range(5))
    one = ["--dry-run", "--tries", 1, "--fix=1.direction=none", "--fix=0.qp_type=RC", "--fix=0.requests=1", "--fix=0.request0.op=c"]
    for events in 0, 1:
        lines = run(*one, f"--fix=0.events={events}", "--fix=0.inline=110", "--fix=0.qp_num=256").stdout.splitlines()[1:-1]
        assert lines and all(("'--events'" in x) == bool(events) and "'--inline-size=110'" in x and "'--qp-num=256'" in x
                             and "'--request=c_1_8'" in x for x in lines), lines
    lines = [line for line in out.splitlines() if "engine" in line]
    for flag in ("--qp-type=", "--request=", "--qp-num=", "--send-batch=", "--recv-batch=", "--duration=0.25"):
        assert all(flag in line for line in lines), (flag, lines[0])


@contextlib.contextmanager
def member(fabric):
    """Keeps a fabric alive by a process that uses it."""
    p = subprocess.Popen([runner, "--fabric", fabric, "sh", "-c",
                          "exec 3< /sys/class/infiniband/mlx5_0/node_type && echo up && read wait"],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"up\n"
    yield
    p.communicate(b"\n", timeout=400)


def without_counters(tmp):
    """If a port does not have the six counters, the engines' own counts are used, and pauses are 0."""
    fabric = f"rdmabench-search-{os.getpid()}-none"
    with member(fabric):
        for p in pathlib.Path(f"/dev/shm/softhca-{os.getuid()}-{fabric}/sys").rglob("hw_counters"):
            shutil.rmtree(p)
        search(tmp / "own", "--tries", 1, "-D", ".2", "--gbps", 0, "--packets", 0, "--fix=1.direction=none", "--fix=0.requests=1",
               "--fix=0.request0.op=w", "--fix=0.request0.size=4096", "--fix=0.mtu=1024", "--fix=0.qp_type=RC", prefix=[runner, "--fabric", fabric])
    six = read_result(tmp / "own" / "result" / "0")[1][1]
    assert six["source"] == "engine" and float(six["tx_vport_rdma_unicast_bytes"]) > 0, six
    assert six["tx_vport_rdma_unicast_bytes"] == six["rx_vport_rdma_unicast_bytes"] and six["tx_prio3_pause_duration"] == "0.0", six
    packet = float(six["tx_vport_rdma_unicast_bytes"]) * 1e9 / 8 / float(six["tx_vport_rdma_unicast_packets"])
    assert abs(packet - 1024) < 1, six  # a message that fills its packets is not followed by an empty packet


def interrupted(tmp):
    """Engines end with their search, and a resumed search does not count their old statistics."""
    log = tmp / "interrupted"
    args = ["--log", log, "--tries", "2", "--gbps", "0", "--packets", "0", "--fix=0.process_num=1", "--fix=1.direction=none",
            "--fix=0.control=none", "--fix=0.qp_type=RC", *SMALL]
    p = subprocess.Popen([*prefix, exe, "search", *args, "-D", "1000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    support.until(p, lambda: list((log / "stats").glob("0/*.jsonl")))
    p.kill()
    p.communicate(timeout=400)  # until its engines, which have the same standard error, have ended
    shutil.rmtree(log)
    search(log, *args[2:], "-D", ".1", prefix=prefix)
    journal = (log / "journal.jsonl").read_text().splitlines(keepends=True)
    (log / "journal.jsonl").write_text("".join(journal[:2]))  # as if the second measurement had not ended
    old = next((log / "stats" / "1").glob("*-client.jsonl"))
    old.rename(old.with_name("old-client.jsonl"))
    search(log, *args[2:], "-D", ".1", "--resume", prefix=prefix)
    _, blocks = read_result(log / "result" / "1")
    samples = [json.loads(f.read_text().splitlines()[-1])["latency_samples"] for f in (log / "stats" / "1").glob("*.jsonl")]
    counted = int(blocks[2]["latency_samples"]) if len(blocks) > 2 else 0
    assert counted == sum(samples) and not (log / "stats" / "1" / "old-client.jsonl").exists(), samples


def begin(log, *args, program=exe, prefix=prefix, env=None):
    """Starts a search of simple points, none of which is an anomaly. Returns its command, and its process once two points are measured."""
    line = [*prefix, program, "search", "--log", log, "--json", "-", "--gbps", "0", "--packets", "0", "--fix=0.process_num=1",
            "--fix=1.direction=none", "--fix=0.control=none", *args, *SMALL]
    p = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    support.until(p, (log / "result" / "1").exists)
    return line, p


def dead(tmp):
    """If no engine works any more, the search ends; the resumed search measures the failed point again."""
    env = with_libraries()
    own, spare, log = tmp / "rdmabench", tmp / "spare", tmp / "dead"
    shutil.copy(exe, own)
    shutil.copy(exe, spare)
    line, p = begin(log, "--tries", "8", "-D", ".1", "--fix=0.qp_type=RC", program=own, env=env)
    (tmp / "broken").write_text("#!/bin/sh\nexit 1\n")
    (tmp / "broken").chmod(0o755)
    os.replace(tmp / "broken", own)  # no engine works from now on
    _, err = p.communicate(timeout=400)
    assert p.returncode == 1 and "--resume" in err, (p.returncode, err)
    journal = [json.loads(x) for x in (log / "journal.jsonl").read_text().splitlines()[1:]]
    assert 2 <= len(journal) < 8 and not any(x["err"] for x in journal), journal
    os.replace(spare, own)
    r = support.run(*line, "--resume", env=env)
    o = json.loads(r.stdout)
    assert o["tries"] == 8 and o["failures"] == 0, r
    assert not list((log / "stats").glob("probe"))


def unplugged(tmp):
    """The search ends with the engines' reason if the device fails, and can be resumed when the device works again."""
    fabric, log = f"rdmabench-search-{os.getpid()}-unplugged", tmp / "unplugged"
    ctl = [pathlib.Path(runner).with_name("softhcactl"), "-f", fabric, "link", "mlx5_0"]
    with member(fabric):
        line, p = begin(log, "--tries", "1000", "-D", ".05", "--fix=0.qp_type=RC", "--fix=0.qp_timeout=8", prefix=[runner, "--fabric", fabric])
        support.run(*ctl, "down")
        _, err = p.communicate(timeout=100)
        assert p.returncode == 1 and "(an engine failed: the device cannot be opened: Network is down)" in err and "--resume" in err, err
        journal = (log / "journal.jsonl").read_text()
        done = [json.loads(x) for x in journal.splitlines()[1:]]
        assert len(done) >= 2 and not any(x["err"] for x in done), done
        support.run(*ctl, "up")
        o = json.loads(support.run(*line, "--resume", "--measurements", len(done) + 2).stdout)
        assert o["measurements"] == len(done) + 2 and o["failures"] == 0, o
        assert (log / "journal.jsonl").read_text().startswith(journal)


def counted(tmp):
    """If a point fails, the last good point is measured again. These measurements are counted, too, and obey the limit."""
    own, runs, log = tmp / "rdmabench", tmp / "runs", tmp / "counted"
    shutil.copy(exe, own)
    (tmp / "half").write_text(f"""#!/bin/sh
for word; do case $word in --run=*) echo "$word" >>{runs}; run=$word;; esac; done
case $run in *[13579]) exit 1;; esac
exec {exe} "$@"
""")
    (tmp / "half").chmod(0o755)
    line, p = begin(log, "--tries", "20", "--measurements", "13", "-D", ".05", program=own, env=with_libraries())
    os.replace(tmp / "half", own)  # every second try fails from now on
    out, err = p.communicate(timeout=400)
    assert p.returncode == 0, err
    o, probes = json.loads(out), runs.read_text().split().count("--run=probe")
    scripts = list((log / "reproduce").rglob("*.sh"))
    assert o["failures"] >= 2 and o["measurements"] == 13 and len(scripts) + probes == 13, (o, probes, len(scripts))
    again = support.run(*line, "--resume", env=with_libraries())
    assert json.loads(again.stdout) == o, again.stdout


def with_libraries():
    """Returns the environment in which a copy of rdmabench finds its libraries."""
    libraries = {os.path.dirname(line.split()[2]) for line in subprocess.run(
        ["ldd", exe], capture_output=True, text=True, check=True).stdout.splitlines() if " => /" in line}
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(libraries)}


def engine(tmp):
    """A search runs engines and reads both kinds of statistics files into its results."""
    for compat in ([], ["--compat"]):
        # On a machine with other work a tenth of a second may be too short for ten latencies.
        for seconds in ".1", "1", "10":
            log, args = tmp / (seconds + "".join(compat)), ["--tries", 2, "-D", seconds, "--gbps", 0, "--packets", 0, "--fix=0.process_num=2", *compat]
            o = search(log, *args, prefix=prefix)
            assert o["tries"] == 2 and o["failures"] == 0 and not o["anomalies"], o
            results = [read_result(log / "result" / str(i))[1] for i in range(2)]
            if all(len(blocks) > 2 for blocks in results):
                break
        for i, blocks in enumerate(results):
            assert float(blocks[1]["tx_vport_rdma_unicast_bytes"]) > 0 and blocks[1]["source"] == "port"
            assert int(blocks[0]["port_xmit_packets"]) > 0, blocks[0]
            samples = int(blocks[2]["latency_samples"])
            assert samples > 0 and (not compat or samples % 10 == 0), blocks
            assert list((log / "stats" / str(i)).glob("*-client.jsonl"))
        done = (log / "journal.jsonl").read_text()
        search(log, *args, "--resume", prefix=prefix)
        assert (log / "journal.jsonl").read_text() == done  # nothing was measured again
    out = support.run(*prefix, log / "reproduce" / "0.sh", status=None).stdout
    point, _ = read_result(log / "result" / "0")
    assert len([json.loads(line) for line in out.splitlines()]) == sum(t["process_num"] for t in point["Traffics"])


def inject(tmp):
    """Engines inject the event that --fix names."""
    o = search(tmp / "inject", "--tries", 1, "-D", ".05", "--gbps", 0, "--packets", 0, "--fix=0.inject=delay",
               "--fix=0.inject_at=16", "--fix=0.process_num=1", "--fix=1.direction=none", "--fix=0.control=mr", prefix=prefix)
    assert o["failures"] == 0, o
    assert "'--inject=delay@16'" in (tmp / "inject" / "reproduce" / "0.sh").read_text()
    traffic = read_result(tmp / "inject" / "result" / "0")[0]["Traffics"][0]
    assert (traffic["control"], traffic["inject"], traffic["inject_at"]) == ("mr", "delay", 16), traffic


def rates(tmp):
    """Traffic with a rate lacks throughput only if it does not keep up with the rate; a resumed search decides the same."""
    for rate, anomaly, seconds in (1, "0", ".2"), (1000000000, "-2", ".1"):
        args = ["--tries", 1, "-D", seconds, f"--fix=0.rate={rate}", "--fix=1.direction=none", "--fix=0.qp_type=RC", "--fix=0.process_num=1",
                "--fix=0.send_batch=1", "--fix=0.bidirectional=0", "--fix=0.burst=0", "--tx-pause", 1000000, "--rx-pause", 1000000, "--gbps", 10000,
                "--packets", 1000000000, "--no-features", "--measurements", 2]
        log = tmp / str(rate)
        o = search(log, *args, prefix=prefix)
        assert read_result(log / "result" / "0")[1][1]["anomaly"] == anomaly and o["failures"] == 0, o
        again = search(log, *args, "--resume", prefix=prefix)
        assert again == o, (o, again)


def late(tmp):
    """Contention on a slow link is found by the latency alone: 16 messages of 32 KiB need at least 200 ms."""
    fixed = ["0.process_num=1", "0.burst=0", "0.requests=1", "1.direction=none", "0.events=1", "0.inline=220", "0.qp_num=1",
             "0.tx_depth=16", "0.send_batch=1", "0.qp_type=RC", "0.request0.op=w", "0.request0.places=1", "0.bidirectional=0",
             "0.control=none", "0.rate=0", "0.cq_mod=1", "0.request0.size=64,32768"]
    with support.topology("name=mlx5_0 link=ib rate_mbps=20\n") as devices:
        o = search(tmp / "late", "--method", "sample", "--tries", 2, "-D", ".05", "--gbps", 0, "--packets", 0,
                   "--p99-us", 100000, "--no-features", *(f"--fix={x}" for x in fixed),
                   prefix=[*prefix, "--topology", devices, "--link", "real"])
    sizes = {a["point"]["Traffics"][0]["requests"][0]["size"] for a in o["anomalies"]}
    assert o["failures"] == 0 and {a["anomaly"] for a in o["anomalies"]} == {"latency"}, o
    assert max(sizes) >= 32768, sizes


def wide(tmp):
    """Values at the ends of the space: many QPs that sleep, atomics, messages with immediates, the smallest MTU."""
    for name, qps, more in (("rc", 256, ["0.qp_type=RC", "0.request0.op=c", "0.request1.op=wi"]),
                            ("uc", 4, ["0.qp_type=UC", "0.request0.op=wi", "0.request1.op=si"]),
                            ("ud", 1, ["0.qp_type=UD", "0.request0.op=si", "0.request1.op=s"])):
        fixed = [f"0.qp_num={qps}", "0.events=1", "0.inline=55", "0.requests=2", "0.mtu=256", "0.process_num=1", "0.tx_depth=8",
                 "0.control=none", "1.direction=none", *more]
        o = search(tmp / name, "--tries", 1, "-D", ".2", "--gbps", 0, "--packets", 0, *(f"--fix={x}" for x in fixed), prefix=prefix)
        assert o["failures"] == 0, o
        traffic = read_result(tmp / name / "result" / "0")[0]["Traffics"][0]
        assert (traffic["events"], traffic["inline"], traffic["qp_num"], traffic["mtu"]) == (1, 55, qps, 256), traffic


def directions(tmp):
    """Between two devices the directions differ: in the counters of the first device, and in the devices of clients and
    servers. Each direction is counted once. Both flows have the same rate."""
    same = ["process_num=1", "bidirectional=0", "requests=1", "request0.op=s", "request0.size=1024", "qp_type=RC", "qp_num=1", "rate=1000",
            "send_batch=1", "burst=0", "control=none"]
    fixed = [f"--fix={flow}.{x}" for flow in (0, 1) for x in same]
    for way, first, second in (("none", "'--ib-dev=mlx5_0' '--server-dev=mlx5_1'", None),
                               ("reverse", "'--ib-dev=mlx5_0' '--server-dev=mlx5_1'", "'--ib-dev=mlx5_1' '--server-dev=mlx5_0'"),
                               ("loopback", "'--ib-dev=mlx5_0' '--server-dev=mlx5_1'", "'--ib-dev=mlx5_0' '--stats-dir=")):
        # On a busy machine the first flow can end before the second one begins.
        for seconds in ".2", "1", "10":
            log = tmp / f"way-{way}-{seconds}"
            search(log, "--tries", 1, "-D", seconds, "--gbps", 0, "--packets", 0, "-d", "mlx5_0", "--peer-dev", "mlx5_1",
                   f"--fix=1.direction={way}", *fixed, prefix=[*prefix, "-n", "2"])
            six = read_result(log / "result" / "0")[1][1]
            received, sent = float(six["rx_vport_rdma_unicast_bytes"]), float(six["tx_vport_rdma_unicast_bytes"])
            if way == "none" or 0 < received < 1.5 * sent:
                break
        lines = [x for x in (log / "reproduce" / "0.sh").read_text().splitlines() if "engine" in x]
        assert first in lines[0] and (second is None or second in lines[1]) and len(lines) == 1 + bool(second), lines
        assert sent > 0 and six["source"] == "port", six
        assert (received > 0) == (way != "none") and received < 1.5 * sent, (way, six)


def hopeless(tmp):
    """A point that cannot be measured is not an anomaly."""
    for tries in 2, 50:
        o = search(tmp / f"none-{tries}", "--tries", tries, "-D", ".05", "-d", "mlx5_9", prefix=prefix, status=1)
        assert o["failures"] == o["tries"] == min(tries, 5) and not o["anomalies"], o
        journal = (tmp / f"none-{tries}" / "journal.jsonl").read_text()
        assert journal.count("\n") == 1, journal  # only the header, so --resume measures again


engines = [engine, inject, rates, late, wide, directions, without_counters, interrupted, dead, unplugged, counted, hopeless]
run_cases(engines if runner else [layout, blunt, report, resume, keep, locked, bad, too_long, reasons, staggered, carried, endless, values, dry_run], wanted)
