#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that the hot path calls only this library's own slow paths, and never through a pointer.

    hot-calls.py INCLUDE_DIR HOT_C COMPILER...
"""
import re
import shutil
import subprocess
import sys
import tempfile

COLD = {
    "hot_poll_recv": {"mlx5dvl_cq_odd_"},
    "hot_poll_send": {"mlx5dvl_cq_odd_"},
    "hot_refill": {"mlx5dvl_srq_post_"},
    "hot_post": {"mlx5dvl_sq_wrap_"},
    "hot_post_here": set(),
    "hot_post_by_ref": {"mlx5dvl_sq_wrap_"},
    "hot_ring": set(),
}

include, source, *compilers = sys.argv[1:]
errors, seen = [], 0
missing = [tool for tool in [*compilers, "objdump"] if not shutil.which(tool)]
compilers = [cc for cc in compilers if not {cc, "objdump"} & set(missing)]
for cc in compilers:
    with tempfile.NamedTemporaryFile(suffix=".o") as obj:
        subprocess.run([cc, "-std=gnu11", "-O2", f"-I{include}", "-c", source, "-o", obj.name],
                       check=True)
        text = subprocess.run(["objdump", "-dr", "--no-show-raw-insn", obj.name], check=True,
                              capture_output=True, text=True).stdout
    for name, body in re.findall(r"^[0-9a-f]+ <([\w.]+)>:\n((?:.+\n)+)", text, re.M):
        allowed = COLD[name.split(".")[0]]  # hot_post.cold is a part of hot_post
        seen += name in COLD
        if re.search(r"\b(?:call|jmp)\s+\*", body):
            errors.append(f"{cc}: {name} calls through a pointer")
        for target in set(re.findall(r"R_X86_64_(?:PLT|PC)32\s+([A-Za-z_]\w*)", body)) - allowed:
            errors.append(f"{cc}: {name} calls {target}")
if seen < len(COLD) * len(compilers):
    errors.append(f"only {seen} functions seen")
print(f"{seen} functions of {len(compilers)} compilers")
if missing:
    print("not installed:", *missing)
sys.exit("\n".join(errors) or (77 if missing else 0))
