# SPDX-License-Identifier: MIT
"""What each layer may be made of: the table that the layer tests check."""

# layer: (prefix of its exported symbols, directories it may include from,
#         libraries it may need besides libc, pkg-config names it requires)
LAYERS = {
    "mlx5dv-lite": ("mlx5dvl_", {"base"}, {"libibverbs.so.1", "libmlx5.so.1"}),
    "copyrpc": ("copyrpc_", {"base", "mlx5dv-lite"}, {"libmlx5dv-lite.so.0"}),
    "delegrpc": ("delegrpc_", {"base"}, set()),
    "shmipc": ("shmipc_", {"base"}, set()),
    "flux": ("flux_", {"base"}, set()),
}

# What any library may need: libc, and what the compiler and the sanitizers add.
LIBC = {"libc.so.6", "ld-linux-x86-64.so.2", "libpthread.so.0"}

# Programs: directories they may include from.
PROGRAMS = {
    "tent": {"base"},
    "benchkv": {"base", "mlx5dv-lite", "copyrpc", "delegrpc", "shmipc", "flux", "rdmabench"},
}

# No layer may see rdma-core's driver headers but the one that is over them.
DRIVER_HEADERS = {"mlx5dv-lite": {"mlx5dv.h", "mlx5_api.h", "verbs.h"}}

# Public headers, as installed.
HEADERS = {
    "mlx5dv-lite": ["mlx5dvl.h"],
    "copyrpc": ["copyrpc.h"],
    "delegrpc": ["delegrpc.h"],
    "shmipc": ["shmipc.h"],
    "flux": ["flux.h"],
}


def fail(msgs):
    for m in msgs:
        print(m)
    raise SystemExit(1 if msgs else 0)
