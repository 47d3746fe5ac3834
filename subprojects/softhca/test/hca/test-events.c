/* SPDX-License-Identifier: MIT */
/*
 * Events: on completion channels (for the next completion, for a solicited one, for one that is
 * already there; caused by another thread or process; moderated), at the SRQ's limit, and on errors
 * of QPs. No event is left when its object is destroyed.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/ib_user_verbs.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "rig.h"
#include "softhca.h"
#include "stopped.h"

#define ROUNDS 300 /* of messages between two processes */
#define FIFO_BYTES 65536 /* capacity of a FIFO in Linux */

static struct rig a, b;

static bool readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	/* A polling adapter notices an arm only after a moment. */
	int r = poll(&p, 1, rig_mode("poll") ? 200 : 0);

	CHECK(r >= 0);
	return r;
}

/* The thread of a polling adapter may be late on a busy machine. */
static void becomes_readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	CHECK_EQ(poll(&p, 1, -1), 1);
}

static void send_from_a(unsigned flags)
{
	rig_recv(&b, 0, 0, 64);
	rig_post(&a,
		&(struct rig_wr){.op = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED | flags, .len = 8});
	rig_wait_ok(a.scq);
}

static void open_pair(bool srq)
{
	rig_open_pair(&a, NULL, &b, &(struct rig_attr){.events = true, .srq = srq});
}

static void moderated(void);

/*
 * This case comes first, because a process reads its mode once and its children inherit the mode.
 */
TEST(moderated_in_steps)
{
	CHECK_EQ(rig_child(moderated, NULL), 0);
}

TEST(next_and_solicited)
{
	open_pair(false);
	CHECK(!ibv_req_notify_cq(b.rcq, 0));
	CHECK(!readable(b.channel->fd));
	send_from_a(0);
	rig_take_event(&b, b.rcq);
	rig_wait_ok(b.rcq);
	send_from_a(0);
	CHECK(!readable(b.channel->fd)); /* not armed again */
	/* The completion was there before the arm, so the event comes immediately. */
	CHECK(!ibv_req_notify_cq(b.rcq, 0));
	rig_take_event(&b, b.rcq);
	rig_wait_ok(b.rcq);
	CHECK(!ibv_req_notify_cq(b.rcq, 1));
	send_from_a(0);
	CHECK(!readable(b.channel->fd));
	rig_wait_ok(b.rcq);
	send_from_a(IBV_SEND_SOLICITED);
	rig_take_event(&b, b.rcq);
	rig_wait_ok(b.rcq);
	/* An unread event does not prevent the destruction of the CQ. */
	CHECK(!ibv_req_notify_cq(b.rcq, 0));
	send_from_a(0);
	becomes_readable(b.channel->fd);
	rig_wait_ok(b.rcq);
}

/* The other end sleeps in the kernel for each message, and answers it. */
static void echo(int fd)
{
	RIG r;

	rig_open(&r, &(struct rig_attr){.events = true});
	CHECK(!ibv_req_notify_cq(r.rcq, 0));
	for (int i = 0; i < 8; i++)
		rig_recv(&r, 0, 0, 64);
	rig_meet(&r, fd, NULL, (struct rig_timers){0});
	for (int i = 0; i < ROUNDS; i++) {
		rig_take_event(&r, r.rcq);
		CHECK(!ibv_req_notify_cq(r.rcq, 0));
		rig_wait_ok(r.rcq);
		rig_recv(&r, 0, 0, 64);
		rig_send(&r, 4);
		rig_wait_ok(r.scq);
	}
	test_get(fd, &(char){0}, 1);
}

TEST(between_processes)
{
	int fd;
	pid_t pid = test_peer(echo, &fd);

	rig_open(&a, &(struct rig_attr){.events = true});
	for (int i = 0; i < 8; i++)
		rig_recv(&a, 0, 0, 64);
	rig_meet(&a, fd, NULL, (struct rig_timers){0});
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(!ibv_req_notify_cq(a.rcq, 0));
		rig_send(&a, 4);
		rig_wait_ok(a.scq);
		rig_take_event(&a, a.rcq);
		rig_wait_ok(a.rcq);
		rig_recv(&a, 0, 0, 64);
	}
	test_put(fd, "x", 1);
	CHECK_EQ(test_reap(pid), 0);
}

