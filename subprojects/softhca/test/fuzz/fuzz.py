#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The fuzzers of a project, for clang's libFuzzer, as the table ROOT/test/fuzz/fuzzers.txt describes them.

    fuzz.py run TABLE NAME SECONDS       runs the kept inputs, checks what they cover, then fuzzes for SECONDS
    fuzz.py renew TABLE NAME SECONDS     fuzzes, and adds the inputs that cover more
    fuzz.py build OUT TABLE...           builds all as OSS-Fuzz expects: with $CC, $CFLAGS, $CXX, $LIB_FUZZING_ENGINE

A table has a paragraph for each fuzzer. Names of files are relative to ROOT. A line that begins with a tab continues the
last one.

    fuzzer: LAYER-fuzz-NAME              the name of the test
    file: FILE                           defines LLVMFuzzerTestOneInput()
    with: FILE|-Ixx|-iquotexx|-Dxx|-lxx|-Wl,xx...  other sources, and what they need
    covers: PERCENT FILE...              of the lines of these files that the kept inputs must reach
    corpus: FILE...                      the kept inputs: a .txt, or a .py that writes them into the directory given
    longest: BYTES                       of an input
    dict: FILE                           words that inputs are made of (may be left out)

In a corpus each input begins a line, and continues in lines that begin with a blank: `'` and text, whose lines each end
with a newline, or hexadecimal digits.
"""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile

KEYS = ["fuzzer", "file", "with", "covers", "corpus", "longest"]
SANITIZED = ["-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all"]
# For a few seconds of fuzzing an optimised program does not pay: it takes four times as long to compile.
SHORT_S, SHORT, LONG = 10, ["-g1", "-O0"], ["-g", "-O1"]
MEASURED = ["-DNDEBUG", "-fprofile-instr-generate", "-fcoverage-mapping"]
WIDTH = 118  # of a line of hexadecimal digits


class Fuzzer:
    def __init__(self, root, record):
        words = record["with"].split()
        percent, *self.covers = record["covers"].split()
        self.root, self.name = root, record["fuzzer"]
        self.sources = [record["file"]] + [w for w in words if w.endswith(".c")]
        self.flags = [w for w in words if w.startswith(("-I", "-iquote", "-D"))]
        self.libs = [w for w in words if w.startswith(("-l", "-Wl"))]
        self.percent, self.longest = float(percent), int(record["longest"])
        self.corpora = [root / c for c in record["corpus"].split()]
        self.dict = root / record["dict"] if "dict" in record else None

    def compile(self, cc, flags, link, program, work):
        """Compiles one source after the other, for the sake of ccache."""
        objects = []
        for number, source in enumerate(self.sources):
            objects.append(f"{work}/{number}.o")
            call([*cc, "-std=gnu11", "-D_GNU_SOURCE", *flags, *self.flags, "-c", source, "-o", objects[-1]],
                 cwd=self.root)
        call([*link, *objects, "-o", program, *self.libs], cwd=self.root)

    def write_corpus(self, to):
        to.mkdir()
        for corpus in self.corpora:
            if corpus.suffix == ".py":
                call([sys.executable, corpus, to])
                continue
            for number, data in enumerate(parse(corpus.read_text())):
                (to / f"{corpus.stem}-{number}").write_bytes(data)


def call(command, **more):
    """Runs a command; if it fails, shows what it printed."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          **more)
    if done.returncode:
        sys.exit(f"{done.stdout[-8000:]}\n{shlex.join(map(str, command))[:400]}: status {done.returncode}")
    return done.stdout


def parse(text):
    """Yields the inputs of a corpus."""
    for match in re.finditer(r"^(?!#)\S.*(?:\n .*)*", text, re.M):
        first, *more = match[0].split("\n ")
        if first.startswith("'"):
            yield "".join(line + "\n" for line in [first[1:], *more]).encode()
        else:
            yield bytes.fromhex("".join([first, *more]))


def unparse(data):
    """Returns the lines of a corpus that stand for an input."""
    if re.fullmatch(rb"(?:[ -~]*[!-~]\n)+", data):
        return "'" + "\n ".join(data.decode().split("\n")[:-1]) + "\n"
    digits = data.hex()
    return "\n ".join(digits[i : i + WIDTH] for i in range(0, len(digits), WIDTH)) + "\n"


def table(path):
    """Returns the fuzzers of a table by name."""
    path = pathlib.Path(path).resolve()
    text = re.sub(r"^#.*\n", "", path.read_text(), flags=re.M).replace("\n\t", " ")
    found = {}
    for paragraph in filter(str.strip, text.split("\n\n")):
        record = dict(line.split(": ", 1) for line in paragraph.strip().split("\n"))
        if sorted(set(record) - {"dict"}) != sorted(KEYS):
            sys.exit(f"{path}: a fuzzer has the keys {', '.join(KEYS)}: {paragraph}")
        found[record["fuzzer"]] = Fuzzer(path.parents[2], record)
    return found


