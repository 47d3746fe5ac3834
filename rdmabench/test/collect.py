#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""rdmabench collect merges files, skips and reports unusable ones, and reads other machines by ssh.

    collect.py RDMABENCH FIGURES [CASE...]
"""
import json
import os
import pathlib
import sys
import time

from support import GOLDEN, KEYS, run, run_cases, seeded, text

exe, figures = map(os.path.abspath, sys.argv[1:3])
rand = seeded()
path_env = os.environ["PATH"]


def collect(*args, status=0):
    """Returns the JSON object, and standard error."""
    r = run(exe, "collect", "--json", "-", *args, status=status, timeout=400, env={"PATH": path_env})
    return json.loads(r.stdout), r.stderr


def write(directory, run_name, window, samples):
    return pathlib.Path(run(figures, "file", directory, run_name, window, *samples).stdout.strip()).with_suffix(".jsonl")


def expected(samples):
    """Returns the figures, with percentiles by nearest rank."""
    s, n = sorted(samples), len(samples)
    rank = [s[-(-n * p // 100) - 1] for p in (50, 95, 99)]
    return dict(zip(KEYS, [n, s[0], sum(s) // n, *rank, s[-1]]))


def figures_of(o):
    return {k: o[k] for k in KEYS}


def native(tmp):
    """Samples below 256 are exact in a histogram, so the merged figures are, too."""
    a, b, c = ([rand.randrange(256) for _ in range(rand.randint(1, 300))] for _ in range(3))
    files = [write(tmp / "s", "r1", 0, a), write(tmp / "s", "r1", 0, b), write(tmp / "s", "r1", 7, c)]
    o, err = collect(tmp / "s")
    assert figures_of(o) == expected(a + b + c) and not err and not o["skipped"], (o, err)
    # Each file counts once, even if several paths lead to it or it is copied.
    o, _ = collect(tmp / "s", tmp / "s" / "r1", files[0], files[1])
    assert figures_of(o) == expected(a + b + c)
    copy = tmp / "copy.jsonl"
    copy.write_text(files[0].read_text())
    o, _ = collect(copy, *files)
    assert figures_of(o) == expected(a + b + c)
    # The latest line of a cumulative file has all samples.
    line = json.loads(files[0].read_text())
    earlier = json.loads(write(tmp / "e", "r1", 0, [1, 2, 3]).read_text())
    earlier.update(writer=line["writer"], written_ns=line["written_ns"] - 1)
    copy.write_text(json.dumps(earlier) + "\n" + files[0].read_text())
    o, _ = collect(copy)
    assert figures_of(o) == expected(a)
    # Containers may share host name and process numbers.
    twin = json.loads(files[1].read_text())
    twin.update(process=line["process"])
    copy.write_text(files[0].read_text() + json.dumps(twin) + "\n")
    o, err = collect(copy)
    assert figures_of(o) == expected(a + b) and twin["host"] == line["host"] and not err, (o, err)
    assert len(twin["writer"]) == 32 and twin["writer"][:8] in files[1].name, files
    # Another run is skipped and named.
    other = write(tmp / "s", "r2", 0, [200])
    o, err = collect("--run", "r1", tmp / "s")
    assert figures_of(o) == expected(a + b + c) and str(other) in err and "another run" in err
    # As text, and as a distribution.
    r = run(exe, "collect", "--cdf", tmp / "cdf", files[1])
    assert r.stdout == "".join(f"{k}: {v}\n" for k, v in expected(b).items()), r
    rows = [tuple(map(float, line.split())) for line in (tmp / "cdf").read_text().splitlines()[1:]]
    assert [v for v, _ in rows] == sorted(set(b)) and rows[-1][1] == 1, rows
    for v, fraction in rows:
        assert abs(fraction - sum(x <= v for x in b) / len(b)) < 1e-6


def damaged(tmp):
    """Incomplete, empty, foreign and old files are skipped and reported, and the good one counts."""
    good = write(tmp / "d", "r", 0, [5, 6])
    text = good.read_text()
    line = json.loads(text)
    hist = line["histogram"]

    def changed(**kw):
        return json.dumps({**line, "process": 1, **kw}) + "\n"

    cases = {
        "empty": ("", "empty"),
        "blank": ("\n\n", "empty"),
        "torn": (text[:-20], "torn"),
        "text": ("latency_samples: 5\n", "no JSON"),
        "other": ('{"command": "engine"}\n', "no statistics file"),
        "array": ("[]\n", "no statistics file"),
        "version": (changed(version=3), "version 3, this program reads version 2"),
        "version-1": (changed(version=1), "version 1, this program reads version 2"),
        "writer": (changed(writer=line["writer"][1:]), "does not name its writer"),
        "writer-none": (changed(writer=None), "does not name its writer"),
        "count": (changed(latency_samples=3), "changed"),
        "hist": (changed(histogram=hist.replace("5", "6")), "changed"),
        "hist-torn": (changed(histogram=hist[:-9]), "changed"),
        "hist-none": (changed(histogram=None), "--compat"),
        "negative": (changed(process=-1), "no statistics file"),
        "twice": (text.replace('{"version"', '{"version":2,"version"'), "no JSON"),
        "old": (changed(written_ns=(int(time.time()) - 1000) * 10**9), "too old"),
    }
    for key in ("version", "run", "host", "role", "process", "window", "written_ns", "cumulative"):
        cases[f"without-{key}"] = (changed(**{key: None}), "no statistics file")
    for name, (content, _) in cases.items():
        (tmp / "d" / f"{name}.jsonl").write_text(content)
    os.mkfifo(tmp / "d" / "pipe.jsonl")
    cases["pipe"] = ("", "no file")
    (tmp / "d" / "binary.jsonl").write_bytes(bytes(range(256)))
    cases["binary"] = ("", "torn")
    (tmp / "d" / "unreadable.jsonl").mkdir()
    cases["missing"] = ("", "No such file")
    o, err = collect("--max-age", 500, tmp / "d", tmp / "d" / "missing.jsonl")
    assert figures_of(o) == expected([5, 6]), o
    for name, (_, why) in cases.items():
        said = [e for e in err.splitlines() if f"/{name}.jsonl" in e]
        assert said and why in said[0], (name, why, err)
    assert len(o["skipped"]) >= len(cases) and len(o["sources"]) == 1, o
    o, err = collect(tmp / "nothing", status=1)
    assert o["latency_samples"] == 0 and "no statistics" in err
    # Links that lead nowhere, and a path that is too long to be read.
    (tmp / "l").mkdir()
    good.rename(tmp / "l" / "good.jsonl")
    for name in "link.jsonl", "machine":
        (tmp / "l" / name).symlink_to(tmp / "nowhere")
    o, err = collect(tmp / "l")
    assert figures_of(o) == expected([5, 6]) and err.count("skipped") == 2, err
    assert all(f"/{name}: No such file" in err for name in ("link.jsonl", "machine")), err
    deep = tmp / "l"
    os.chdir(deep)
    while len(str(deep)) < 4085:  # the longest path has 4095 bytes
        deep /= "d" * min(200, 4090 - len(str(deep)) - 1)
        os.mkdir(deep.name)
        os.chdir(deep.name)
    pathlib.Path("file.jsonl").touch()
    os.chdir(tmp)
    _, err = collect(deep, status=1)
    assert "file.jsonl: its path is too long" in err, err
    # Only the torn line is lost, not the lines before it.
    windows = write(tmp / "w", "r", 2, [1, 2, 3, 4])
    windows.write_text(windows.read_text() + '{"version":1,')
    o, err = collect(windows)
    assert figures_of(o) == expected([1, 2, 3, 4]) and "torn" in err
    # A line that lacks only its newline is whole.
    windows.write_text(windows.read_text()[:-len('\n{"version":1,')])
    o, err = collect(windows)
    assert figures_of(o) == expected([1, 2, 3, 4]) and not o["skipped"], err


def compat(tmp):
    d = tmp / "c"
    d.mkdir()
    for i, row in enumerate(GOLDEN):
        (d / f"{i}.txt").write_text(text(row))
    r = run(exe, "collect", "--compat", d)
    assert r.stdout == ("latency_samples:  30\nlatency_min_ns:  15642778.0\n"
                        "latency_avg_ns:  142739395.66666666\nlatency_median_ns:  142834680.66666666\n"
                        "latency_p95_ns:  206864349.0\nlatency_p99_ns:  206864349.0\n"
                        "latency_max_ns:  206864349.0\n"), r.stdout
    (d / "torn.txt").write_text(text(GOLDEN[0])[:50])
    (d / "empty.txt").write_text("")
    (d / "zero.txt").write_text(text([0] * 7))
    o, err = collect("--compat", d, d / "none", d / "0.txt", d)
    assert o["latency_samples"] == 30 and o["latency_avg_ns"] == 142739395.66666666, o
    for name in ("torn", "empty", "zero", "none"):
        assert f"/{name}" in err, err
    os.utime(d / "0.txt", (1, 1))
    o, err = collect("--compat", "--max-age", 100, d)
    assert o["latency_samples"] == 20 and "too old" in err
    o, _ = collect("--compat", d / "zero.txt", status=1)
    assert o["latency_samples"] == 0 and o["latency_min_ns"] is None


SSH = r"""#!/usr/bin/env python3
import json, os, subprocess, sys
with open(os.environ["SSH_LOG"], "a") as f:
    f.write(json.dumps(sys.argv[1:]) + "\n")
