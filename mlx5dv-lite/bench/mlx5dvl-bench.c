/* SPDX-License-Identifier: MIT */
/*
 * Measures the host's cost per request and per completion. This library and libibverbs (with
 * libmlx5) run alternately, in the same process and with the same contents of the queues.
 *
 * No message is sent. The doorbell pages are replaced by ordinary memory, so that the device
 * receives no doorbell, and the benchmark writes the completions that a device would write. Only
 * the code between the caller and the device is measured.
 *
 * Under callgrind (bench/instructions.py) each row is a separate section.
 */
#include <endian.h>
#include <sys/mman.h>
#include <valgrind/callgrind.h>

#include "base/args.h"
#include "base/order.h"
#include "base/underhca.h"

#include "plain.h"
#include "vendor.h"

enum {
	CHUNK = 256, /* requests between two reads of the clock */
	BATCH_MAX = 16,
	POLL = 64, /* completions per poll */
	MEDIAN_OF = 401,
	LEN = 32, /* bytes of a request, inline */
};

/* A queue of one of the two libraries, as the device sees it. */
struct queue {
	struct plain_cq cq; /* only the device's side is used */
	struct plain_cqe next;
};

struct bench {
	struct hca h;
	struct mlx5dvl_qp *qp;
	struct vendor v;
	struct queue our_sends, our_recvs, vendor_sends, vendor_recvs;
	uint32_t vendor_srq_len, our_srq_at, vendor_srq_at;
	uint8_t payload[LEN];
	struct ibv_sge sge;
	struct ibv_send_wr wr[BATCH_MAX];
	uint64_t sum; /* sum of the polled values, so that the compiler keeps the reads */
};

static struct bench b;

/* ---- the device's part ---- */

static void complete(struct queue *q, uint16_t counter)
{
	q->next.counter = counter;
	plain_cqe_write(&q->cq, q->cq.pi++, &q->next);
}

/* Completions of requests have the opcode 0. */
static struct plain_cqe sent_cqe(uint32_t qpn, uint32_t uidx)
{
	return (struct plain_cqe){.wqe_opcode = MLX5DVL_WRITE_IMM, .qpn = qpn, .uidx = uidx};
}

static struct plain_cqe recv_cqe(uint32_t qpn, uint32_t uidx)
{
	return (struct plain_cqe){.opcode = MLX5DVL_RECV_WRITE_IMM,
		.qpn = qpn,
		.uidx = uidx,
		.imm = 3,
		.byte_cnt = LEN};
}

static void learn_queue(struct queue *q, struct ibv_cq *cq)
{
	struct mlx5dv_cq dv = {0};
	struct mlx5dv_obj obj = {.cq = {.in = cq, .out = &dv}};

	CHECK_EQ(mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ), 0);
	q->cq = (struct plain_cq){.buf = dv.buf, .depth = dv.cqe_cnt, .size = dv.cqe_size};
}

static void silence(void *reg)
{
	void *page = (void *)((uintptr_t)reg & ~4095ull);

	CHECK(mmap(page, 4096, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_POPULATE, -1, 0) == page);
}

/* ---- queues, and a device that gets no doorbell ---- */

static void on_recv(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_recv *recv)
{
	*(uint64_t *)arg += recv->imm;
}

static void on_sent(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_sent *sent)
{
	*(uint64_t *)arg += sent->token;
}

/*
 * A completion identifies the vendor's QP by a number that the vendor's library has assigned and
 * does not publish. The function tries all numbers below 64: with the right number the poll returns
 * the wr_id of the first request.
 */
static uint32_t find_uidx(void)
{
	const uint64_t magic = 0x1234567890abcdefull;
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	b.wr[0].wr_id = magic;
	b.wr[0].send_flags |= IBV_SEND_SIGNALED;
	CHECK_EQ(ibv_post_send(b.v.qp, &b.wr[0], &bad), 0);
	b.v.pi = 2;
	for (uint32_t uidx = 0; uidx < 64; uidx++) {
		b.vendor_sends.next = sent_cqe(b.v.qp->qp_num, uidx);
		complete(&b.vendor_sends, 0);
		if (ibv_poll_cq(b.v.scq, 1, &wc) == 1 && wc.wr_id == magic)
			return uidx;
	}
	CHECK(0 && "found");
	return 0;
}

