/* SPDX-License-Identifier: MIT */
/* The table from QP numbers to QPs, and the state of the BlueFlame registers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "internal.h"

void core_init(struct core *core, mlx5dvl_error_fn *on_error, void *error_arg)
{
	memset(core, 0, sizeof(*core));
	for (size_t i = 0; i < ARRAY_SIZE(core->table.leaf); i++)
		core->table.leaf[i] = &core->empty;
	core->on_error = on_error;
	core->error_arg = error_arg;
}

void core_fini(struct core *core)
{
	for (size_t i = 0; i < ARRAY_SIZE(core->table.leaf); i++)
		if (core->table.leaf[i] != &core->empty)
			free(core->table.leaf[i]);
	for (uint32_t i = 0; i < core->bf_count; i++)
		free(core->bf[i]);
}

int core_add_qp(struct core *core, struct mlx5dvl_qp *qp)
{
	struct mlx5dvl_qp_leaf **leaf = &core->table.leaf[qp->qpn / MLX5DVL_QPN_LEAF_];

	if ((*leaf)->qp[qp->qpn % MLX5DVL_QPN_LEAF_])
		return -EEXIST;
	if (*leaf == &core->empty) {
		struct mlx5dvl_qp_leaf *fresh = calloc(1, sizeof(*fresh));

		if (!fresh)
			return -ENOMEM;
		*leaf = fresh;
	}
	(*leaf)->qp[qp->qpn % MLX5DVL_QPN_LEAF_] = qp;
	(*leaf)->used++;
	return 0;
}

/* Removes the QP, and frees its leaf if that becomes empty: devices use QP numbers from their whole
 * range, so empty leaves would accumulate. */
void core_remove_qp(struct core *core, const struct mlx5dvl_qp *qp)
{
	struct mlx5dvl_qp_leaf **leaf = &core->table.leaf[qp->qpn / MLX5DVL_QPN_LEAF_];

	(*leaf)->qp[qp->qpn % MLX5DVL_QPN_LEAF_] = NULL;
	if (--(*leaf)->used)
		return;
	free(*leaf);
	*leaf = &core->empty;
}

uint32_t core_leaves(const struct core *core)
{
	uint32_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(core->table.leaf); i++)
		n += core->table.leaf[i] != &core->empty;
	return n;
}

int core_get_bf(struct core *core, void *reg, uint32_t size, struct mlx5dvl_bf **bf_p)
{
	struct mlx5dvl_bf *bf;

	for (uint32_t i = 0; i < core->bf_count; i++) {
		if (core->bf[i]->reg == reg) {
			*bf_p = core->bf[i];
			return 0;
		}
	}
	bf = core->bf_count < BF_REGISTERS ? calloc(1, sizeof(*bf)) : NULL;
	if (!bf)
		return -ENOMEM;
	bf->reg = reg;
	bf->size = size;
	core->bf[core->bf_count++] = bf;
	*bf_p = bf;
	return 0;
}
