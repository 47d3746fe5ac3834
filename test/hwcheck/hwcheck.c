/* SPDX-License-Identifier: MIT */
/*
 * Some steps of hw-check:
 *
 *	hwcheck [-d DEVICE] [-g GID-INDEX] [--quick] STEP
 *
 * Ends with 0, or with 1 and a line on stderr. The step devices ends with 77 if there is none.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/args.h"
#include "base/compiler.h"
#include "ends.h"

static struct end a, b;

/* Opens both ends, and connects them. */
static void pair_open(const struct wish *w, uint32_t srq_depth, uint32_t recv_size,
	uint32_t sq_depth, int qps)
{
	end_open(&a, w, srq_depth, recv_size, sq_depth, qps);
	end_open(&b, w, srq_depth, recv_size, sq_depth, qps);
	ends_link(&a, &b, qps);
}

static void pair_close(void)
{
	end_close(&a);
	end_close(&b);
}

static void devices(const struct wish *w)
{
	char name[16][MLX5DVL_NAME_LEN];
	int n = mlx5dvl_devices(16, name);

	for (int i = 0; i < n; i++)
		puts(name[i]);
	if (n <= 0)
		exit(77);
}

/* ------------------------------------------------------------------- queues */

static void show_queues(const struct wish *w, int qps)
{
	end_open(&a, w, 1024, 0, 256, qps);
	printf("SRQ: %u receives, %u bytes each, tail %u\n", a.srq->depth, 1u << a.srq->shift,
		a.srq->tail);
	printf("CQ: %u completions, %u bytes each\n", a.recv_cq->depth, a.recv_cq->stride);
	for (int i = 0; i < qps; i++) {
		const struct mlx5dvl_qp *qp = a.qp[i];

		if (qp->depth < 256)
			broken("the send queue has %u blocks, fewer than 256", qp->depth);
		printf("QP %#x: %u blocks, register %p, BlueFlame %u bytes\n", qp->qpn, qp->depth,
			(void *)qp->bf->reg, qp->bf->size);
	}
	end_close(&a);
}

static void queues(const struct wish *w)
{
	show_queues(w, 1);
	show_queues(w, 20);
}

/* ----------------------------------------------------------------- pingpong */

static void bounce(struct end *from, struct end *to, int qp, uint32_t i)
{
	uint64_t value = i * 0x9e3779b97f4a7c15ull;
	uint64_t before = to->received;

	must("post", mlx5dvl_post_write_imm(from->qp[qp], &value, 0, sizeof(value),
			     (uintptr_t)to->memory, to->mr.rkey, i, 0, 0));
	mlx5dvl_ring(from->qp[qp]);
	ends_until(&a, &b, &to->received, before + 1);
	if (to->imm != i || memcmp(to->memory, &value, sizeof(value)))
		broken("round %u: the data is not what was sent", i);
}

static void pingpong_over(const struct wish *w, int qps)
{
	uint32_t rounds = w->quick ? 2000 : 1000000;
	double start;

	pair_open(w, 1024, 0, 256, qps);
	start = now_s();
	for (uint32_t i = 0; i < rounds; i++) {
		bounce(&a, &b, (int)i % qps, 2 * i);
		bounce(&b, &a, (int)i % qps, 2 * i + 1);
	}
	printf("%d QPs: %u round trips, %.2f us each, BlueFlame %u bytes\n", qps, rounds,
		(now_s() - start) * 1e6 / rounds, a.qp[0]->bf->size);
	pair_close();
}

static void pingpong(const struct wish *w)
{
	pingpong_over(w, 1);
	pingpong_over(w, 20);
}

/* ----------------------------------------------------------------- requests */

static const uint32_t lengths[] = {0, 1, 7, 8, 28, 29, 92, 93, 156, 157, 220, 221, 4096, 4097,
	1 << 20};
#define LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

static void fill(uint8_t *at, uint32_t len, uint32_t seed)
{
	for (uint32_t i = 0; i < len; i++)
		at[i] = (uint8_t)(seed + i * 31 + (i >> 8));
}

/*
 * Executes one request and checks that the payload is at its address, and that the byte after it
 * has not changed.
 */
