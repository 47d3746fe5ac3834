/* SPDX-License-Identifier: MIT */
/* The functions of mlx5dvl.h that are compiled into their callers, as functions of the library. */
#define MLX5DVL_INLINE
#include "mlx5dvl.h"