static void vendor_receives(uint32_t n)
{
	struct ibv_recv_wr *bad, wr = {.num_sge = 0};

	while (n--)
		CHECK_EQ(ibv_post_srq_recv(b.v.srq, &wr, &bad), 0);
}

static void setup(void)
{
	struct mlx5dv_srq srq = {0};
	struct mlx5dv_obj obj;
	struct mlx5dvl_qp_info info;

	hca_open(&b.h, &(struct hca_attr){0});
	b.qp = hca_qp(&b.h, (struct mlx5dvl_qp_attr){.sq_depth = 1024});
	mlx5dvl_qp_get_info(b.qp, &info, sizeof(info));
	CHECK_EQ(mlx5dvl_qp_connect(b.qp, &info, sizeof(info)), 0); /* the QP is its own peer */
	vendor_open(&b.v, b.h.ctx, 64, IBV_QPT_RC);
	vendor_info(&b.v, &info);
	vendor_connect(&b.v, &info);
	obj.srq.in = b.v.srq;
	obj.srq.out = &srq;
	CHECK_EQ(mlx5dv_init_obj(&obj, MLX5DV_OBJ_SRQ), 0);
	b.vendor_srq_len = srq.tail + 1;
	vendor_receives(VENDOR_SRQ_DEPTH - 1);
	b.sge = (struct ibv_sge){(uintptr_t)b.payload, LEN, 0};
	for (int i = 0; i < BATCH_MAX; i++)
		b.wr[i] = (struct ibv_send_wr){.sg_list = &b.sge,
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
			.send_flags = IBV_SEND_INLINE,
			.wr.rdma = {(uintptr_t)b.h.mem, b.h.mr.rkey}};
	learn_queue(&b.our_sends, cq_of(b.h.scq)->ibv);
	learn_queue(&b.our_recvs, cq_of(b.h.rcq)->ibv);
	learn_queue(&b.vendor_sends, b.v.scq);
	learn_queue(&b.vendor_recvs, b.v.rcq);
	silence(b.qp->bf->reg);
	silence(b.v.dv.bf.reg);
	uint32_t uidx = find_uidx();

	b.our_sends.next = sent_cqe(b.qp->qpn, 0);
	b.our_recvs.next = recv_cqe(b.qp->qpn, 0);
	b.vendor_recvs.next = recv_cqe(b.v.qp->qp_num, uidx);
}

/* ---- rows: each function executes a number of operations, and leaves the queues with room ---- */

/* The clock runs, and callgrind counts, between begin() and end(). */
static uint64_t begin(void)
{
	CALLGRIND_TOGGLE_COLLECT;
	return clock_ns();
}

static uint64_t end(uint64_t start)
{
	uint64_t ns = clock_ns() - start;

	CALLGRIND_TOGGLE_COLLECT;
	return ns;
}

/* Completes all CHUNK requests as the device would, so that the slots are free again. */
static void free_our_slots(void)
{
	CHECK_EQ(mlx5dvl_post_nop(b.qp, MLX5DVL_SIGNALED, 0), 0);
	complete(&b.our_sends, (uint16_t)b.qp->last);
	mlx5dvl_send_poll(b.h.scq, 1, on_sent, &b.sum);
	mlx5dvl_ring(b.qp);
	CHECK_EQ(b.qp->ci, b.qp->pi);
}

static void free_vendor_slots(void)
{
	struct ibv_wc wc;

	complete(&b.vendor_sends, (uint16_t)(b.v.pi - 2)); /* index of the last request */
	CHECK_EQ(ibv_poll_cq(b.v.scq, 1, &wc), 1);
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
}

/* No request is signaled by the benchmark; the library itself signals one every 64 blocks. */
static uint64_t post_ours(uint32_t batch)
{
	const uint32_t rkey = b.h.mr.rkey;
	const uint64_t raddr = (uintptr_t)b.h.mem;
	int err = 0;
	uint64_t t = begin();

	for (uint32_t i = 0; i < CHUNK; i += batch) {
		for (uint32_t k = 0; k < batch; k++)
			err |= mlx5dvl_post_write_imm(b.qp, b.payload, 0, LEN, raddr, rkey, i, 0,
				i);
		mlx5dvl_ring(b.qp);
	}
	t = end(t);
	CHECK_EQ(err, 0);
	free_our_slots();
	return t;
}