def measure(f, program, corpus, work):
    """Returns the percentage of lines that the inputs cover, and the other lines."""
    raw, profile = work / "raw", work / "profile"
    call([program, "-runs=0", "-timeout=600", corpus], cwd=work, env={**os.environ, "LLVM_PROFILE_FILE": str(raw)})
    call(["llvm-profdata", "merge", "-o", profile, raw])
    about = [f"-instr-profile={profile}", program, *(str(f.root / c) for c in f.covers)]
    summary = json.loads(call(["llvm-cov", "export", "-summary-only", *about]))
    lines = summary["data"][0]["totals"]["lines"]
    if not lines["count"]:
        sys.exit(f"{f.name}: {' '.join(f.covers)}: no such lines in the program")
    missed = re.findall(r"^(?:/.*:|\s*\d+\|\s+0\|.*)$", call(["llvm-cov", "show", *about]), re.M)
    return lines["percent"], "\n".join(missed)


def fuzz(f, program, corpus, seconds, work):
    """Looks for new inputs. Returns libFuzzer's last line."""
    words = [f"-dict={f.dict}"] if f.dict else []
    log = work / "log"
    with log.open("w") as to:
        done = subprocess.run(
            [program, f"-max_total_time={seconds}", f"-max_len={f.longest}", "-rss_limit_mb=1024", "-timeout=600",
             *words, corpus],
            cwd=work, env={**os.environ, "LLVM_PROFILE_FILE": "/dev/null"}, stdout=to, stderr=to)
    if done.returncode:
        print("\n".join(log.read_text(errors="replace").splitlines()[-60:]))
        for found in (p for kind in ("crash", "leak", "oom", "timeout") for p in work.glob(kind + "-*")):
            print(f"{found.name}, as a corpus has it:\n{unparse(found.read_bytes())}")
        sys.exit(1)
    return log.read_text(errors="replace").splitlines()[-1]


def prepare(f, seconds, work):
    """Builds the program and writes the kept inputs. Returns both paths."""
    ccache = [shutil.which("ccache")] if shutil.which("ccache") else []
    flags = SANITIZED + MEASURED + (SHORT if seconds < SHORT_S else LONG)
    f.compile([*ccache, "clang"], flags, ["clang", *flags], work / "fuzz", work)
    f.write_corpus(work / "corpus")
    return work / "fuzz", work / "corpus"


def run(f, seconds, work):
    program, corpus = prepare(f, seconds, work)
    percent, missed = measure(f, program, corpus, work)
    print(f"{percent:.1f} % of lines covered by {len(os.listdir(corpus))} kept inputs")
    if percent < f.percent:
        sys.exit(f"{missed}\n{f.name}: less than {f.percent} % of lines")
    print(fuzz(f, program, corpus, seconds, work))


def renew(f, seconds, work):
    program, corpus = prepare(f, seconds, work)
    before, _ = measure(f, program, corpus, work)
    print(fuzz(f, program, corpus, seconds, work))
    more = work / "more"
    f.write_corpus(more)
    call([program, "-merge=1", "-use_counters=0", "-use_cmp=0", more, corpus], cwd=work,
         env={**os.environ, "LLVM_PROFILE_FILE": "/dev/null"})
    after, missed = measure(f, program, more, work)
    (kept,) = (c for c in f.corpora if c.suffix == ".txt")
    head = re.match(r"(?:#.*\n)*", kept.read_text())[0]
    inputs = sorted({p.read_bytes() for p in more.iterdir()} - {b""}, key=lambda data: (len(data), data))
    kept.write_text(head + "".join(unparse(data) for data in inputs))
    print(f"{missed}\n{before:.1f} % of lines before, {after:.1f} % after, {len(inputs)} inputs")


def build(out, fuzzers, work):
    """Builds all fuzzers into a directory, each with its inputs, its words and its options."""
    engine = shlex.split(os.environ["LIB_FUZZING_ENGINE"])
    cc, cxx = (shlex.split(os.environ[name]) for name in ("CC", "CXX"))
    cflags, cxxflags = (shlex.split(os.environ.get(name, "")) for name in ("CFLAGS", "CXXFLAGS"))
    for f in fuzzers:
        corpus = work / f.name
        f.compile(cc, cflags, [*cxx, *cxxflags, *engine], out / f.name, work)
        f.write_corpus(corpus)
        with zipfile.ZipFile(out / f"{f.name}_seed_corpus.zip", "w", zipfile.ZIP_DEFLATED) as z:
            for seed in sorted(corpus.iterdir()):
                z.write(seed, seed.name)
        if f.dict:
            shutil.copy(f.dict, out / f"{f.name}.dict")
        (out / f"{f.name}.options").write_text(f"[libfuzzer]\nmax_len = {f.longest}\n")


def main():
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        if sys.argv[1] == "build":
            build(pathlib.Path(sys.argv[2]).resolve(), [f for t in sys.argv[3:] for f in table(t).values()], work)
        else:
            verb, file, fuzzer, seconds = sys.argv[1:]
            fuzzers = table(file)
            if fuzzer not in fuzzers:
                sys.exit(f"{file} has no {fuzzer}; it has {', '.join(fuzzers)}")
            {"run": run, "renew": renew}[verb](fuzzers[fuzzer], int(seconds), work)


main()