static void request(uint8_t opcode, uint32_t len, unsigned flags, uint32_t seed)
{
	struct mlx5dvl_qp *qp = a.qp[0];
	uint64_t far = (uintptr_t)b.memory, sent = a.sent, received = b.received;
	bool arrives = opcode == MLX5DVL_WRITE_IMM;
	int rc;

	fill(opcode == MLX5DVL_READ ? b.memory : a.memory, len, seed);
	memset(opcode == MLX5DVL_READ ? a.memory : b.memory, 0xee, len + 1);
	flags |= MLX5DVL_SIGNALED;
	if (opcode == MLX5DVL_WRITE)
		rc = mlx5dvl_post_write(qp, a.memory, a.mr.lkey, len, far, b.mr.rkey, flags, 0);
	else if (opcode == MLX5DVL_READ)
		rc = mlx5dvl_post_read(qp, a.memory, a.mr.lkey, len, far, b.mr.rkey, flags, 0);
	else
		rc = mlx5dvl_post_write_imm(qp, a.memory, a.mr.lkey, len, far, b.mr.rkey, seed,
			flags, 0);
	must("post", rc);
	mlx5dvl_ring(qp);
	ends_until(&a, &b, &a.sent, sent + 1);
	if (arrives)
		ends_until(&a, &b, &b.received, received + 1);
	if (memcmp(a.memory, b.memory, len) || (arrives && b.imm != seed) ||
		(opcode == MLX5DVL_READ ? a.memory : b.memory)[len] != 0xee)
		broken("opcode %#x, %u bytes, flags %#x: wrong data", opcode, len, flags);
}

static void atomics(void)
{
	uint64_t *word = (uint64_t *)(void *)b.memory, *old = (uint64_t *)(void *)a.memory;
	uint64_t sent = a.sent;

	*word = 41;
	if (mlx5dvl_post_fetch_add(a.qp[0], old, a.mr.lkey, (uintptr_t)word, b.mr.rkey, 1,
		    MLX5DVL_SIGNALED, 0))
		broken("post");
	mlx5dvl_ring(a.qp[0]);
	ends_until(&a, &b, &a.sent, sent + 1);
	if (*old != 41 || *word != 42)
		broken("fetch and add: returned %llu, not 41, and stored %llu, not 42",
			(unsigned long long)*old, (unsigned long long)*word);
	must("post", mlx5dvl_post_cmp_swap(a.qp[0], old, a.mr.lkey, (uintptr_t)word, b.mr.rkey, 42,
			     7, MLX5DVL_SIGNALED, 0));
	mlx5dvl_ring(a.qp[0]);
	ends_until(&a, &b, &a.sent, sent + 2);
	if (*old != 42 || *word != 7)
		broken("compare and swap: returned %llu, not 42, and stored %llu, not 7",
			(unsigned long long)*old, (unsigned long long)*word);
	puts("atomics: fetch and add, compare and swap");
}

/*
 * Fills the send queue, and waits for all completions; three times.
 */
static void full_queue(void)
{
	uint64_t posted = 0;

	for (int i = 0; i < 3; i++) {
		while (!mlx5dvl_post_write(a.qp[0], a.memory, a.mr.lkey, 100, (uintptr_t)b.memory,
			b.mr.rkey, MLX5DVL_SIGNALED, 0))
			posted++;
		mlx5dvl_ring(a.qp[0]);
		ends_until(&a, &b, &a.sent, posted);
	}
	printf("full queue: %llu requests\n", (unsigned long long)posted);
}

/* Posts n unsignaled requests, in batches of at most 16. */
static void many(uint64_t n)
{
	uint64_t before = b.received;

	for (uint64_t i = 0; i < n;) {
		while (i < n && i % 16 != 15 && !mlx5dvl_sq_full(a.qp[0])) {
			must("post", mlx5dvl_post_write_imm(a.qp[0], a.memory, 0, 8,
					     (uintptr_t)b.memory, b.mr.rkey, (uint32_t)i, 0, 0));
			i++;
		}
		if (i < n && !mlx5dvl_sq_full(a.qp[0])) {
			must("post", mlx5dvl_post_nop(a.qp[0], 0, 0));
			must("post", mlx5dvl_post_write_imm(a.qp[0], a.memory, 0, 8,
					     (uintptr_t)b.memory, b.mr.rkey, (uint32_t)i, 0, 0));
			i++;
		}
		mlx5dvl_ring(a.qp[0]);
		end_poll(&a, true);
		/* At most about 512 requests are in flight, half as many as there are receives. */
		ends_until(&a, &b, &b.received, before + (i > 512 ? i - 512 : 0));
	}
	ends_until(&a, &b, &b.received, before + n);
	if (b.imm != (uint32_t)(n - 1))
		broken("the last of %llu requests has immediate %u", (unsigned long long)n, b.imm);
	printf("%llu requests, %llu NOPs at the queue's end\n", (unsigned long long)n,
		(unsigned long long)mlx5dvl_sq_fillers(a.qp[0]));
}

