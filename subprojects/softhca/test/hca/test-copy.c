/* SPDX-License-Identifier: MIT */
/*
 * Long messages. Half of a message's target memory is missing until the test fills it
 * (userfaultfd); until then the message is in the middle of its copy. Meanwhile other operations
 * proceed, and those that have to wait for the end of the copy wait. If the sender is killed during
 * the copy, no operation waits for ever.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fabric/arena.h"
#include "rig.h"
#include "softhca.h"

#define PAGE 4096u
#define LONG (32 * 1024u)
#define SKIPPED 77
#define GUARD_SECONDS 600

static int uffd;

/* Memory of LONG bytes whose second half is missing. */
struct gap {
	uint8_t *p;
	struct ibv_mr *mr;
};

static void gap_open(struct gap *g, struct ibv_pd *pd)
{
	struct uffdio_register reg = {.mode = UFFDIO_REGISTER_MODE_MISSING};

	g->p = test_map(LONG, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	memset(g->p, 0, LONG / 2);
	reg.range.start = (uintptr_t)g->p + LONG / 2;
	reg.range.len = LONG / 2;
	CHECK(!ioctl(uffd, UFFDIO_REGISTER, &reg));
	g->mr = ibv_reg_mr(pd, g->p, LONG, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK(g->mr);
}

/* Waits until a copy has come to the missing half. */
static void gap_reached(void)
{
	struct uffd_msg m;

	CHECK_EQ(read(uffd, &m, sizeof(m)), sizeof(m));
	CHECK_EQ(m.event, UFFD_EVENT_PAGEFAULT);
}

static void gap_fill(const struct gap *g)
{
	struct uffdio_zeropage z = {.range = {(uintptr_t)g->p + LONG / 2, LONG / 2}};

	CHECK(!ioctl(uffd, UFFDIO_ZEROPAGE, &z));
}

static void gap_close(struct gap *g)
{
	CHECK(!g->mr || !ibv_dereg_mr(g->mr));
	CHECK(!g->p || !munmap(g->p, LONG));
}

#define GAP AT_END(gap_close) struct gap

/* A thread that makes one call, which is expected to block. */
struct call {
	void (*fn)(struct call *c);
	pthread_t thread;
	atomic_int tid; /* 0: the thread has not begun; -1: the call has returned */
	struct rig *r;
	struct ibv_mr *mr;
	struct rig_wr wr;
};

static void *run_call(void *arg)
{
	struct call *c = arg;

	atomic_store(&c->tid,
		gettid()); /* read by still_waits() and call_join(), as the next one */
	c->fn(c);
	atomic_store(&c->tid, -1);
	return NULL;
}

static void call_start(struct call *c)
{
	CHECK(!pthread_create(&c->thread, NULL, run_call, c));
}

static void call_join(struct call *c)
{
	CHECK(!pthread_join(c->thread, NULL));
	CHECK_EQ(atomic_load(&c->tid), -1);
}

static void do_post(struct call *c)
{
	rig_post(c->r, &c->wr);
}

static void do_dereg(struct call *c)
{
	CHECK(!ibv_dereg_mr(c->mr));
}

static void do_destroy(struct call *c)
{
	CHECK(!ibv_destroy_qp(c->r->qp));
	c->r->qp = NULL;
}

static void do_reset(struct call *c)
{
	rig_modify(c->r, IBV_QPS_RESET);
}

static void do_error(struct call *c)
{
	rig_modify(c->r, IBV_QPS_ERR);
}

static void do_drain(struct call *c)
{
	rig_modify(c->r, IBV_QPS_SQD);
}

/* Two ends of this process. */
struct pair {
	struct rig a, b;
};

static void pair_close(struct pair *p)
{
	rig_close_pair(&p->a, &p->b);
}

#define PAIR AT_END(pair_close) struct pair

static void small(struct pair *p, uint32_t n)
{
	rig_fill(p->a.buf, 64, n);
	rig_recv(&p->b, n, 0, 64);
	rig_send(&p->a, 64);
	CHECK_EQ(rig_wait_ok(p->b.rcq).wr_id, n);
	rig_wait_ok(p->a.scq);
	CHECK(rig_same(p->b.buf, 64, n));
}

/* Starts a long message of p->a into @g, and returns in the middle of it. */
static void start_long(struct call *c, struct pair *p, struct gap *g, enum ibv_wr_opcode op)
{
	gap_open(g, p->b.pd);
	rig_fill(p->a.buf, LONG, 5);
	*c = (struct call){
		.fn = do_post,
		.r = &p->a,
		.wr = {.op = op,
			.flags = IBV_SEND_SIGNALED,
			.len = LONG,
			.raddr = (uintptr_t)g->p,
			.rkey = g->mr->rkey},
	};
	call_start(c);
	gap_reached();
}

/* Waits until the thread waits or has returned. */
static void call_rests(struct call *c)
{
	int tid;

	while (!(tid = atomic_load(&c->tid)) || (tid > 0 && !test_thread_waits(tid)))
		sched_yield();
}

/* Waits so long that the thread would have returned if the copy did not hold it up. */
static void still_waits(struct call *c, struct pair *other)
{
	call_rests(c);
	for (uint32_t n = 0; n < 200; n++) {
		small(other, n);
		sched_yield();
	}
	CHECK(atomic_load(&c->tid) > 0);
}

TEST(others_go_on)
{
	PAIR p, other;
	struct call c;
	GAP g = {0};

	rig_open_pair(&p.a, NULL, &p.b, NULL);
	rig_open_pair(&other.a, NULL, &other.b, NULL);
	start_long(&c, &p, &g, IBV_WR_RDMA_WRITE);
	for (uint32_t n = 0; n < 100; n++)
		small(&other, n);
	rig_idle(p.a.scq);
	gap_fill(&g);
	call_join(&c);
	rig_wait_ok(p.a.scq);
	CHECK(rig_same(g.p, LONG, 5));
}

/*
 * A thread calls @fn during the copy. The call must end after the copy.
 */
static void waits(void (*fn)(struct call *), bool at_dest)
{
	PAIR p, other;
	struct call c, w;
	GAP g = {0};

	rig_open_pair(&p.a, NULL, &p.b, NULL);
	rig_open_pair(&other.a, NULL, &other.b, NULL);
	start_long(&c, &p, &g, IBV_WR_RDMA_WRITE);
	w = (struct call){.fn = fn, .r = at_dest ? &p.b : &p.a, .mr = g.mr};
	call_start(&w);
	still_waits(&w, &other);
	gap_fill(&g);
	call_join(&w);
	CHECK(rig_same(g.p, LONG, 5)); /* the whole message is there */
	if (fn == do_drain) {
		rig_wait_ok(p.a.scq);
		rig_modify(&p.a, IBV_QPS_RTS);
	}
	if (fn == do_dereg)
		g.mr = NULL;
	if (p.a.qp)
		rig_modify(&p.a, IBV_QPS_RESET); /* ends the repetitions of an unanswered message */
	call_join(&c);
}

TEST_WITH(dereg_waits, waits, do_dereg, true);
/* Not the sender's QP: libmlx5 would free memory that the post still uses. */
TEST_WITH(destroy_waits, waits, do_destroy, true);
TEST_WITH(reset_of_receiver_waits, waits, do_reset, true);
TEST_WITH(reset_of_sender_waits, waits, do_reset, false);
TEST_WITH(error_of_receiver_waits, waits, do_error, true);
TEST_WITH(error_of_sender_waits, waits, do_error, false);
TEST_WITH(drain_waits, waits, do_drain, false);

/* No other message takes a receive that is being filled, and the messages keep their receives. */
TEST(one_srq)
{
	PAIR p;
	RIG third;
	struct rig fourth;
	struct call c, w;
	struct ibv_sge sge;
	struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *bad;
	GAP g = {0};

	rig_open_pair(&p.a, NULL, &p.b, &(struct rig_attr){.srq = true});
	rig_open(&third, NULL);
	fourth = rig_with(&p.b, rig_qp(&p.b));
	rig_connect_pair(&third, &fourth);
	gap_open(&g, p.b.pd);
	sge = (struct ibv_sge){(uintptr_t)g.p, LONG, g.mr->lkey};
	CHECK(!ibv_post_srq_recv(p.b.srq, &wr, &bad));
	rig_recv(&p.b, 2, 0, 64);
	rig_fill(p.a.buf, LONG, 6);
	c = (struct call){
		.fn = do_post,
		.r = &p.a,
		.wr = {.op = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED, .len = LONG},
	};
	call_start(&c);
	gap_reached();
	rig_fill(third.buf, 64, 7);
	w = (struct call){
		.fn = do_post,
		.r = &third,
		.wr = {.op = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED, .len = 64},
	};
	call_start(&w);
	call_rests(&w);
	CHECK(atomic_load(&w.tid) > 0);
	rig_idle(p.b.rcq);
	gap_fill(&g);
	call_join(&c);
	call_join(&w);
	CHECK_EQ(rig_wait_ok(p.b.rcq).wr_id, 1);
	CHECK_EQ(rig_wait_ok(p.b.rcq).wr_id, 2);
	CHECK(rig_same(g.p, LONG, 6));
	CHECK(rig_same(p.b.buf, 64, 7));
	CHECK(!ibv_destroy_qp(fourth.qp));
}

/*
 * Another message takes the receive of a long WRITE with immediate during the copy. The WRITE
 * completes after a receive has been posted, and its payload is not placed again.
 */
TEST(placed_once)
{
	PAIR p;
	RIG third;
	struct rig fourth;
	struct call c;
	GAP g = {0};

	rig_open_pair(&p.a, NULL, &p.b, &(struct rig_attr){.srq = true});
	rig_open(&third, NULL);
	fourth = rig_with(&p.b, rig_qp(&p.b));
	rig_connect_pair(&third, &fourth);
	rig_recv(&p.b, 1, 0, 64);
	start_long(&c, &p, &g, IBV_WR_RDMA_WRITE_WITH_IMM);
	rig_send(&third, 64);
	CHECK_EQ(rig_wait_ok(p.b.rcq).wr_id, 1);
	gap_fill(&g);
	call_join(&c);
	rig_idle(p.a.scq);
	rig_fill(p.a.buf, LONG, 8); /* would be placed now */
	rig_recv(&p.b, 2, 0, 0);
	CHECK_EQ(rig_wait_ok(p.b.rcq).wr_id, 2);
	rig_wait_ok(p.a.scq);
	CHECK(rig_same(g.p, LONG, 5));
	CHECK(!ibv_destroy_qp(fourth.qp));
}

/* Changes the HCA's count of the blocks that a send queue has executed. The last 16 bits stay. */
static void set_lap(const struct ibv_qp *qp, uint16_t lap)
{
	uint32_t count;
	off_t at = (off_t)offsetof(struct arena, qps[qp->qp_num % MAX_QPS].sq_done);
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "/dev/shm/softhca-%d-%s/arena", (int)geteuid(),
		getenv("SOFTHCA_FABRIC"));
	fd = open(path, O_RDWR | O_CLOEXEC);
	CHECK_EQ(pread(fd, &count, sizeof(count), at), sizeof(count));
	count = (uint32_t)lap << 16 | (count & UINT16_MAX);
	CHECK_EQ(pwrite(fd, &count, sizeof(count), at), sizeof(count));
	close(fd);
}

/* Executes UINT16_MAX blocks. */
static void almost_a_lap(struct pair *p)
{
	for (uint32_t n, left = UINT16_MAX; left; left -= n) {
		n = left < RIG_DEPTH ? left : RIG_DEPTH;
		rig_write_list(&p->a, &p->b, n, 8, 1); /* one block each */
		rig_wait_ok(p->a.scq);
	}
}

static void long_write_imm(struct pair *p, uint32_t seed)
{
	rig_recv(&p->b, 1, 0, 0);
	rig_fill(p->a.buf, LONG, seed);
	rig_write_imm(&p->a, 0, 0, LONG, rig_addr(&p->b));
	rig_wait_ok(p->b.rcq);
	rig_wait_ok(p->a.scq);
	CHECK(rig_same(p->b.buf, LONG, seed));
}

/*
 * After a long WRITE with immediate the count of blocks wraps. At the next such message it is the
 * same as at the first.
 */
TEST(count_wraps)
{
	PAIR p;

	rig_open_pair(&p.a, NULL, &p.b, NULL);
	almost_a_lap(&p);
	set_lap(p.a.qp, UINT16_MAX);
	long_write_imm(&p, 11);
	almost_a_lap(&p);
	set_lap(p.a.qp, UINT16_MAX);
	long_write_imm(&p, 12);
}

/* In another process: connects, sends one long SEND or WRITE into the gap, and is killed. */
static void doomed(int fd)
{
	enum ibv_wr_opcode op;
	struct rig_addr to;
	struct rig r;

	test_get(fd, &op, sizeof(op));
	rig_open(&r, NULL);
	rig_fill(r.buf, LONG, 9);
	to = rig_meet(&r, fd, NULL, (struct rig_timers){0});
	rig_post(&r, &(struct rig_wr){.op = op, .len = LONG, .raddr = to.addr, .rkey = to.rkey});
	pause();
}

struct doomed {
	pid_t pid;
	int fd;
};

/* Started before this process has threads and a device. */
static struct doomed spare[6];
static size_t nspare = ARRAY_SIZE(spare);

static void make_doomed(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(spare); i++)
		spare[i].pid = test_peer(doomed, &spare[i].fd);
}

