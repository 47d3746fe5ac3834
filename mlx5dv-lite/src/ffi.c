/* SPDX-License-Identifier: MIT */
/* Exports the inline functions of mlx5dvl.h as functions of the library. */
#define MLX5DVL_INLINE
#include "mlx5dvl.h"
