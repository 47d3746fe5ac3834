/* SPDX-License-Identifier: MIT */
/* Posts datagrams and requests with several data segments; creates addresses for datagrams. */
#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

#define AV_UNITS (sizeof(struct mlx5_wqe_av) / 16)
#define AV_EXTENDED 0x80000000u /* flag: the address is written with all 48 bytes */

static_assert(sizeof(struct mlx5_wqe_av) == 48, "an address takes three units of 16 bytes");

struct mlx5dvl_ah {
	struct ibv_ah *ibv;
	struct mlx5_wqe_av av; /* the address in the format of a WQE */
};

static int take_over_ah(struct mlx5dvl_ah *ah, const struct mlx5dvl_qp_info *peer)
{
	struct mlx5dv_ah dv = {0};
	struct mlx5dv_obj obj = {.ah = {.in = ah->ibv, .out = &dv}};

	if (mlx5dv_init_obj(&obj, MLX5DV_OBJ_AH))
		return -EIO;
	ah->av = *dv.av;
	ah->av.dqp_dct = htobe32(peer->qpn | AV_EXTENDED);
	ah->av.key.qkey.qkey = htobe32(peer->qkey);
	return 0;
}

int mlx5dvl_ah_create(struct mlx5dvl_qp *queue, const struct mlx5dvl_qp_info *info, size_t size,
	struct mlx5dvl_ah **ah_p)
{
	struct qp *qp = qp_of(queue);
	struct mlx5dvl_qp_info peer;
	struct ibv_ah_attr attr;
	struct mlx5dvl_ah *ah;
	int err;

	if (qp->attr.type != MLX5DVL_UD)
		return -EINVAL;
	err = qp_read_peer(qp->ctx, info, size, &peer);
	if (err)
		return err;
	if (peer.qkey >> 31)
		return -EINVAL;
	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return -ENOMEM;
	qp_address(qp, &peer, &attr);
	errno = 0;
	ah->ibv = ibv_create_ah(qp->ctx->pd, &attr);
	err = ah->ibv ? take_over_ah(ah, &peer) : verbs_errno();
	if (err) {
		if (ah->ibv)
			ibv_destroy_ah(ah->ibv);
		free(ah);
		return err;
	}
	*ah_p = ah;
	return 0;
}

void mlx5dvl_ah_destroy(struct mlx5dvl_ah *ah)
{
	if (!ah)
		return;
	ibv_destroy_ah(ah->ibv);
	free(ah);
}

static bool is_valid(const struct qp *qp, const struct mlx5dvl_list *l)
{
	bool datagram = qp->attr.type == MLX5DVL_UD;
	bool send = l->opcode == MLX5DVL_SEND || l->opcode == MLX5DVL_SEND_IMM;

	return l->nsge <= MLX5DVL_LIST_MAX && !l->ah == !datagram &&
	       (send || (!datagram && mlx5dvl_op_remote_(l->opcode)));
}

static uint32_t places(const struct mlx5dvl_list *l)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < l->nsge; i++)
		n += l->sge[i].len > 0;
	return n;
}

static void write_list(mlx5dvl_word_ *seg, const struct mlx5dvl_list *l)
{
	if (l->ah) {
		memcpy(seg, &l->ah->av, sizeof(l->ah->av));
		seg += AV_UNITS * 2;
	} else if (mlx5dvl_op_remote_(l->opcode)) {
		*seg++ = htobe64(l->raddr);
		*seg++ = htobe64((uint64_t)l->rkey << 32);
	}
	for (uint32_t i = 0; i < l->nsge; i++) {
		if (!l->sge[i].len)
			continue;
		*seg++ = htobe64((uint64_t)l->sge[i].len << 32 | l->sge[i].lkey);
		*seg++ = htobe64((uintptr_t)l->sge[i].addr);
	}
}

int mlx5dvl_post_list(struct mlx5dvl_qp *queue, const struct mlx5dvl_list *l)
{
	bool imm = l->opcode == MLX5DVL_WRITE_IMM || l->opcode == MLX5DVL_SEND_IMM;
	struct mlx5dvl_place_ at;
	uint32_t ds, blocks;
	int err;

	if (!is_valid(qp_of(queue), l))
		return -EINVAL;
	ds = 1 + (l->ah ? (uint32_t)AV_UNITS : mlx5dvl_op_remote_(l->opcode)) + places(l);
	blocks = (ds + 3) / 4;
	if (!mlx5dvl_sq_takes_(queue, blocks)) {
		err = mlx5dvl_sq_wrap_(queue, blocks);
		if (err)
			return err;
	}
	at = mlx5dvl_sq_place_(queue);
	write_list(at.ctrl + 2, l);
	mlx5dvl_sq_commit_(queue, at, ds, l->opcode, imm ? l->imm : 0, l->flags, l->token);
	return 0;
}