static void requests(const struct wish *w)
{
	static const uint8_t opcodes[] = {MLX5DVL_WRITE, MLX5DVL_WRITE_IMM, MLX5DVL_READ};
	uint32_t seed = 1;

	pair_open(w, 1024, 0, 64, 1);
	for (size_t o = 0; o < sizeof(opcodes); o++)
		for (size_t l = 0; l < LENGTHS; l++) {
			request(opcodes[o], lengths[l], 0, seed++);
			request(opcodes[o], lengths[l], MLX5DVL_BY_REF, seed++);
		}
	printf("%u requests, their data checked\n", seed - 1);
	/* Requests of one to four blocks, inline, which begin at many positions of the queue. */
	for (uint32_t i = 0; i < 64 * 4; i++)
		request(MLX5DVL_WRITE, 28 + i % 4 * 64, 0, seed++);
	atomics();
	a.sent = 0;
	full_queue();
	many(w->quick ? 70000 : (1 << 24) + 70000);
	pair_close();
}

/* ---------------------------------------------------------------------- SRQ */

enum { SRQ_QPS = 8, SRQ_DEPTH = 16, LONG_SEND = 3 * 4096 + 5 };

static void send_long(int i)
{
	must("post", mlx5dvl_post_send(a.qp[i % SRQ_QPS], a.memory, a.mr.lkey, LONG_SEND,
			     MLX5DVL_BY_REF, 0));
	mlx5dvl_ring(a.qp[i % SRQ_QPS]);
}

/* The receiver does not poll for a while: senders must wait, and no message is lost. */
static void pause_of(int i, unsigned ms)
{
	for (int k = 0; k < 4 * SRQ_DEPTH; k++)
		send_long(i + k);
	poll(NULL, 0, (int)ms);
	ends_until(&a, &b, &b.received, (uint64_t)i + 4 * SRQ_DEPTH);
}

static void srq(const struct wish *w)
{
	int n = w->quick ? 4000 : 200000;

	pair_open(w, SRQ_DEPTH, 16384, 64, SRQ_QPS);
	fill(a.memory, LONG_SEND, 3);
	b.expect = a.memory;
	for (int i = 0; i < n; i++) {
		send_long(i);
		ends_until(&a, &b, &b.received, i >= SRQ_DEPTH ? (uint64_t)i - SRQ_DEPTH + 1 : 0);
	}
	ends_until(&a, &b, &b.received, (uint64_t)n);
	pause_of(n, w->quick ? 50 : 5000);
	if (b.wrong || b.bytes != b.received * LONG_SEND)
		broken("the data is not what was sent");
	printf("%llu messages of %d bytes by %d QPs into %d receives\n",
		(unsigned long long)b.received, LONG_SEND, SRQ_QPS, SRQ_DEPTH);
	pair_close();
}

/* -------------------------------------------------------------------- churn */

/* Checks that srq_depth messages arrive without a refill: the SRQ has lost no receive. */
static void expect_depth(const struct wish *w)
{
	uint64_t before;
	double limit = now_s() + PATIENCE_S;

	for (double rest = now_s() + 0.2; now_s() < rest;) /* messages may be in flight */
		end_poll(&b, true);
	mlx5dvl_srq_post_(b.srq);
	end_poll(&a, true);
	before = b.received;
	a.errors = b.errors = 0;
	ends_link(&a, &b, 1);
	for (uint32_t i = 0; i < b.srq_depth; i++)
		must("post", mlx5dvl_post_send(a.qp[0], a.memory, a.mr.lkey, 8, 0, 0));
	mlx5dvl_ring(a.qp[0]);
	while (b.received < before + b.srq_depth && now_s() < limit) {
		end_poll(&a, true);
		end_poll(&b, false);
		sched_yield();
	}
	printf("%llu of %u receives are left\n", (unsigned long long)(b.received - before),
		b.srq_depth);
	if (b.received < before + b.srq_depth)
		broken("receives were lost with the queue pairs");
}

