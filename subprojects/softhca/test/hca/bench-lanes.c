/* SPDX-License-Identifier: MIT */
/*
 * Measures whether pairs of processes in one fabric delay each other.
 *
 *	bench-lanes [--pairs K]
 *
 * The two processes of a pair answer each other with lists of 1 or 32 messages of 64 B, in trap mode
 * and in poll mode. K pairs are in one fabric, or each in its own. Runs of both kinds alternate, and
 * medians are compared. Without --pairs, K is half the number of cores, but at least 4.
 */
#include <sched.h>

#include "rig.h"

#define RUNS 7
#define RUN_NS 200000000u
#define DEPTH_MAX 32u
#define LENGTH 64u
#define PAIRS_MAX 64
#define STOP UINT32_MAX /* immediate data of the last list */

static const char *const modes[] = {"trap", "poll"};
static const uint32_t depths[] = {1, DEPTH_MAX};
static uint32_t depth;

static void send_list(const struct rig *r, struct rig_addr to, uint32_t imm)
{
	rig_write_row(r, to, depth, LENGTH, imm);
	rig_wait_ok(r->scq);
}

static uint32_t receive_list(struct rig *r)
{
	uint32_t imm = rig_wait_ok(r->rcq).imm_data;

	rig_recv(r, 0, 0, LENGTH);
	return imm;
}

static struct rig_addr meet(struct rig *r, int fd)
{
	rig_open(r, NULL);
	rig_recv(r, 0, 0, LENGTH);
	return rig_meet(r, fd, NULL, (struct rig_timers){0});
}

static void server(int fd)
{
	struct rig r;
	struct rig_addr to = meet(&r, fd);
	uint32_t imm;

	do {
		imm = receive_list(&r);
		send_list(&r, to, imm);
	} while (imm != STOP);
	test_get(fd, &(char){0}, 1);
	rig_close(&r);
}

/* Reports the messages of both processes per second. */
static void client(int parent)
{
	uint64_t start, n = 0;
	struct rig_addr to;
	struct rig r;
	double rate;
	pid_t pid;
	int fd;

	pid = test_peer(server, &fd);
	to = meet(&r, fd);
	test_meet(parent);
	start = test_now_ns();
	do {
		send_list(&r, to, 0);
		receive_list(&r);
		n++;
	} while (test_now_ns() - start < RUN_NS);
	rate = (double)(n * 2 * depth) * 1e9 / (double)(test_now_ns() - start);
	send_list(&r, to, STOP);
	receive_list(&r);
	test_put(fd, "x", 1);
	rig_close(&r);
	CHECK_EQ(test_reap(pid), 0);
	test_put(parent, &rate, sizeof(rate));
}

static pid_t start(const char *mode, int fabric, int *fd_p)
{
	char name[32];

	snprintf(name, sizeof(name), "bench-lanes-%d-%d", getpid(), fabric);
	CHECK(!setenv("SOFTHCA_FABRIC", name, 1) && !setenv("SOFTHCA_MODE", mode, 1));
	return test_peer(client, fd_p);
}

/* Returns the messages per second of @pairs together. */
static double run(const char *mode, int pairs, bool one_fabric)
{
	int fd[PAIRS_MAX];
	pid_t pid[PAIRS_MAX];
	double sum = 0, rate;

	for (int i = 0; i < pairs; i++) {
		pid[i] = start(mode, one_fabric ? 0 : i, &fd[i]);
		test_get(fd[i], &(char){0}, 1);
	}
	for (int i = 0; i < pairs; i++)
		test_put(fd[i], "x", 1);
	for (int i = 0; i < pairs; i++) {
		test_get(fd[i], &rate, sizeof(rate));
		sum += rate;
		test_peer_ends(pid[i], fd[i]);
	}
	return sum;
}

static void measure(const char *mode, int pairs)
{
	double rate[2][RUNS], one, own;

	for (int i = 0; i < RUNS; i++)
		for (int k = 0; k < 2; k++)
			rate[k][i] = run(mode, pairs, k);
	own = test_median(rate[0], RUNS);
	one = test_median(rate[1], RUNS);
	printf("%s, depth %u, %d pairs, median of %d: %.0f thousand messages/s in one fabric, "
	       "%.0f in fabrics of their own: %.2f; a round trip %.1f us\n",
		mode, depth, pairs, RUNS, one / 1e3, own / 1e3, one / own,
		2e6 * depth * pairs / one);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int pairs;
	cpu_set_t cores;

	CHECK(!sched_getaffinity(0, sizeof(cores), &cores));
	pairs = CPU_COUNT(&cores) / 2;
	pairs = pairs < 4 ? 4 : pairs > PAIRS_MAX ? PAIRS_MAX : pairs;
	if (argc == 3 && !strcmp(argv[1], "--pairs"))
		pairs = atoi(argv[2]);
	if (argc == 2 || pairs < 1 || pairs > PAIRS_MAX) {
		fprintf(stderr, "give --pairs and a number of pairs, 1 to %d\n", PAIRS_MAX);
		return 2;
	}
	for (size_t m = 0; m < ARRAY_SIZE(modes); m++) {
		for (size_t d = 0; d < ARRAY_SIZE(depths); d++) {
			depth = depths[d];
			measure(modes[m], pairs);
		}
	}
	return 0;
}
