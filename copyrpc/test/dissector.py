# SPDX-License-Identifier: MIT
"""dissector.py LUA PROGRAM: the dissector's output in tshark agrees with the endpoints' counters.

Ends with status 77 if there is no tshark.
"""
import os
import shutil
import subprocess
import sys
import tempfile

lua, program = sys.argv[1:3]
FIELDS = ["consumer", "credit", "count", "wrap", "blocks"]
MESSAGE = ["id", "response", "limit", "allowance", "length", "payload"]
BLOCK, HEADER = 32, 12


def tshark(path, *options):
    command = ["tshark", "-r", path, "-X", f"lua_script:{lua}", "--disable-protocol", "rpcordma"]
    r = subprocess.run(command + list(options), check=True, capture_output=True, text=True)
    assert "Lua" not in r.stderr, r.stderr
    return r.stdout


def batches(path):
    """Returns the fields of each batch and of its messages as lists of text."""
    columns = [f"copyrpc.{f}" for f in FIELDS] + [f"copyrpc.message.{f}" for f in MESSAGE]
    options = ["-Y", "copyrpc", "-T", "fields"]
    for c in columns:
        options += ["-e", c]
    for line in tshark(path, *options).splitlines():
        values = (line.split("\t") + [""] * len(columns))[: len(columns)]
        yield dict(zip(FIELDS + MESSAGE, (v.split(",") if v else [] for v in values)))


def check(path, counted):
    messages = wraps = credit_only = full = length = 0
    calls, answers = set(), 0
    for b in batches(path):
        assert int(b["consumer"][0]) % BLOCK == 0 and int(b["credit"][0]) % BLOCK == 0
        length += BLOCK
        if b["wrap"]:
            assert b["wrap"] == b["blocks"] and not b["id"]
            wraps += 1
            continue
        n = int(b["count"][0])
        credit_only += n == 0
        full += n > 0
        assert len(b["id"]) == len(b["length"]) == len(b["allowance"]) == n
        sizes = [int(x) for x in b["length"]]
        blocks = [-(-(x + HEADER) // BLOCK) for x in sizes]
        assert sum(blocks) + 1 == int(b["blocks"][0])
        length += sum(x * BLOCK for x in blocks[:-1]) + sum(x + HEADER for x in sizes[-1:])
        for limit, allowance in zip(b["limit"], b["allowance"]):
            assert int(allowance) == -(-(int(limit) + HEADER) // BLOCK) + 1
        answers += sum(r in ("1", "True") for r in b["response"])
        messages += n
        calls |= set(b["id"])
        assert [len(p) for p in b["payload"]] == [2 * x for x in sizes]
    got = [messages, full, wraps, credit_only, length]
    assert got == counted, (got, counted)
    assert answers == messages // 2 and wraps and len(calls) > 5


def main():
    if not shutil.which("tshark"):
        print("tshark is not installed")
        return 77
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "capture.pcapng")
        env = {**os.environ, "SOFTHCA_CAPTURE": path, "LD_PRELOAD": os.environ["HCA"]}
        out = subprocess.run([program], check=True, env=env, capture_output=True, text=True).stdout
        check(path, [int(x) for x in out.split()])
        text = tshark(path, "-Y", "copyrpc", "-c", "400")
        assert "wrap marker" in text and "batch of " in text, text
        assert "note of a ring" in text and "last in the old ring" in text, text
        assert "Malformed" not in tshark(path, "-V", "-c", "400")
    return 0


sys.exit(main())