TEST(srq_limit)
{
	struct ibv_srq_attr limit = {.srq_limit = 2};
	struct ibv_async_event e;

	open_pair(true);
	for (int i = 0; i < 3; i++)
		rig_recv(&b, 0, 0, 64);
	CHECK(!ibv_modify_srq(b.srq, &limit, IBV_SRQ_LIMIT));
	send_from_a(0); /* posts one, takes one: three are left */
	CHECK(!readable(b.ctx->async_fd));
	for (int i = 0; i < 2; i++) {
		rig_send(&a, 8);
		rig_wait_ok(a.scq);
	}
	e = rig_take_async(&b);
	CHECK_EQ(e.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	CHECK(e.element.srq == b.srq);
}

TEST(qp_errors)
{
	struct ibv_async_event e;

	open_pair(true);
	rig_post(&a, &(struct rig_wr){.op = IBV_WR_RDMA_WRITE,
			     .len = 8,
			     .raddr = (uintptr_t)b.buf,
			     .rkey = b.mr->rkey ^ 1});
	CHECK_EQ(rig_wait(a.scq).status, IBV_WC_REM_ACCESS_ERR);
	e = rig_take_async(&b);
	CHECK_EQ(e.event_type, IBV_EVENT_QP_ACCESS_ERR);
	CHECK(e.element.qp == b.qp);
	CHECK_EQ(rig_take_async(&b).event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
	CHECK(!readable(b.ctx->async_fd));
}

/* Moves a QP with an SRQ through ERR, which sends IBV_EVENT_QP_LAST_WQE_REACHED, to INIT. */
static void pass_error(struct ibv_qp *qp)
{
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR}, reset = {.qp_state = IBV_QPS_RESET};
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	CHECK(!ibv_modify_qp(qp, &err, IBV_QP_STATE));
	CHECK(!ibv_modify_qp(qp, &reset, IBV_QP_STATE));
	CHECK(!ibv_modify_qp(qp, &init,
		IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

/* The destruction of a QP does not wait for events that were lost. */
TEST(more_async_events_than_fit)
{
	struct ibv_qp *qp;

	rig_open(&b, &(struct rig_attr){.srq = true});
	qp = rig_qp(&b);
	for (size_t i = 0; i < FIFO_BYTES / sizeof(struct ib_uverbs_async_event_desc) + 1; i++)
		pass_error(qp);
	CHECK(!ibv_destroy_qp(qp));
	CHECK(!readable(b.ctx->async_fd));
}

/* A CQ gets more completions than it has entries: its owner gets an event. */
TEST(cq_overrun)
{
	struct ibv_async_event e;

	rig_open_pair(&a, NULL, &b, &(struct rig_attr){.cqe = 7, .srq = true});
	for (int i = 0; i < 9; i++)
		rig_recv(&b, 0, 0, 64);
	for (int i = 0; i < 9; i++)
		rig_send(&a, 8);
	e = rig_take_async(&b);
	CHECK_EQ(e.event_type, IBV_EVENT_CQ_ERR);
	CHECK(e.element.cq == b.rcq);
}

/* With ignore_overrun the ninth completion overwrites the first. */
TEST(cq_overrun_ignored)
{
	const struct mlx5_cqe64 *first;

	rig_open_pair(&a, &(struct rig_attr){.cqe = 7, .ignore_overrun = true}, &b, NULL);
	first = rig_dv_cq(a.scq).buf;
	for (int i = 0; i < 9; i++)
		rig_write(&a, &b, 8);
	/* Relaxed: the HCA's thread writes it, and nothing else of the CQE is read. */
	while (be16toh(__atomic_load_n(&first->wqe_counter, __ATOMIC_RELAXED)) != 8)
		sched_yield();
	CHECK(!readable(a.ctx->async_fd));
	CHECK_EQ(rig_state(&a), IBV_QPS_RTS);
}

static void moderate(struct ibv_cq *cq, uint16_t count, uint16_t us)
{
	struct ibv_modify_cq_attr attr = {IBV_CQ_ATTR_MODERATE, {count, us}};

	CHECK(!ibv_modify_cq(cq, &attr));
}

static void poll_all(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	while (rig_poll(cq, &wc))
		;
}

/* A step of a case of moderated(). */
static void act(char what)
{
	switch (what) {
	case 'a': /* arm for the next completion */
	case 's': /* arm for the next solicited one */
		CHECK(!ibv_req_notify_cq(b.rcq, what == 's'));
		break;
	case 'm': /* a message */
	case 'M': /* a solicited one */
		rig_recv(&b, 0, 0, 64);
		rig_post(&a,
			&(struct rig_wr){.op = IBV_WR_SEND,
				.flags = IBV_SEND_SIGNALED | (what == 'M' ? IBV_SEND_SOLICITED : 0),
				.len = 8});
		break;
	case 't': /* time: 1 ns less than 100 us */
		stopped_ns += 99999;
		break;
	case 'i': /* 1 ns */
		stopped_ns++;
		break;
	case 'p':
		poll_all(b.rcq);
		break;
	case 'E': /* one event */
		CHECK(readable(b.channel->fd));
		rig_take_event(&b, b.rcq);
		/* fall through */
	default: /* no event */
		CHECK(!readable(b.channel->fd));
	}
	CHECK(softhca_step() >= 0);
	poll_all(a.scq);
}

/* Two moderated CQs of a process; the CQ with the longer time is armed first. */
static void two_queues(void)
{
	moderate(b.rcq, 9, 200);
	moderate(a.scq, 9, 100);
	act('a');
	CHECK(!ibv_req_notify_cq(a.scq, 0));
	act('m');
	stopped_ns += 100000;
	act('-');
	CHECK(readable(a.channel->fd));
	rig_take_event(&a, a.scq);
	stopped_ns += 100000;
	softhca_step();
	act('E');
}

static void moderated(void)
{
	static const struct {
		uint16_t count, us;
		const char *acts;
	} cases[] = {
		{3, 100, "amm-mE"}, /* the count is reached */
		{3, 100, "amtm-iE"}, /* the time since the first completion is over */
		{3, 100, "aM-tiE"},
		{3, 100, "mma-mE"}, /* completions before the arm count */
		{3, 100, "mmmaE"},
		{3, 100, "ma-tiE"},
		{3, 100, "sM-tiE"},
		{3, 100, "smmm-ti-ME"}, /* no event before a solicited one */
		{3, 100, "sMm-mE"},
		{3, 100, "MmmsE"},
		{3, 100, "mmms-ti-"},
		{3, 100, "ampa-ti-m-tiE"}, /* a polled completion causes no event */
		{0, 100, "amE"},
		{3, 0, "amE"},
		{1, 100, "amE"},
		{0, 0, "ampamE"}, /* armed again before the event is read: no second event */
		{0, 0, "ampsME-amE"},
	};

	CHECK(!setenv("SOFTHCA_MODE", "step", 1));
	stopped_ns = 1000000000u;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		rig_open_pair(&a, &(struct rig_attr){.events = true}, &b,
			&(struct rig_attr){.events = true});
		moderate(b.rcq, cases[i].count, cases[i].us);
		for (const char *c = cases[i].acts; *c; c++)
			act(*c);
	}
	rig_open_pair(&a, &(struct rig_attr){.events = true}, &b,
		&(struct rig_attr){.events = true});
	two_queues();
	rig_close_pair(&a, &b);
	exit(0);
}

/* The adapter's own thread sends an event whose time has come. */
TEST(moderated_by_thread)
{
	open_pair(false);
	moderate(b.rcq, 9, 1000);
	CHECK(!ibv_req_notify_cq(b.rcq, 0));
	send_from_a(0);
	rig_take_event(&b, b.rcq);
	rig_wait_ok(b.rcq);
}

/* Lets this process open files, or not. */
static void may_open(bool may)
{
	static struct rlimit before;
	struct rlimit limit;

	if (!may)
		CHECK(!getrlimit(RLIMIT_NOFILE, &before));
	limit = before;
	if (!may)
		limit.rlim_cur = 0;
	CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
}

/* A process that has no descriptor left causes events. They are sent later. */
TEST(completion_without_descriptor)
{
	open_pair(false);
	CHECK(!ibv_req_notify_cq(b.rcq, 0));
	may_open(false);
	send_from_a(0);
	may_open(true);
	rig_take_event(&b, b.rcq);
	rig_wait_ok(b.rcq);
}

TEST(errors_without_descriptor)
{
	struct ibv_srq_attr limit = {.srq_limit = 1};
	struct rig_addr wrong;
	struct ibv_async_event e;

	open_pair(true);
	wrong = rig_addr(&b);
	wrong.rkey ^= 1;
	CHECK(!ibv_modify_srq(b.srq, &limit, IBV_SRQ_LIMIT));
	may_open(false);
	send_from_a(0);
	rig_request(&a, IBV_WR_RDMA_WRITE, 8, wrong);
	CHECK_EQ(rig_wait(a.scq).status, IBV_WC_REM_ACCESS_ERR);
	may_open(true);
	e = rig_take_async(&b);
	CHECK_EQ(e.event_type, IBV_EVENT_QP_ACCESS_ERR);
	CHECK(e.element.qp == b.qp);
	CHECK_EQ(rig_take_async(&b).event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
	e = rig_take_async(&b);
	CHECK_EQ(e.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	CHECK(e.element.srq == b.srq);
}

/* Causes an event for each object of b. */
static void cause_events(void)
{
	struct ibv_srq_attr limit = {.srq_limit = 1};

	open_pair(true);
	CHECK(!ibv_modify_srq(b.srq, &limit, IBV_SRQ_LIMIT));
	CHECK(!ibv_req_notify_cq(b.rcq, 0));
	send_from_a(0);
	becomes_readable(b.channel->fd);
	rig_modify(&b, IBV_QPS_ERR); /* IBV_EVENT_QP_LAST_WQE_REACHED */
}

/*
 * An object with unread events is not destroyed without a descriptor. Otherwise its destruction
 * would wait for ever until the program has acknowledged these events. The QP stays as it is.
 */
TEST(destroyed_without_descriptor)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	cause_events();
	may_open(false);
	CHECK_EQ(ibv_destroy_qp(b.qp), EMFILE);
	CHECK(!ibv_query_qp(b.qp, &attr, IBV_QP_STATE, &init));
	CHECK_EQ(attr.qp_state, IBV_QPS_ERR);
	may_open(true);
	CHECK(!ibv_destroy_qp(b.qp));
	b.qp = NULL;
	may_open(false);
	CHECK_EQ(ibv_destroy_srq(b.srq), EMFILE);
	CHECK_EQ(ibv_destroy_cq(b.rcq), EMFILE);
	may_open(true);
	rig_close(&b);
}

/* If the program has read all events, its objects are destroyed. */
TEST(destroyed_without_descriptor_after_events)
{
	cause_events();
	rig_take_event(&b, b.rcq);
	rig_take_async(&b);
	rig_take_async(&b);
	may_open(false);
	CHECK(!ibv_destroy_qp(b.qp));
	CHECK(!ibv_destroy_srq(b.srq));
	CHECK(!ibv_destroy_cq(b.rcq));
	may_open(true);
	b.qp = NULL;
	b.srq = NULL;
	b.rcq = ibv_create_cq(b.ctx, 1, NULL, NULL, 0);
	rig_close(&b);
}

FABRIC_MAIN("events");