/* The list of requests is prepared before the measurement, except for immediates, wr_ids and the
 * flags of the last request. The number of signaled requests is that of post_ours(). */
static uint64_t post_vendor(uint32_t batch)
{
	struct ibv_send_wr *bad;
	int err = 0;

	for (uint32_t k = 0; k < batch; k++)
		b.wr[k].next = k + 1 < batch ? &b.wr[k + 1] : NULL;
	uint64_t t = begin();

	for (uint32_t i = 0; i < CHUNK; i += batch) {
		for (uint32_t k = 0; k < batch; k++) {
			b.wr[k].imm_data = htobe32(i);
			b.wr[k].wr_id = i;
		}
		b.wr[batch - 1].send_flags = IBV_SEND_INLINE;
		if ((i + batch) % 32 == 0)
			b.wr[batch - 1].send_flags |= IBV_SEND_SIGNALED;
		err |= ibv_post_send(b.v.qp, b.wr, &bad);
	}
	t = end(t);
	CHECK_EQ(err, 0);
	b.v.pi += 2 * CHUNK;
	free_vendor_slots();
	return t;
}

static uint64_t poll_recv_ours(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		complete(&b.our_recvs, (uint16_t)(b.our_srq_at++ % (SRQ_DEFAULT_DEPTH + 1)));
	uint64_t sum = 0, t = begin();
	int got = mlx5dvl_mono_poll(b.h.rcq, POLL, on_recv, &sum);

	t = end(t);
	CHECK_EQ(got, n);
	CHECK_EQ(sum, 3 * n);
	mlx5dvl_srq_refill(b.h.srq);
	return t;
}

static uint64_t poll_recv_vendor(uint32_t n)
{
	struct ibv_wc wc[POLL];

	for (uint32_t i = 0; i < n; i++)
		complete(&b.vendor_recvs, (uint16_t)(b.vendor_srq_at++ % b.vendor_srq_len));
	uint64_t sum = 0, t = begin();
	int got = ibv_poll_cq(b.v.rcq, POLL, wc);

	for (int i = 0; i < got; i++)
		sum += wc[i].status == IBV_WC_SUCCESS ? be32toh(wc[i].imm_data) : 0;
	t = end(t);
	CHECK_EQ(got, n);
	CHECK_EQ(sum, 3 * n);
	vendor_receives(n);
	return t;
}

/* Polls the completions of signaled requests. */
static uint64_t poll_send_ours(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		CHECK_EQ(mlx5dvl_post_nop(b.qp, MLX5DVL_SIGNALED, 1), 0);
		complete(&b.our_sends, (uint16_t)b.qp->last);
	}
	mlx5dvl_ring(b.qp);
	uint64_t sum = 0, t = begin();
	int got = mlx5dvl_send_poll(b.h.scq, POLL, on_sent, &sum);

	t = end(t);
	CHECK_EQ(got, n);
	CHECK_EQ(sum, n);
	return t;
}

static uint64_t poll_send_vendor(uint32_t n)
{
	struct ibv_send_wr *bad;
	struct ibv_wc wc[POLL];

	b.wr[0].next = NULL;
	b.wr[0].send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
	b.wr[0].wr_id = 1;
	for (uint32_t i = 0; i < n; i++) {
		CHECK_EQ(ibv_post_send(b.v.qp, b.wr, &bad), 0);
		complete(&b.vendor_sends, (uint16_t)b.v.pi);
		b.v.pi += 2;
	}
	uint64_t sum = 0, t = begin();
	int got = ibv_poll_cq(b.v.scq, POLL, wc);

	for (int i = 0; i < got; i++)
		sum += wc[i].status == IBV_WC_SUCCESS ? wc[i].wr_id : 0;
	t = end(t);
	CHECK_EQ(got, n);
	CHECK_EQ(sum, n);
	return t;
}

