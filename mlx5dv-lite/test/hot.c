/* SPDX-License-Identifier: MIT */
/* Compiled, but not run: hot-calls.py reads the machine code of these functions. */
#include <mlx5dvl.h>

static void on_recv(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_recv *recv)
{
	*(uint64_t *)arg += recv->imm + recv->len;
}

static void on_sent(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_sent *sent)
{
	*(uint64_t *)arg += sent->token;
}

int hot_poll_recv(struct mlx5dvl_cq *cq, uint64_t *sum)
{
	return mlx5dvl_mono_poll(cq, 64, on_recv, sum);
}

int hot_poll_send(struct mlx5dvl_cq *cq, uint64_t *sum)
{
	return mlx5dvl_send_poll(cq, 64, on_sent, sum);
}

uint32_t hot_refill(struct mlx5dvl_srq *srq)
{
	return mlx5dvl_srq_refill(srq);
}

int hot_post(struct mlx5dvl_qp *qp, const void *p, uint64_t raddr, uint32_t rkey)
{
	return mlx5dvl_post_write_imm(qp, p, 0, 32, raddr, rkey, 1, 0, 2);
}

int hot_post_here(struct mlx5dvl_qp *qp, uint64_t word, uint64_t raddr, uint64_t rkey_word)
{
	void *here = mlx5dvl_sq_here(qp);

	if (!mlx5dvl_sq_fits(qp, sizeof(word)))
		return -1;
	memcpy(here, &word, sizeof(word));
	mlx5dvl_post_write_imm_here(qp, here, sizeof(word), raddr, rkey_word, 1, 0, 2);
	mlx5dvl_ring_new(qp);
	return 0;
}

int hot_post_by_ref(struct mlx5dvl_qp *qp, const void *p, uint32_t lkey, uint32_t len)
{
	return mlx5dvl_post_send(qp, p, lkey, len, MLX5DVL_BY_REF, 0);
}

void hot_ring(struct mlx5dvl_qp *qp)
{
	mlx5dvl_ring(qp);
}
