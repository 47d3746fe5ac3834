# SPDX-License-Identifier: MIT
"""The message layers of mlx5-rpc-workspace for Python: mlx5rpc.shmipc between processes of one
machine, mlx5rpc.copyrpc between machines, mlx5rpc.tent for large transfers."""