static const struct row {
	const char *name;
	uint64_t (*ours)(uint32_t), (*vendor)(uint32_t);
	uint32_t arg, per_call;
} rows[] = {
	{"post WRITE_IMM 32 B, 1 per doorbell", post_ours, post_vendor, 1, CHUNK},
	{"post WRITE_IMM 32 B, 4 per doorbell", post_ours, post_vendor, 4, CHUNK},
	{"post WRITE_IMM 32 B, 16 per doorbell", post_ours, post_vendor, 16, CHUNK},
	{"poll receive completion, 1 at a time", poll_recv_ours, poll_recv_vendor, 1, 1},
	{"poll receive completion, 64 at a time", poll_recv_ours, poll_recv_vendor, POLL, POLL},
	{"poll send completion, 64 at a time", poll_send_ours, poll_send_vendor, POLL, POLL},
};

/* ---- running ---- */

static void print_json(FILE *f, const struct row *r, double ours, double vendor)
{
	fprintf(f,
		"{\"bench\":\"mlx5dvl\",\"row\":\"%s\",\"ns\":%.2f,\"verbs_ns\":%.2f,"
		"\"ratio\":%.3f,\"blueflame\":%s}\n",
		r->name, ours, vendor, ours / vendor, b.qp->bf->size ? "true" : "false");
}

static void measure(FILE *json)
{
	static double ours[MEDIAN_OF], vendor[MEDIAN_OF];

	printf("%-40s %10s %10s %7s\n", "per request or completion", "ns", "verbs, ns", "ratio");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct row *r = &rows[i];

		for (int k = 0; k < MEDIAN_OF; k++) {
			ours[k] = (double)r->ours(r->arg) / r->per_call;
			vendor[k] = (double)r->vendor(r->arg) / r->per_call;
		}
		double o = order_median(ours, MEDIAN_OF), v = order_median(vendor, MEDIAN_OF);

		printf("%-40s %10.1f %10.1f %7.2f\n", r->name, o, v, o / v);
		if (json)
			print_json(json, r, o, v);
	}
}

/*
 * Callgrind writes a dump for each row and library; instructions.py reads its name and its total.
 */
static void count_instructions(void)
{
	char name[128];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct row *r = &rows[i];

		for (int vendor = 0; vendor < 2; vendor++) {
			(vendor ? r->vendor : r->ours)(r->arg); /* not counted: binds symbols */
			CALLGRIND_ZERO_STATS;
			(vendor ? r->vendor : r->ours)(r->arg);
			snprintf(name, sizeof(name), "%s|%s|%u", vendor ? "verbs" : "ours", r->name,
				r->per_call);
			CALLGRIND_DUMP_STATS_AT(name);
		}
	}
}

static const struct arg_row options[] = {
	{"json", 'j', "FILE", ARG_CALL, .read = arg_open,
		.help = "one object per row; - is standard output"},
	{"help", 'h', .kind = ARG_HELP},
};

/* Without a device, the program is executed again under the software HCA. */
static void find_device(char **argv)
{
	char name[1][MLX5DVL_NAME_LEN], why[256] = "";

	if (mlx5dvl_devices(1, name) > 0)
		return;
	fputs("mlx5dvl-bench: no mlx5 device: running under the software HCA\n", stderr);
	underhca_again(argv, SOFTHCA_RUN_BUILT, why, sizeof(why));
	fprintf(stderr, "mlx5dvl-bench: %s\n", why);
	exit(1);
}

int main(int argc, char **argv)
{
	struct args args = {ARGS_ROWS(options),
		.usage =
			"Usage: mlx5dvl-bench [--json FILE]\n"
			"Measures the cost of the host's code per request and completion, compared with libibverbs.\n"};
	FILE *json = NULL;

	args_main(&args, "mlx5dvl-bench", argc, argv, &json);
	find_device(argv);
	setup();
	if (RUNNING_ON_VALGRIND)
		count_instructions();
	else
		measure(json);
	mlx5dvl_qp_destroy(b.qp);
	vendor_close(&b.v);
	hca_close(&b.h);
	return 0;
}