static void new_qp(struct end *e)
{
	const struct mlx5dvl_qp_attr attr = {.send_cq = e->send_cq,
		.recv_cq = e->recv_cq,
		.user = e,
		.sq_depth = 64};
	int rc;

	while ((rc = mlx5dvl_qp_create(e->ctx, &attr, &e->qp[0])) == -ENOSPC)
		end_poll(e, true); /* until earlier QPs are released */
	must("queue pair", rc);
}

static void churn(const struct wish *w)
{
	int times = w->quick ? 200 : 1000;

	end_open(&a, w, 32, 16384, 64, 1);
	end_open(&b, w, 32, 16384, 64, 1);
	for (int i = 0; i < times; i++) {
		ends_link(&a, &b, 1);
		for (int k = 0; k < 8; k++)
			must("post", mlx5dvl_post_send(a.qp[0], a.memory, a.mr.lkey, LONG_SEND,
					     MLX5DVL_BY_REF, 0));
		mlx5dvl_ring(a.qp[0]);
		for (int k = 0; k < i % 16; k++) /* at another point of the transfer each time */
			end_poll(&b, true);
		mlx5dvl_qp_destroy(b.qp[0]);
		mlx5dvl_qp_destroy(a.qp[0]);
		new_qp(&a);
		new_qp(&b);
		end_poll(&a, true);
		end_poll(&b, true);
	}
	printf("%d queue pairs were destroyed under traffic\n", times);
	expect_depth(w);
	pair_close();
}

/* ------------------------------------------------------------------- errors */

static void wrong_keys(const struct wish *w)
{
	pair_open(w, 64, 4096, 64, 1);
	must("post", mlx5dvl_post_write(a.qp[0], a.memory, 0, 8, (uintptr_t)b.memory,
			     b.mr.rkey ^ 0x100, 0, 0));
	mlx5dvl_ring(a.qp[0]);
	ends_error(&a, &b, "wrong rkey", -EACCES);
	pair_close();
	pair_open(w, 64, 4096, 64, 1);
	must("post", mlx5dvl_post_write(a.qp[0], a.memory, a.mr.lkey ^ 0x100, 4096,
			     (uintptr_t)b.memory, b.mr.rkey, MLX5DVL_BY_REF, 0));
	mlx5dvl_ring(a.qp[0]);
	ends_error(&a, &b, "wrong lkey", -EFAULT);
	pair_close();
	pair_open(w, 64, 4096, 64, 1);
	must("post", mlx5dvl_post_send(a.qp[0], a.memory, a.mr.lkey, 8192, MLX5DVL_BY_REF, 0));
	mlx5dvl_ring(a.qp[0]);
	ends_error(&a, &b, "a receive that is too short", -EREMOTEIO);
	pair_close();
}

/* The message that each process sends to the other before the first operation. */
struct hello {
	struct mlx5dvl_qp_info qp;
	uint64_t memory;
	uint32_t rkey;
};

static _Noreturn void other_process(const struct wish *w, int fd, bool connects)
{
	struct hello mine, theirs;

	end_open(&b, w, 64, 0, 64, 1);
	mlx5dvl_qp_get_info(b.qp[0], &mine.qp, sizeof(mine.qp));
	mine.memory = (uintptr_t)b.memory;
	mine.rkey = b.mr.rkey;
	if (write(fd, &mine, sizeof(mine)) != sizeof(mine) ||
		read(fd, &theirs, sizeof(theirs)) != sizeof(theirs))
		broken("the first process does not answer");
	if (connects)
		must("connect", mlx5dvl_qp_connect(b.qp[0], &theirs.qp, sizeof(theirs.qp)));
	if (write(fd, "r", 1) != 1)
		broken("the first process does not answer");
	for (;;)
		pause();
}

