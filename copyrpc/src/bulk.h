/* SPDX-License-Identifier: MIT */
/* The program's memory, registered for pulls, pushes and large calls. */
#ifndef COPYRPC_SRC_BULK_H
#define COPYRPC_SRC_BULK_H

#include "copyrpc_bulk.h"
#include "internal.h"

/*
 * A registration. The memory of a bulk must stay mapped, so transfers, calls and bulks within this
 * memory share its registration. When the bulk is freed, further ones must not use its memory's
 * registration, because other memory may be mapped at that address later.
 */
struct reg {
	struct copyrpc_ctx *ctx;
	struct reg *next, **link_p; /* in the list of the context */
	struct mlx5dvl_mr mr;
	unsigned flags; /* enum mlx5dvl_access */
	uint32_t refs; /* bulks, transfers and large calls that use it */
};

struct copyrpc_bulk {
	struct copyrpc_bulk *next, **link_p; /* in the list of the context */
	struct reg *reg;
	uint8_t *addr;
	size_t len;
	int access;
};

/* True if @len bytes, at least one, fit at @off into @size bytes. */
static inline bool range_fits(uint64_t off, uint64_t len, uint64_t size)
{
	return len && len <= size && off <= size - len;
}

/* Finds a registration of the memory with this access, or makes one. Returns 0 or an error of
 * copyrpc_bulk_create(). reg_put() accepts NULL. */
int reg_get(struct copyrpc_ctx *ctx, const void *addr, size_t len, unsigned flags,
	struct reg **reg_p);
void reg_put(struct reg *reg);

/* Frees the bulks of the context. */
void ctx_free_bulks(struct copyrpc_ctx *ctx);

#endif
