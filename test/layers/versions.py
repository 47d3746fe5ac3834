# SPDX-License-Identifier: MIT
"""Checks the versions of the project and of its formats (docs/developing.md, Versions).

Files and programs that name the project's version must name the one of meson.build.

Each magic and version of a wire, region or file format has an entry in FORMATS. The entry names the test in which a
peer, region or file with another magic or version is refused, and the mutants of the check. A constant without an
entry is an error, and so is an entry whose constant, test or mutants do not exist. CHANGELOG.md names the versions.

    versions.py SOURCE [BUILD]
"""
import pathlib
import re
import subprocess
import sys

from layers import code, fail, tracked

# (file, constant): (a test, words that stand in it, mutants as FILE:NAME of test/mutants), and the words of CHANGELOG.md
# if it names the version, which is {} there.
FORMATS = {
    # Bytes that peers of copyrpc exchange. Other versions: -EPROTONOSUPPORT.
    ("copyrpc/src/blob.h", "BLOB_VERSION"): ("copyrpc/test/test-rules.c", "version <= BLOB_VERSION + 1", "copyrpc:blob-version", "blob {}"),
    ("copyrpc/src/blob.c", "magic"): ("copyrpc/test/test-failure.c", "{0, -EINVAL}", "copyrpc:blob-magic"),
    ("copyrpc/src/byhand.c", "magic"): ("copyrpc/test/test-by-hand.c", "{{0, 1, -EINVAL}", "copyrpc:hand-magic"),
    ("copyrpc/src/meet.c", "GREETING_VERSION"): (
        "copyrpc/test/test-tcp.c", "bytes[8] = (uint8_t)(bytes[8] + other);", "copyrpc:greet-version", "greeting {}"),
    ("copyrpc/src/meet.c", "greeting_magic"): ("copyrpc/test/test-tcp.c", "{0, -EPROTO}", "copyrpc:greet-magic"),
    ("copyrpc/src/meet.c", "place_magic"): ("copyrpc/test/test-back.c", "h.place.magic[7] ^= 1;", "copyrpc:back-place-magic"),
    ("copyrpc/src/meet.c", "result_magic"): ("copyrpc/test/test-tcp.c", "CPRPCRES", "copyrpc:greet-result-magic"),
    ("copyrpc/src/bulk.c", "VERSION"): (
        "copyrpc/test/test-bulk.c", "desc[28] = (uint8_t)(desc[28] + by);", "copyrpc:bulk-import-version", "descriptors of memory {}"),
    ("copyrpc/bench/copyrpc-bench.c", "HELLO_VERSION"): (
        "copyrpc/bench/errors.py", "for version in 1, 3:", "copyrpc:bench-stranger copyrpc:bench-version", "copyrpc-bench ({})"),
    # Regions: connect and look return -EPROTO; shmls prints both versions.
    ("delegrpc/include/delegrpc_inline.h", "DELEGRPC_VERSION"): (
        "shmls/test/shmls.py", "for version in ours - 1, ours + 1:",
        "delegrpc:region-version delegrpc:look-version shmls:region-foreign", "delegrpc (regions {})"),
    ("delegrpc/include/delegrpc_inline.h", "DELEGRPC_MAGIC"): (
        "delegrpc/test/test-unit.c", "TEST(connect_checks_the_header)", "delegrpc:region-magic delegrpc:look-magic"),
    ("shmipc/include/shmipc_inline.h", "SHMIPC_VERSION"): (
        "shmls/test/shmls.py", "for version in ours - 1, ours + 1:",
        "shmipc:region-version shmipc:look-version shmls:region-foreign", "shmipc ({})"),
    ("shmipc/include/shmipc_inline.h", "SHMIPC_MAGIC"): (
        "shmipc/test/test-trust.c", "TEST(foreign_files_are_refused)", "shmipc:region-magic shmipc:look-magic"),
    # The rings are part of regions: a change raises the versions of the regions as well.
    ("cellring/include/cellring.h", "CELLRING_ABI"): ("shmipc/src/layout.h", "static_assert(CELLRING_ABI == 3", ""),
    # Tables of objects, which shmls --live reads in processes.
    ("base/include/base/live.h", "LIVE_VERSION"): (
        "shmls/test/live.c", "FORGE(image->page.version--, 0);", "shmls:live-version", "tables of objects ({})"),
    ("base/include/base/live.h", "LIVE_MAGIC"): ("shmls/test/live.c", "page.magic = 0", "shmls:live-magic shmls:live-type"),
    # Files and messages of the benches.
    ("latrec/src/text.c", "VERSION"): ("latrec/test/test-text.c", 'refused("latrec-hist 0\\n"', "latrec:latrec-version", "latrec's texts ({})"),
    ("rdmabench/src/wire.h", "WIRE_VERSION"): (
        "rdmabench/test/engine.py", "for theirs in VERSION - 1, VERSION + 1:", "rdmabench:wire-version", "rdmabench (protocol {}"),
    ("rdmabench/src/wire.h", "WIRE_MAGIC"): ("rdmabench/test/test-wire.c", "{WIRE_MAGIC + 1,", "rdmabench:wire-magic"),
    ("rdmabench/src/statsfile.h", "STATSFILE_VERSION"): (
        "rdmabench/test/collect.py", "version 1, this program reads version 2", "rdmabench:gather-version", "statistics files {}"),
    ("rdmabench/src/searchlog.h", "SEARCHLOG_VERSION"): (
        "rdmabench/test/search.py", "for version in 6, 8:", "rdmabench:search-version", "searches {}"),
    # Sent by rdma_cm after both sides have compared WIRE_VERSION.
    ("rdmabench/src/cm.c", "MAGIC"): ("rdmabench/test/engine.py", "def rdma_cm(", ""),
    # Peers read the description of a segment first. If another format of tent changes, DESC_VERSION is raised.
    ("tent/src/desc.h", "DESC_VERSION"): ("tent/test/test-segment.c", '"\\"tent\\":5", -EPROTONOSUPPORT', "tent:segment-version", "tent (descriptions {})"),
    ("tent/src/ctl.h", "CTL_MAGIC"): ("tent/test/test-strangers.c", "CTL_MAGIC - (1u << 24)", "tent:ctl-magic"),
    ("tent/src/tcplink.h", "TCP_MAGIC"): (
        "tent/test/test-tcp.c", "TCP_MAGIC - (1u << 24)", "tent:tcp-greeting tent:tcp-reply-magic"),
    # The ranks of a job compare the versions of the program in HELLO, before anything else is read.
    ("benchkv/src/hello.h", "HELLO_MAGIC"): (
        "benchkv/test/test-hello.c", 'before ? "0.1.0" : "99.1"', "benchkv:hello-version benchkv:hello-magic"),
    ("benchkv/src/lifeline.c", "MAGIC"): ("benchkv/test/test-lifeline.c", "refuses(1, 1); /* the magic */", "benchkv:lifeline-magic"),
    ("benchkv/src/result.c", "RESULT_MAGIC"): ("benchkv/test/test-options.c", "data[0] ^= 1;", "benchkv:result-magic"),
    # The shared memory of a fabric.
    ("subprojects/softhca/src/fabric/arena.h", "ARENA_VERSION"): (
        "subprojects/softhca/test/hca/test-surroundings.c", "TEST(other_version)",
        "softhca:arena-version softhca:arena-version-first", "fabrics of softhca ({})"),
    ("subprojects/softhca/src/fabric/arena.h", "ARENA_MAGIC"): (
        "subprojects/softhca/test/hca/test-surroundings.c", "TEST(other_version)", "softhca:arena-magic"),
}
# Constants of formats that others have defined.
FOREIGN = {"BYTE_ORDER_MAGIC", "BTH_VERSION", "CLASS_VERSION", "SOFTHCA_CM_ABI", "subprojects/softhca/src/cm/mad.c VERSION"}
CONSTANT = re.compile(r"^#define (\w*(?:VERSION|MAGIC|_ABI))\s+(?:0x)?\d|^static const char (\w*magic)\[", re.M)
PROGRAMS = ["benchkv/benchkv", "benchkv/sim/benchkv-sim", "rdmabench/rdmabench", "shmls/shmls", "tent/sim/tentbench",
            "subprojects/softhca/src/run/softhca-run", "subprojects/softhca/src/run/softhcactl"]

