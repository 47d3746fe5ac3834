/* SPDX-License-Identifier: MIT */
/*
 * Measures whether processes in one fabric delay each other. As many processes as there are cores,
 * at least 4, each write 64 B, 16 times per doorbell, from one of their contexts to another, all
 * in one fabric or each in its own. The runs of both kinds alternate, and medians are compared.
 */
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>

#include "rig.h"

#define RUNS 9
#define DOORBELLS 4000u
#define LIST 16u /* messages of a doorbell */
#define PROCESSES_MAX 64

static void writer(int fd)
{
	struct rig from, to;
	uint64_t start;
	char go;

	rig_open_pair(&from, NULL, &to, NULL);
	test_put(fd, "x", 1);
	test_get(fd, &go, 1);
	start = test_now_ns();
	for (uint32_t n = 0; n < DOORBELLS; n++) {
		rig_write_list(&from, &to, LIST, 64, 1);
		rig_wait_ok(from.scq);
	}
	start = test_now_ns() - start;
	test_put(fd, &start, sizeof(start));
	rig_close_pair(&from, &to);
}

static pid_t start(int n, bool one_fabric, int *fd_p)
{
	char fabric[32];
	int ends[2];
	pid_t pid;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	pid = test_fork();
	if (!pid) {
		snprintf(fabric, sizeof(fabric), "bench-lanes-%d", one_fabric ? 0 : n);
		CHECK(!setenv("SOFTHCA_FABRIC", fabric, 1));
		writer(ends[1]);
		_exit(0);
	}
	close(ends[1]);
	*fd_p = ends[0];
	return pid;
}

/* Returns the messages per second of @n processes together. */
static double run(int n, bool one_fabric)
{
	int fd[PROCESSES_MAX];
	pid_t pid[PROCESSES_MAX];
	double sum = 0;
	uint64_t ns;
	char c;

	for (int i = 0; i < n; i++) {
		pid[i] = start(i, one_fabric, &fd[i]);
		test_get(fd[i], &c, 1);
	}
	for (int i = 0; i < n; i++)
		test_put(fd[i], "x", 1);
	for (int i = 0; i < n; i++) {
		test_get(fd[i], &ns, sizeof(ns));
		sum += DOORBELLS * LIST * 1e9 / (double)ns;
		CHECK_EQ(test_reap(pid[i]), 0);
		close(fd[i]);
	}
	return sum;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(void)
{
	double rate[2][RUNS];
	cpu_set_t cores;
	int n;

	CHECK(!sched_getaffinity(0, sizeof(cores), &cores));
	n = CPU_COUNT(&cores);
	n = n < 4 ? 4 : n > PROCESSES_MAX ? PROCESSES_MAX : n;
	for (int i = 0; i < RUNS; i++)
		for (int one = 0; one < 2; one++)
			rate[one][i] = run(n, one);
	for (int one = 0; one < 2; one++)
		qsort(rate[one], RUNS, sizeof(rate[one][0]), compare);
	printf("64 B by %d processes, median of %d: %.0f thousand/s in one fabric, %.0f in %d: "
	       "%.2f\n",
		n, RUNS, rate[1][RUNS / 2] / 1e3, rate[0][RUNS / 2] / 1e3, n,
		rate[1][RUNS / 2] / rate[0][RUNS / 2]);
	return 0;
}
