# SPDX-License-Identifier: MIT
"""The structs of the Python modules have the same layout as those in the headers; the C compiler checks this.

    test_layout.py INCLUDE_DIRECTORY...
"""
import ctypes
import subprocess
import sys

from mlx5rpc import copyrpc, shmipc, tent

STRUCTS = {
    "shmipc_attr": shmipc._Attr,
    "shmipc_event": shmipc.Event,
    "shmipc_req": shmipc._Req,
    "shmipc_server_stats": shmipc._ServerStats,
    "shmipc_client_stats": shmipc._ClientStats,
    "copyrpc_ctx_attr": copyrpc._CtxAttr,
    "copyrpc_ep_attr": copyrpc._EpAttr,
    "copyrpc_path": copyrpc.Path,
    "copyrpc_listen_attr": copyrpc._ListenAttr,
    "copyrpc_dial_attr": copyrpc._DialAttr,
    "copyrpc_large_attr": copyrpc._LargeAttr,
    "copyrpc_remote": copyrpc._Remote,
    "copyrpc_event": copyrpc._Event,
    "copyrpc_stats": copyrpc._Stats,
    "tent_attr": tent._Attr,
    "tent_directory": tent._Directory,
    "tent_why": tent._Why,
    "tent_remote": tent._Remote,
    "tent_request": tent._Request,
    "tent_note": tent._Note,
    "tent_status": tent._Status,
    "tent_rail_stats": tent._RailStats,
}
CONSTANTS = {
    "COPYRPC_INFO_SIZE": copyrpc.INFO_SIZE,
    "COPYRPC_AGAIN_SIZE": copyrpc.AGAIN_SIZE,
    "COPYRPC_BULK_SIZE": copyrpc._BULK_SIZE,
    "COPYRPC_REMOTE_READ": copyrpc.READ,
    "COPYRPC_REMOTE_WRITE": copyrpc.WRITE,
    **{f"COPYRPC_{name}": getattr(copyrpc, name) for name in ("UP", "DOWN", "GONE", "BACK")},
    "SHMIPC_SET_GID": shmipc._Attr._bits_["gid"],
    "TENT_NAME_LEN": tent._NAME_LEN,
    **{f"TENT_{value.name}": value for kind in (tent.Op, tent.State) for value in kind},
    **{f"SHMIPC_EVENT_{name}": getattr(shmipc, name) for name in ("CAME", "LEFT", "DIED")},
    **{f"COPYRPC_SET_{name.upper()}": bit
       for bits in (copyrpc._CtxAttr._bits_, copyrpc.Path._bits_) for name, bit in bits.items()},
}

text = "#include <copyrpc_bulk.h>\n#include <copyrpc_tcp.h>\n#include <shmipc.h>\n#include <tent.h>\n"
for name, struct in STRUCTS.items():
    text += f'_Static_assert(sizeof(struct {name}) == {ctypes.sizeof(struct)}, "size of {name}");\n'
    for field, kind in struct._fields_:
        text += (f"_Static_assert(offsetof(struct {name}, {field}) == {getattr(struct, field).offset} && "
                 f"sizeof(((struct {name} *)0)->{field}) == {ctypes.sizeof(kind)}, \"{name}.{field}\");\n")
for name, value in CONSTANTS.items():
    text += f'_Static_assert({name} == {value}, "{name}");\n'
sys.exit(subprocess.run(["gcc", "-std=c11", "-fsyntax-only", *(f"-I{path}" for path in sys.argv[1:]), "-xc", "-"],
                        input=text, text=True).returncode)