source = pathlib.Path(sys.argv[1]).resolve()
errors = []


def constants():
    for path in tracked(source, "*.c", "*.h"):
        name = str(path.relative_to(source))
        if not re.search(r"(^|/)(test|fuzz|subprojects/(?!softhca))/", name):
            for define, array in CONSTANT.findall(code(path.read_text())):
                if not {define, f"{name} {define}"} & FOREIGN:
                    yield name, define or array


def check_formats():
    found = set(constants())
    errors.extend(f"{f}: {c} has no entry in versions.py: write the test in which another version is refused"
                  for f, c in sorted(found - set(FORMATS)))
    errors.extend(f"versions.py: {f} has no {c}" for f, c in sorted(set(FORMATS) - found))
    for (file, constant), (test, words, mutants, *_) in FORMATS.items():
        if not (source / test).exists() or words not in (source / test).read_text():
            errors.append(f"{constant} of {file}: {test} has no {words!r}")
        for mutant in mutants.split():
            where, _, name = mutant.partition(":")
            if f"\nmutant: {name}\n" not in "\n" + (source / f"test/mutants/{where}.txt").read_text():
                errors.append(f"{constant} of {file}: test/mutants/{where}.txt has no {name}")
    print(f"{len(found)} magics and versions of formats")


def check_changes():
    text = " ".join((source / "CHANGELOG.md").read_text().split())
    for (file, constant), (_, _, _, *in_changes) in FORMATS.items():
        for words in in_changes:
            value = re.search(rf"^#define {constant} (\d+)", (source / file).read_text(), re.M)[1]
            if words.format(value) not in text:
                errors.append(f"CHANGELOG.md has no {words.format(value)!r}: {constant} of {file} is {value}")


def named(path, pattern, version):
    found = re.search(pattern, (source / path).read_text(), re.M)
    if not found or found[1] != version:
        errors.append(f"{path}: {found[1] if found else 'no version'}, the project's version is {version}")


def check_project(version):
    named("subprojects/softhca/meson.build", r"^  version: '(.*)'", version)
    named("bindings/python/pyproject.toml", r'^version = "(.*)"', version)
    named("debian/changelog", r"\A\S+ \((.*)\)", version)
    named("CHANGELOG.md", r"^## (\d\S*)", version)
    pages = [p for p in tracked(source, "*.[1-9]") if p.parent.name == "man"]
    for page in pages:
        named(page.relative_to(source), r'^\.TH .*"\S+ (\d\S*)"', version)
    for program in sys.argv[2:] and PROGRAMS:
        exe = pathlib.Path(sys.argv[2]) / program
        if not exe.with_name(exe.name + ".p").is_dir():  # it is not built
            continue
        said = subprocess.run([exe, "--version"], capture_output=True, text=True).stdout.split()
        if said[-1:] != [version]:
            errors.append(f"{program} --version: {said}, the project's version is {version}")
    print(f"version {version}, {len(pages)} manual pages")


check_project(re.search(r"^  version: '(.*)'", (source / "meson.build").read_text(), re.M)[1])
check_formats()
check_changes()
fail(errors)
