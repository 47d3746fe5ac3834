/* SPDX-License-Identifier: MIT */
#include "ends.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

const char *step_name = "hwcheck";

void broken(const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fprintf(stderr, "%s: ", step_name);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	_Exit(1);
}

void must(const char *what, int err)
{
	if (err < 0)
		broken("%s: %s", what, strerror(-err));
}

double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void on_error(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_error *error)
{
	struct end *e = arg;

	if (!e->errors++ || (e->error.syndrome == 0x05 && error->syndrome != 0x05))
		e->error = *error;
}

static void on_recv(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_recv *recv)
{
	struct end *e = arg;

	e->received++;
	e->bytes += recv->len;
	e->imm = recv->imm;
	if (e->expect && recv->buf && memcmp(recv->buf, e->expect, recv->len))
		e->wrong = true;
}

static void on_sent(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_sent *sent)
{
	((struct end *)arg)->sent++;
}

static void *map(size_t len)
{
	void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		broken("memory");
	return at;
}

static void open_queues(struct end *e, uint32_t sends)
{
	struct mlx5dvl_srq_attr srq = {.depth = e->srq_depth, .buf_size = e->recv_size};
	struct mlx5dvl_cq_attr recv = {.events = true}, send = {.depth = sends, .events = true};

	if (e->recv_size) {
		size_t len = mlx5dvl_srq_buf_len(e->srq_depth, e->recv_size);

		srq.buf = map(len);
		must("receive memory",
			mlx5dvl_mr_reg(e->ctx, srq.buf, len, MLX5DVL_LOCAL_WRITE, &e->room));
		srq.lkey = e->room.lkey;
	}
	must("SRQ", mlx5dvl_srq_create(e->ctx, &srq, &e->srq));
	recv.srq = e->srq;
	must("receive CQ", mlx5dvl_cq_create(e->ctx, &recv, &e->recv_cq));
	must("send CQ", mlx5dvl_cq_create(e->ctx, &send, &e->send_cq));
}

void end_open(struct end *e, const struct wish *w, uint32_t srq_depth, uint32_t recv_size,
	uint32_t sq_depth, int qps)
{
	const struct mlx5dvl_ctx_attr ctx = {
		.device = w->device,
		.set = w->gid_index >= 0 ? MLX5DVL_SET_GID_INDEX : 0,
		.gid_index = w->gid_index < 0 ? 0 : w->gid_index,
		.on_error = on_error,
		.error_arg = e,
	};

	memset(e, 0, sizeof(*e));
	e->srq_depth = srq_depth;
	e->recv_size = recv_size;
	must("device", mlx5dvl_ctx_open(&ctx, &e->ctx));
	e->memory = map(MEMORY);
	must("memory region", mlx5dvl_mr_reg(e->ctx, e->memory, MEMORY,
				      MLX5DVL_LOCAL_WRITE | MLX5DVL_REMOTE_WRITE |
					      MLX5DVL_REMOTE_READ | MLX5DVL_REMOTE_ATOMIC,
				      &e->mr));
	open_queues(e, sq_depth * (uint32_t)(qps + 8));
	for (int i = 0; i < qps; i++) {
		const struct mlx5dvl_qp_attr qp = {.send_cq = e->send_cq,
			.recv_cq = e->recv_cq,
			.user = e,
			.sq_depth = sq_depth};

		must("queue pair", mlx5dvl_qp_create(e->ctx, &qp, &e->qp[i]));
	}
}

void end_close(struct end *e)
{
	for (int i = 0; i < QPS_MAX; i++)
		mlx5dvl_qp_destroy(e->qp[i]);
	must("send CQ", mlx5dvl_cq_destroy(e->send_cq));
	must("receive CQ", mlx5dvl_cq_destroy(e->recv_cq));
	must("SRQ", mlx5dvl_srq_destroy(e->srq));
	mlx5dvl_mr_dereg(&e->mr);
	if (e->room.addr) {
		void *addr = e->room.addr;
		size_t len = e->room.len;

		mlx5dvl_mr_dereg(&e->room);
		munmap(addr, len);
	}
	munmap(e->memory, MEMORY);
	mlx5dvl_ctx_close(e->ctx);
}

void ends_link(struct end *a, struct end *b, int n)
{
	for (int i = 0; i < n; i++) {
		struct mlx5dvl_qp_info of_a, of_b;

		mlx5dvl_qp_get_info(a->qp[i], &of_a, sizeof(of_a));
		mlx5dvl_qp_get_info(b->qp[i], &of_b, sizeof(of_b));
		must("connect", mlx5dvl_qp_connect(a->qp[i], &of_b, sizeof(of_b)));
		must("connect", mlx5dvl_qp_connect(b->qp[i], &of_a, sizeof(of_a)));
	}
}

void end_poll(struct end *e, bool refill)
{
	mlx5dvl_mono_poll(e->recv_cq, 64, on_recv, e);
	if (refill)
		mlx5dvl_srq_refill(e->srq);
	mlx5dvl_send_poll(e->send_cq, 64, on_sent, e);
}

void ends_until(struct end *a, struct end *b, const uint64_t *count, uint64_t n)
{
	double limit = now_s() + PATIENCE_S;
	uint64_t last = *count;

	for (;;) {
		end_poll(a, true);
		end_poll(b, true);
		if (a->errors || b->errors) {
			const struct mlx5dvl_error *e = a->errors ? &a->error : &b->error;

			broken("%s (syndrome 0x%02x, vendor 0x%02x)",
				mlx5dvl_syndrome_text(e->syndrome), e->syndrome,
				e->vendor_syndrome);
		}
		if (*count >= n)
			return;
		if (*count != last) {
			last = *count;
			limit = now_s() + PATIENCE_S;
		} else if (now_s() > limit) {
			broken("only %llu of %llu completions arrived", (unsigned long long)last,
				(unsigned long long)n);
		}
		sched_yield();
	}
}

void ends_error(struct end *a, struct end *b, const char *what, int want)
{
	double start = now_s();

	while (!a->errors) {
		end_poll(a, true);
		if (b)
			end_poll(b, true);
		if (now_s() - start > PATIENCE_S)
			broken("%s: no error after %.0f s", what, PATIENCE_S);
		sched_yield();
	}
	printf("%-28s %-18s syndrome 0x%02x, vendor 0x%02x, after %.3f s\n", what,
		strerror(-a->error.err), a->error.syndrome, a->error.vendor_syndrome,
		now_s() - start);
	if (want && a->error.err != want)
		broken("%s: not %s", what, strerror(-want));
}
