/* SPDX-License-Identifier: MIT */
/*
 * Measures the time of a message of 64 B to another process, in trap mode and in poll mode. Private
 * memory of that process is written by a system call, memory of a file without one.
 */
#include "rig.h"

#define LENGTH 64u
#define DEPTH 32u /* messages of a run, and posted receives */
#define RUNS 100

static const struct kind {
	const char *name;
	enum ibv_wr_opcode op;
} kinds[] = {{"WRITE", IBV_WR_RDMA_WRITE}, {"WRITE_IMM", IBV_WR_RDMA_WRITE_WITH_IMM},
	{"SEND", IBV_WR_SEND}};

static const struct kind *kind;
static bool in_file;
static struct ibv_mr *target;
static struct rig r;

static void post_receives(void)
{
	struct ibv_sge sge = {(uintptr_t)target->addr, LENGTH, target->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	for (uint32_t i = 0; i < DEPTH; i++)
		CHECK(!ibv_post_recv(r.qp, &wr, &bad));
}

/* Receives a run of messages for each byte that arrives on @fd. */
static void receiver(int fd)
{
	int file;
	void *p;

	rig_open(&r, NULL);
	target = r.mr;
	if (in_file) {
		file = memfd_create("target", MFD_CLOEXEC);
		CHECK(file >= 0 && !ftruncate(file, RIG_BUF));
		p = mmap(NULL, RIG_BUF, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
		CHECK(p != MAP_FAILED);
		target = ibv_reg_mr(r.pd, p, RIG_BUF,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
		CHECK(target);
	}
	post_receives();
	rig_meet(&r, fd, target, (struct rig_timers){0});
	while (recv(fd, &(char){0}, 1, 0) == 1) {
		if (kind->op != IBV_WR_RDMA_WRITE) {
			for (uint32_t i = 0; i < DEPTH; i++)
				rig_wait_ok(r.rcq);
			post_receives();
		}
		test_put(fd, "x", 1);
	}
	if (in_file)
		CHECK(!ibv_dereg_mr(target));
}

static void sender(int parent)
{
	uint64_t best = UINT64_MAX, start, ns;
	struct rig_addr to;
	pid_t pid;
	int fd;

	pid = test_peer(receiver, &fd);
	rig_open(&r, NULL);
	to = rig_meet(&r, fd, NULL, (struct rig_timers){0});
	for (int run = 0; run < RUNS; run++) {
		start = test_now_ns();
		for (uint32_t i = 0; i < DEPTH; i++) {
			rig_request(&r, kind->op, LENGTH, to);
			rig_wait_ok(r.scq);
		}
		ns = test_now_ns() - start;
		best = ns < best ? ns : best;
		test_meet(fd);
	}
	close(fd);
	CHECK_EQ(test_reap(pid), 0);
	rig_close(&r);
	test_put(parent, &best, sizeof(best));
}

static double measure(bool file)
{
	uint64_t ns;
	pid_t pid;
	int fd;

	in_file = file;
	pid = test_peer(sender, &fd);
	test_get(fd, &ns, sizeof(ns));
	test_peer_ends(pid, fd);
	return (double)ns / DEPTH / 1e3;
}

int main(void)
{
	static const char *const modes[] = {"trap", "poll"};
	double private, shared;

	test_fabric("bench-peer");
	for (size_t m = 0; m < ARRAY_SIZE(modes); m++) {
		CHECK(!setenv("SOFTHCA_MODE", modes[m], 1));
		for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
			kind = &kinds[k];
			private = measure(false);
			shared = measure(true);
			printf("%s: %s: best run %.2f us a message, %.2f us in a file's memory: "
			       "%.2f\n",
				modes[m], kind->name, private, shared, private / shared);
			fflush(stdout);
		}
	}
	return 0;
}