/* Writes to a peer in another process, after the peer got @sig; 0: the peer never connects. */
static void peer_with(const struct wish *w, int sig, const char *what)
{
	struct hello mine, theirs;
	int fd[2], status;
	pid_t child;
	char c;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd))
		broken("socketpair");
	child = fork();
	if (child < 0)
		broken("fork");
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* also ends a child that is stopped */
		close(fd[0]);
		other_process(w, fd[1], sig != 0);
	}
	close(fd[1]);
	end_open(&a, w, 64, 0, 64, 1);
	mlx5dvl_qp_get_info(a.qp[0], &mine.qp, sizeof(mine.qp));
	if (write(fd[0], &mine, sizeof(mine)) != sizeof(mine) ||
		read(fd[0], &theirs, sizeof(theirs)) != sizeof(theirs) || read(fd[0], &c, 1) != 1)
		broken("the second process does not answer");
	must("connect", mlx5dvl_qp_connect(a.qp[0], &theirs.qp, sizeof(theirs.qp)));
	if (sig && (kill(child, sig) || waitpid(child, &status, WUNTRACED) != child))
		broken("kill");
	must("post", mlx5dvl_post_write(a.qp[0], a.memory, 0, 8, theirs.memory, theirs.rkey,
			     MLX5DVL_SIGNALED, 0));
	mlx5dvl_ring(a.qp[0]);
	if (sig == SIGSTOP) {
		double start = now_s();

		while (!a.sent && !a.errors && now_s() - start < PATIENCE_S)
			end_poll(&a, true);
		printf("%-28s %s\n", what, a.sent ? "its device answers" : "no answer");
		if (!a.sent)
			broken("%s: the peer's device did not execute a WRITE", what);
	} else {
		ends_error(&a, NULL, what, -ETIMEDOUT);
	}
	if (sig != SIGKILL)
		kill(child, SIGKILL), waitpid(child, &status, 0);
	close(fd[0]);
	end_close(&a);
}

static void errors(const struct wish *w)
{
	/* The cases that fork come first, and close the device before the next fork. */
	peer_with(w, SIGKILL, "a peer that was killed");
	peer_with(w, SIGSTOP, "a peer that is stopped");
	peer_with(w, 0, "a peer that never connects");
	wrong_keys(w);
}

/* ------------------------------------------------------------------- events */

static void events(const struct wish *w)
{
	uint32_t rounds = w->quick ? 2000 : 100000;
	double start;

	pair_open(w, 64, 0, 64, 1);
	start = now_s();
	for (uint32_t i = 0; i < rounds; i++) {
		struct pollfd p = {.fd = mlx5dvl_cq_fd(b.recv_cq), .events = POLLIN};

		mlx5dvl_cq_arm(b.recv_cq);
		must("post", mlx5dvl_post_write_imm(a.qp[0], &i, 0, sizeof(i), (uintptr_t)b.memory,
				     b.mr.rkey, i, 0, 0));
		mlx5dvl_ring(a.qp[0]);
		if (poll(&p, 1, 10000) != 1)
			broken("round %u: no event in ten seconds", i);
		while (mlx5dvl_cq_event(b.recv_cq))
			;
		ends_until(&a, &b, &b.received, i + 1);
	}
	printf("%u rounds, %.2f us each\n", rounds, (now_s() - start) * 1e6 / rounds);
	pair_close();
}

/* --------------------------------------------------------------------- main */

static const struct {
	const char *name;
	void (*run)(const struct wish *w);
} steps[] = {
	{"devices", devices},
	{"queues", queues},
	{"pingpong", pingpong},
	{"requests", requests},
	{"srq", srq},
	{"churn", churn},
	{"errors", errors},
	{"events", events},
};

#define AT(field) ARG_AT(struct wish, field)

static const struct arg_row rows[] = {
	{"device", 'd', "NAME", ARG_TEXT, AT(device), .help = "device"},
	{"gid-index", 'g', "N", ARG_WHOLE, AT(gid_index), .max = 255, .help = "index of the GID"},
	{"quick", 'q', NULL, ARG_FLAG, AT(quick), .help = "fewer repetitions"},
	{"help", 'h', .kind = ARG_HELP},
};

int main(int argc, char **argv)
{
	const char *names[ARRAY_SIZE(steps) + 1] = {NULL};
	struct args args = {ARGS_ROWS(rows), .usage = "Usage: hwcheck [OPTION]... STEP\n",
		.operand = "STEP"};
	struct wish w = {.gid_index = -1};
	unsigned step = 0;
	int first = args_main(&args, "hwcheck", argc, argv, &w);

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
		names[i] = steps[i].name;
	if (args_word(&args, first < argc ? argv[first] : "", names, &step))
		args_exit(&args, "hwcheck", -EINVAL);
	step_name = steps[step].name;
	steps[step].run(&w);
	return 0;
}