assert "--" in sys.argv and "-oBatchMode=yes" in sys.argv
host, command = sys.argv[sys.argv.index("--") + 1:]
if host == "dead":
    sys.exit(255)
if host == "deaf":
    subprocess.run(["sleep", "1000"])
if host == "loud":
    os.write(2, b"noise\n")
home = os.path.join(os.environ["SSH_HOMES"], host.split("@")[-1])
sys.exit(subprocess.run(["sh", "-c", command], cwd=home if os.path.isdir(home) else "/").returncode)
"""


def remote(tmp):
    global path_env
    (tmp / "bin").mkdir()
    (tmp / "bin" / "ssh").write_text(SSH)
    (tmp / "bin" / "ssh").chmod(0o755)
    path_env = f"{tmp / 'bin'}:{os.environ['PATH']}"
    log = tmp / "log"
    os.environ.update(SSH_LOG=str(log), SSH_HOMES=str(tmp / "homes"))
    name = "it's a $(touch rdmabench-owned) dir"
    a, b, mine = [3, 4], [90, 91, 92], [200]
    for host, samples in (("one", a), ("loud", b)):
        (tmp / "homes" / host).mkdir(parents=True)
        write(tmp / "homes" / host / name, "r", 0, samples)
    here = tmp / "homes"
    evil = "x;touch rdmabench-evil;y"
    os.chdir(tmp)
    write(tmp / name, "r", 0, mine)
    o, err = collect("--timeout", 60, "--host", "me@one", "--host", "loud", "--host", "dead",
                     "--host", evil, "--host", "one.example", "--host", "me@one", name)
    assert figures_of(o) == expected(a + b + mine), (o, err)
    assert not list(tmp.rglob("rdmabench-owned")) and not (tmp / "rdmabench-evil").exists()
    assert "dead: ssh does not reach it" in err, err
    assert f"skipped {evil}" in err and "skipped one.example" in err, err
    asked = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(asked) == 5 and any(evil in argv for argv in asked), asked
    o, err = collect("--timeout", 1, "--host", "deaf", name)
    assert figures_of(o) == expected(mine) and "deaf: it does not answer" in err, (o, err)
    # The same files are read here and through ssh to this machine, and count once.
    o, _ = collect("--host", "one", here / "one" / name)
    assert figures_of(o) == expected(a)
    o, err = collect("--host", "one", "--no-local", name)
    assert figures_of(o) == expected(a)
    # Directories are read to the same depth on each machine.
    below = here / "one" / "deep"
    for i in range(6):
        below.mkdir()
        write(tmp / "runs", f"r{i}", 0, [i]).rename(below / "file.jsonl")
        below /= "d"
    for place in (["--host", "one", "--no-local", "deep"], [here / "one" / "deep"]):
        o, err = collect(*place)
        assert figures_of(o) == expected([0, 1, 2, 3]), (o, err)
    # A torn file causes no line of another file to be lost, whether or not it is the last file read for its path argument.
    torn = here / "one" / "torn"
    for i in range(5):
        good = write(torn, "r", 0, [i])
        (good.parent / f"{i}.jsonl").write_text(good.read_text()[:-9])
    (here / "one" / "cut").write_text(good.read_text()[:-9])
    o, err = collect("--host", "one", "--no-local", "cut", "torn", "cut", "torn/r")
    assert figures_of(o) == expected(range(5)) and len(o["skipped"]) == 12, (o, err)
    # Each machine reads the same files. Links are followed. A hidden path is read if it is an argument; hidden entries below
    # an argument are not read.
    names = here / "one" / ".names"
    kept = [write(names, "r", 0, [i]) for i in range(4)]
    (names / ".x").mkdir()
    kept[0].rename(names / ".x" / "0.jsonl")
    kept[1].rename(names / "r" / ".1.jsonl")
    kept[2].rename(names / "2")
    (names / "two.jsonl").symlink_to("2")
    (here / "one" / "link").symlink_to(".names")
    for path, samples in ((".names", [2, 3]), ("link", [2, 3]), (".names/.x", [0]), (".names/2", [2]), (".names/r/.1.jsonl", [1]), ("link/r/.", [3])):
        for place in (["--host", "one", "--no-local", path], [here / "one" / path]):
            o, err = collect(*place)
            assert figures_of(o) == expected(samples) and not o["skipped"], (place, o, err)
    # Ten samples on each of three machines are thirty, although one of the three is this machine, which is also read through ssh.
    ten = {host: [rand.randrange(256) for _ in range(10)] for host in ("m1", "m2", "m3")}
    for host, samples in ten.items():
        (here / host).mkdir()
        write(here / host / "ten", "r", 0, samples)
    (tmp / "ten").symlink_to(here / "m1" / "ten")
    o, _ = collect(*(x for host in ten for x in ("--host", host)), "ten")
    assert figures_of(o) == expected(sum(ten.values(), [])) and o["latency_samples"] == 30, o
    (here / "one" / "old").write_text(text([10, 1, 2, 3, 4, 5, 6]))
    (here / "loud" / "old").write_text(text([10, 3, 4, 5, 6, 7, 8])[:-30])
    o, err = collect("--compat", "--host", "one", "--host", "loud", "--host", "dead", "old")
    assert o["latency_samples"] == 10 and o["latency_max_ns"] == 6.0, o
    assert "skipped loud: it is torn" in err and "skipped dead" in err and "skipped old" in err, err
    path_env = str(tmp / "nothing")
    o, err = collect("--host", "one", "--no-local", name, status=1)
    assert "no ssh" in err, err


def bad(_):
    for args in ([], ["--host", "-oProxyCommand=x", "p"], ["--host", "", "p"], ["--timeout", "0", "p"],
                 ["--run", "../x", "p"], ["--compat", "--run", "r", "p"], ["--compat", "--cdf", "f", "p"],
                 ["--compat", "--host", "h", "p", "q"], ["--no-local", "p"], ["--max-age", "x", "p"],
                 ["--frobnicate", "p"], ["--json", "", "p"], ["--cdf", "", "p"]):
        r = run(exe, "collect", *args, status=2)
        assert r.stderr.count("\n") == 1 and "give" in r.stderr and not r.stdout, (args, r)
    assert "--max-age" in run(exe, "collect", "--help").stdout


run_cases((native, damaged, compat, remote, bad), sys.argv[3:])
