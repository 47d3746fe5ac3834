# SPDX-License-Identifier: MIT
"""The functions call, recv and reply contain no fence and no locked operation, and neither do the functions
that they call. The exceptions are functions for refused calls, posts, loans, forged requests and clients that
have gone, and memcpy(), which is used for long messages. A wake test executes a fence and checks whether the
peer sleeps: it shows that this program recognizes a fence. recv and a client's poll do not load two fields
together if one of them may just have been stored alone: such a load waits until the store has left the store
buffer.

	hotpath.py OBJDUMP ARCHIVE-OF-HOTPATH LIBSHMIPC.A
"""
import re
import subprocess
import sys

objdump, *archives = sys.argv[1:]
text = subprocess.run([objdump, "-dr", "--no-show-raw-insn", *archives], check=True,
                      capture_output=True, text=True).stdout
bodies = dict(re.findall(r"<((?:hot_\w+|shmipc_priv_\w+_(?:begin|full|part|end_burst|wake_test))(?:\.\w+)*)>:\n(.*?)\n(?:\n|$)", text, re.S))
fence = re.compile(r"\t(?:lock\b|mfence|xchg\s.*\(|dmb\s+ish$|dmb\s+sy|ldax|ldxr|swp|cas)", re.M)
# cellring_step() and shmipc_priv_client_window() prevent such loads.
wide_load = re.compile(r"\tv?mov(?:dq[ua]|[ua]p[sd])\s+[^,]*\(.*\),%[xy]mm")
relocation = re.compile(r"R_\w+(?:PLT32|CALL26|JUMP26)\s+(\w+)")

for name in "shmipc_priv_client_wake_test", "shmipc_priv_server_wake_test":
    if not fence.search(bodies[name]):
        raise SystemExit(f"no fence found in {name}: it is gone, or this test does not recognize it")
bursts = {f"shmipc_priv_{side}_{what}" for side in ("client", "server") for what in ("begin", "full", "part", "end_burst")}
hot = {"hot_call", "hot_recv", "hot_reply"} | bursts
for name in hot | {part for part in bodies if part.split(".")[0] in hot}:  # a part: hot_call.cold
    body = bodies[name]
    called = set(relocation.findall(body)) - {"shmipc_priv_client_refused", "shmipc_priv_server_forged", "shmipc_priv_server_is_post", "shmipc_priv_server_consumed", "shmipc_priv_server_loaned", "shmipc_priv_server_gone", "memcpy"} - hot
    count = len(re.findall(r"^ +[0-9a-f]+:\t", body, re.M))
    print(f"{name}: {count} instructions")
    if fence.search(body):
        raise SystemExit(f"{name} has a fence:\n{body}")
    if called:
        raise SystemExit(f"{name} calls {called}:\n{body}")
for name in "hot_recv", "hot_poll":
    if wide_load.search(bodies[name]):
        raise SystemExit(f"{name} loads fields together of which one has just been stored alone:\n{bodies[name]}")
