# SPDX-License-Identifier: MIT
"""call, recv and reply neither fence nor lock, and call no function but the one that
says why a call is refused; flush, which has the fence, shows that one would be seen."""
import re
import subprocess
import sys

objdump, archive = sys.argv[1:3]
text = subprocess.run([objdump, "-dr", "--no-show-raw-insn", archive], check=True,
                      capture_output=True, text=True).stdout
bodies = dict(re.findall(r"<((?:hot|cold)_\w+)>:\n(.*?)\n(?:\n|$)", text, re.S))
fence = re.compile(r"\t(?:lock\b|mfence|xchg\s.*\(|dmb\s+ish$|dmb\s+sy|ldax|ldxr|swp|cas)", re.M)
relocation = re.compile(r"R_\w+(?:PLT32|CALL26|JUMP26)\s+(\w+)")

if not fence.search(bodies["cold_flush"]):
    raise SystemExit("no fence found in flush: the check is blind")
for name in ("hot_call", "hot_recv", "hot_reply"):
    body = bodies[name]
    called = set(relocation.findall(body)) - {"shmipc_client_refused"}
    count = len(re.findall(r"^ +[0-9a-f]+:\t", body, re.M))
    print(f"{name}: {count} instructions")
    if fence.search(body):
        raise SystemExit(f"{name} has a fence:\n{body}")
    if called:
        raise SystemExit(f"{name} calls {called}:\n{body}")