static struct doomed *next_doomed(void)
{
	CHECK(nspare);
	return &spare[--nspare];
}

/*
 * Makes an end to which a doomed process is in the middle of sending a long message. Returns the
 * process.
 */
static struct doomed *under_way(struct rig *r, struct gap *g, enum ibv_wr_opcode op, bool srq)
{
	struct doomed *d = next_doomed();
	struct ibv_recv_wr wr = {.wr_id = 1, .num_sge = 1}, *bad;
	struct ibv_sge sge;

	test_put(d->fd, &op, sizeof(op));
	rig_open(r, &(struct rig_attr){.srq = srq});
	gap_open(g, r->pd);
	sge = (struct ibv_sge){(uintptr_t)g->p, LONG, g->mr->lkey};
	wr.sg_list = &sge;
	CHECK(!(srq ? ibv_post_srq_recv(r->srq, &wr, &bad) : ibv_post_recv(r->qp, &wr, &bad)));
	rig_meet(r, d->fd, g->mr, (struct rig_timers){0});
	gap_reached();
	return d;
}

static void doom(const struct doomed *d)
{
	test_kill(d->pid);
	close(d->fd);
}

/* Memory can be deregistered when no process copies into it any more. */
TEST(killed_dereg)
{
	RIG r;
	GAP g = {0};

	doom(under_way(&r, &g, IBV_WR_RDMA_WRITE, false));
	CHECK(!ibv_dereg_mr(g.mr));
	g.mr = NULL;
}

