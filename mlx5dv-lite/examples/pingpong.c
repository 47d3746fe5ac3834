/* SPDX-License-Identifier: MIT */
/*
 * Two processes send a counter back and forth by RDMA WRITE with immediate. The example uses only
 * the installed library. The parent and its child exchange the data for the connection over a
 * socket pair; any other channel is possible, also between hosts.
 *
 *	cc pingpong.c $(pkg-config --cflags --libs mlx5dv-lite) -o pingpong
 *	./pingpong # uses softhca-run if there is no ConnectX
 */
#include <mlx5dvl.h>

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 20000 };

/* The data that a peer needs to write to us. */
struct address {
	struct mlx5dvl_qp_info qp;
	uint64_t buf;
	uint32_t rkey;
};

struct end {
	struct mlx5dvl_ctx *ctx;
	struct mlx5dvl_srq *srq;
	struct mlx5dvl_cq *recv_cq, *send_cq;
	struct mlx5dvl_qp *qp;
	struct mlx5dvl_mr mr;
	struct address peer;
	uint64_t buf; /* the peer writes here */
	uint32_t last; /* immediate of the newest message */
	int fd; /* socket to the other process */
};

static void must(const char *what, int err)
{
	if (!err)
		return;
	fprintf(stderr, "pingpong: %s: %s\n", what, strerror(-err));
	exit(1);
}

static void failed(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_error *error)
{
	must("the connection", error->err);
}

static void on_recv(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_recv *recv)
{
	struct end *e = mlx5dvl_qp_user(qp);

	e->last = recv->imm;
}

static void on_sent(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_sent *sent)
{
}

static void open_end(struct end *e)
{
	must("open", mlx5dvl_ctx_open(&(struct mlx5dvl_ctx_attr){.on_error = failed}, &e->ctx));
	must("mr", mlx5dvl_mr_reg(e->ctx, &e->buf, sizeof(e->buf),
			   MLX5DVL_LOCAL_WRITE | MLX5DVL_REMOTE_WRITE, &e->mr));
	must("srq", mlx5dvl_srq_create(e->ctx, &(struct mlx5dvl_srq_attr){.depth = 16}, &e->srq));
	must("receive cq",
		mlx5dvl_cq_create(e->ctx, &(struct mlx5dvl_cq_attr){.srq = e->srq}, &e->recv_cq));
	must("send cq",
		mlx5dvl_cq_create(e->ctx, &(struct mlx5dvl_cq_attr){.depth = 256}, &e->send_cq));
	must("qp", mlx5dvl_qp_create(e->ctx,
			   &(struct mlx5dvl_qp_attr){.send_cq = e->send_cq,
				   .recv_cq = e->recv_cq,
				   .user = e},
			   &e->qp));
}

/* Ends the program if the other process has ended. A process that sends would get an error, but a
 * process that only receives gets none. */
static void see_peer(struct end *e)
{
	char c;

	if (!recv(e->fd, &c, 1, MSG_PEEK | MSG_DONTWAIT))
		must("the other process", -ECONNRESET);
}

static void connect_end(struct end *e)
{
	struct address mine = {.buf = (uintptr_t)&e->buf, .rkey = e->mr.rkey};
	char ready = 0;

	mlx5dvl_qp_get_info(e->qp, &mine.qp, sizeof(mine.qp));
	if (write(e->fd, &mine, sizeof(mine)) != sizeof(mine) ||
		read(e->fd, &e->peer, sizeof(e->peer)) != sizeof(e->peer))
		must("the other process", -ECONNRESET);
	must("connect", mlx5dvl_qp_connect(e->qp, &e->peer.qp, sizeof(e->peer.qp)));
	/* Neither process may send before both processes are connected. */
	if (write(e->fd, &ready, 1) != 1 || read(e->fd, &ready, 1) != 1)
		must("the other process", -ECONNRESET);
}

static void send_value(struct end *e, uint64_t value)
{
	must("post", mlx5dvl_post_write_imm(e->qp, &value, 0, sizeof(value), e->peer.buf,
			     e->peer.rkey, (uint32_t)value, 0, 0));
	mlx5dvl_ring(e->qp);
}

/* Waits for a message. When a poll returns a message's completion, its data is in memory. */
static uint64_t wait_value(struct end *e, uint32_t imm)
{
	for (uint32_t empty = 0; e->last != imm;) {
		if (!mlx5dvl_mono_poll(e->recv_cq, 16, on_recv, NULL)) {
			if (!(++empty % 1024))
				see_peer(e);
			sched_yield();
		}
		mlx5dvl_srq_refill(e->srq);
		mlx5dvl_send_poll(e->send_cq, 16, on_sent, NULL); /* frees the send queue */
	}
	return e->buf;
}

static void close_end(struct end *e)
{
	mlx5dvl_qp_destroy(e->qp);
	mlx5dvl_cq_destroy(e->send_cq);
	mlx5dvl_cq_destroy(e->recv_cq);
	mlx5dvl_srq_destroy(e->srq);
	mlx5dvl_mr_dereg(&e->mr);
	mlx5dvl_ctx_close(e->ctx);
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Without a device, the program is executed again under the software HCA. */
static void find_device(char **argv)
{
	char name[1][MLX5DVL_NAME_LEN];

	if (mlx5dvl_devices(1, name) > 0 || getenv("PINGPONG_UNDER_SOFTHCA"))
		return;
	fprintf(stderr, "pingpong: no mlx5 device: running under the software HCA (softhca-run)\n");
	setenv("PINGPONG_UNDER_SOFTHCA", "1", 1);
	execlp("softhca-run", "softhca-run", argv[0], (char *)NULL);
	perror("softhca-run");
}

int main(int argc, char **argv)
{
	struct end e = {0};
	int fd[2], status = 0;
	pid_t child;

	find_device(argv);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd))
		return 1;
	child = fork(); /* before either process opens the device */
	if (child < 0)
		return 1;
	e.fd = fd[!child];
	close(fd[!!child]); /* so that a read returns when the other process ends */
	signal(SIGPIPE, SIG_IGN);
	open_end(&e);
	connect_end(&e);
	double start = now_us();

	for (uint32_t i = 1; i <= ROUNDS; i++) {
		if (child)
			send_value(&e, 2 * i);
		if (wait_value(&e, child ? 2 * i + 1 : 2 * i) != (child ? 2 * i + 1 : 2 * i))
			return 1;
		if (!child)
			send_value(&e, 2 * i + 1);
	}
	if (child)
		printf("%s: %d round trips, %.2f us each\n", mlx5dvl_ctx_device(e.ctx), ROUNDS,
			(now_us() - start) / ROUNDS);
	/* The sender of the last message must not end before the message has arrived. */
	if (child ? write(e.fd, "x", 1) != 1 : read(e.fd, &status, 1) != 1)
		return 1;
	close_end(&e);
	if (child && (waitpid(child, &status, 0) != child || status))
		return 1;
	return 0;
}
