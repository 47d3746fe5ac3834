/* SPDX-License-Identifier: MIT */
/* Two processes exchange streams of checked messages; then one process is killed. */
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "hca.h"

enum { SLOTS = 64, WINDOW = 48, SLOT_SIZE = 1024 };

/* The first data that the two processes exchange. */
struct hello {
	struct mlx5dvl_qp_info qp;
	uint64_t addr;
	uint32_t rkey;
};

/* One end. Message s goes to slot s % SLOTS of the peer. The low half of the immediate is the low
 * half of s. The high half is the low half of `received`; it frees the peer's slots. `told` is the
 * value of `received` that was sent last. */
struct end {
	struct hca h;
	struct mlx5dvl_qp *qp;
	struct hello peer;
	uint32_t goal;
	uint32_t sent, acked, received, told;
	uint64_t rand;
	uint8_t *send_slots, *recv_slots;
};

/* Writes the message with number @seq, which determines its length and each byte. Returns the
 * length. */
static uint32_t message(uint8_t *p, uint32_t seq)
{
	uint64_t seed = seq * 0x9e3779b97f4a7c15ull + 1;
	uint32_t len = (uint32_t)(test_rand(&seed) % (SLOT_SIZE + 1));

	for (uint32_t i = 0; i < len; i++)
		p[i] = (uint8_t)(test_rand(&seed) >> 16);
	return len;
}

static void on_recv(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_recv *recv)
{
	struct end *e = arg;
	uint8_t want[SLOT_SIZE];
	uint32_t len;

	e->acked += (uint16_t)((recv->imm >> 16) - e->acked);
	CHECK(e->acked <= e->sent);
	if (recv->opcode == MLX5DVL_RECV_SEND_IMM)
		return; /* only an acknowledgement */
	CHECK_EQ(recv->imm & 0xffff, e->received & 0xffff);
	len = message(want, e->received);
	CHECK_EQ(recv->len, len);
	CHECK(!memcmp(e->recv_slots + e->received % SLOTS * SLOT_SIZE, want, len));
	e->received++;
}

static void send_some(struct end *e)
{
	uint32_t n = (uint32_t)(test_rand(&e->rand) % 8);

	while (n-- && e->sent < e->goal && e->sent - e->acked < WINDOW && mlx5dvl_sq_room(e->qp)) {
		uint64_t at = e->sent % SLOTS * SLOT_SIZE;
		uint8_t *p = e->send_slots + at;
		uint32_t len = message(p, e->sent), imm = e->received << 16 | (e->sent & 0xffff);

		CHECK_EQ(mlx5dvl_post_write_imm(e->qp, p, e->h.mr.lkey, len, e->peer.addr + at,
				 e->peer.rkey, imm, 0, e->sent),
			0);
		e->sent++;
		e->told = e->received;
	}
	if (e->received - e->told > WINDOW / 2 || (e->received == e->goal && e->told != e->goal)) {
		if (mlx5dvl_post_send_imm(e->qp, NULL, 0, 0, e->received << 16, 0, 0))
			return;
		e->told = e->received;
	}
	mlx5dvl_ring(e->qp);
}

static void meet(struct end *e, int fd, uint32_t goal)
{
	struct hello mine = {.rkey = 0};

	memset(e, 0, sizeof(*e));
	hca_open(&e->h, &(struct hca_attr){.mem = 2 * SLOTS * SLOT_SIZE});
	e->send_slots = e->h.mem;
	e->recv_slots = e->h.mem + SLOTS * SLOT_SIZE;
	e->goal = goal;
	e->qp = hca_qp(&e->h, (struct mlx5dvl_qp_attr){.timeout = 8, .retry_cnt = 1});
	mlx5dvl_qp_get_info(e->qp, &mine.qp, sizeof(mine.qp));
	mine.addr = (uintptr_t)e->recv_slots;
	mine.rkey = e->h.mr.rkey;
	CHECK_EQ(write(fd, &mine, sizeof(mine)), sizeof(mine));
	CHECK_EQ(read(fd, &e->peer, sizeof(e->peer)), sizeof(e->peer));
	CHECK_EQ(mlx5dvl_qp_connect(e->qp, &e->peer.qp, sizeof(e->peer.qp)), 0);
	/* Neither process sends before both are connected. */
	CHECK_EQ(write(fd, "c", 1), 1);
	CHECK_EQ(read(fd, &mine, 1), 1);
}

static void stream(struct end *e)
{
	struct wait w = WAIT_INIT;
	uint64_t sent = 0;

	while (e->received < e->goal || e->acked < e->goal || e->told < e->goal) {
		int n = mlx5dvl_mono_poll(e->h.rcq, 64, on_recv, e);

		mlx5dvl_srq_refill(e->h.srq);
		n += mlx5dvl_send_poll(e->h.scq, 64, hca_count_sent, &sent);
		CHECK_EQ(e->h.nerrors, 0);
		send_some(e);
		if (n)
			wait_reset(&w);
		else if (wait_step(&w))
			sched_yield();
	}
	CHECK_EQ(e->received, e->goal);
	CHECK_EQ(e->sent, e->goal);
	CHECK_EQ(sent, 0);
}

/* Kills the child. The parent's next request fails. */
static void peer_dies(struct end *e, pid_t child)
{
	test_kill(child);
	CHECK_EQ(mlx5dvl_post_write_imm(e->qp, &child, 0, 4, e->peer.addr, e->peer.rkey, 0, 0,
			 4242),
		0);
	mlx5dvl_ring(e->qp);
	hca_wait_errors(&e->h, 1);
	CHECK_EQ(e->h.errors[0].token, 4242);
	CHECK_EQ(e->h.errors[0].err, -ETIMEDOUT);
	CHECK(e->h.error_qp[0] == e->qp);
	CHECK_EQ(mlx5dvl_qp_status(e->qp), -ETIMEDOUT);
}

TEST(a_stream_each_way_until_a_death)
{
	uint32_t goal = getenv("SOAK") ? 300000 : 20000;
	uint64_t seed = test_seed();
	static struct end end;
	int fd[2];
	pid_t child;
	char done;

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	child = test_fork(); /* before either process opens the device */
	close(fd[!!child]); /* so that a read ends when the other process has failed */
	meet(&end, fd[!child], goal);
	end.rand = seed + !child;
	stream(&end);
	if (!child) {
		CHECK_EQ(write(fd[1], "d", 1), 1);
		for (;;)
			pause(); /* the parent kills this process while all its objects are open */
	}
	CHECK_EQ(read(fd[0], &done, 1), 1);
	peer_dies(&end, child);
	mlx5dvl_qp_destroy(end.qp);
	hca_close(&end.h);
	printf("%u messages each way\n", goal);
}