/* The next message gets the receive that was being filled. */
TEST(killed_srq)
{
	RIG r, from;
	GAP g = {0};

	doom(under_way(&r, &g, IBV_WR_SEND, true));
	rig_idle(r.rcq);
	gap_fill(&g);
	rig_open(&from, NULL);
	rig_modify(&r, IBV_QPS_RESET);
	CHECK(!ibv_modify_qp(r.qp,
		&(struct ibv_qp_attr){.qp_state = IBV_QPS_INIT,
			.port_num = 1,
			.qp_access_flags = IBV_ACCESS_REMOTE_WRITE},
		IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	rig_connect_pair(&from, &r);
	rig_fill(from.buf, LONG, 10);
	rig_post(&from, &(struct rig_wr){.op = IBV_WR_SEND, .len = LONG});
	CHECK_EQ(rig_wait_ok(r.rcq).wr_id, 1);
	CHECK(rig_same(g.p, LONG, 10));
}

/*
 * The receiver's QP fails in the middle of the copy. Its receives are flushed only when the sender
 * has been killed (@kill_it) or the copy has ended.
 */
static void killed_flush(bool kill_it)
{
	RIG r;
	GAP g;
	struct doomed *d = under_way(&r, &g, IBV_WR_SEND, false);

	rig_post(&r, &(struct rig_wr){.op = IBV_WR_RDMA_READ, .len = 64, .lkey = 0x100});
	CHECK_EQ(rig_wait(r.scq).status, IBV_WC_LOC_PROT_ERR);
	rig_idle(r.rcq);
	if (kill_it)
		doom(d);
	else
		gap_fill(&g);
	CHECK_EQ(rig_wait(r.rcq).status, IBV_WC_WR_FLUSH_ERR);
	if (!kill_it)
		doom(d);
}

TEST_WITH(killed_before_flush, killed_flush, true);
TEST_WITH(killed_after_flush, killed_flush, false);

/*
 * Another process gets the slot of the dead sender in the fabric. This process does not wait for
 * the new process instead of the dead one, and a QP of the new process works.
 */
TEST(killed_place)
{
	const enum ibv_wr_opcode op = IBV_WR_RDMA_WRITE;
	struct doomed *next = next_doomed();
	struct pollfd has_joined = {.fd = next->fd, .events = POLLIN};
	RIG r, s;
	GAP g, h;

	doom(under_way(&r, &g, op, false));
	test_put(next->fd, &op, sizeof(op));
	CHECK_EQ(poll(&has_joined, 1, -1), 1); /* it sends its address after it has joined */
	CHECK(!ibv_dereg_mr(g.mr));
	g.mr = NULL;
	rig_open(&s, NULL);
	gap_open(&h, s.pd);
	rig_meet(&s, next->fd, h.mr, (struct rig_timers){0});
	gap_reached();
	gap_fill(&h);
	while (!rig_same(h.p, LONG, 9))
		sched_yield();
	doom(next);
}

/*
 * A time limit. SIGALRM is blocked in a thread that executes a doorbell, so alarm() is not enough.
 */
static void guard(void)
{
	struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
	struct itimerspec in = {.it_value.tv_sec = GUARD_SECONDS};
	timer_t t;

	CHECK(!timer_create(CLOCK_MONOTONIC, &e, &t));
	CHECK(!timer_settime(t, 0, &in, NULL));
}

static bool open_uffd(void)
{
	struct uffdio_api api = {.api = UFFD_API};

	uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (uffd < 0)
		return false;
	CHECK(!ioctl(uffd, UFFDIO_API, &api));
	return true;
}

int main(int argc, char **argv)
{
	int r = SKIPPED;

	test_fabric("copy");
	make_doomed();
	guard();
	if (open_uffd())
		r = test_main(argc, argv);
	else
		fprintf(stderr, "skipped: userfaultfd: %s (vm.unprivileged_userfaultfd is 0?)\n",
			strerror(errno));
	while (nspare)
		doom(next_doomed());
	return r;
}
