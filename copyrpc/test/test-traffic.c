/* SPDX-License-Identifier: MIT */
/*
 * Random traffic over the HCA: small and large rings, short send queues, a receive queue that is
 * nearly empty, one context or two, two processes. Every payload is compared.
 */
#include <signal.h>
#include <sys/wait.h>

#include "traffic.h"

#define SHARE (SCALE == 1 && TIMES == 1 ? 2 : SCALE) /* divides numbers of calls and schedules */

static struct node nodes[2];

static void run_seeded(const struct copyrpc_ctx_attr *attr, int eps, uint32_t max, uint32_t calls,
	uint64_t seed)
{
	for (int i = 0; i < 2; i++)
		node_open(&nodes[i], attr, eps, max, calls, seed + (uint64_t)i);
	nodes_run(nodes, seed);
}

static void close_nodes(void)
{
	for (int i = 0; i < 2; i++) {
		node_balance(&nodes[i]);
		copyrpc_ctx_destroy(nodes[i].ctx);
	}
}

/* -------------------------------------------------------------- two processes */

/* Both ends are children: a process that has opened the HCA once should not fork. */
static void run_processes(uint32_t ring, int eps, uint32_t max, uint32_t calls)
{
	const struct copyrpc_ctx_attr attr = {.ring_size = ring};
	uint64_t seed = test_seed();
	pid_t child[2], pid;
	int fd[2], status;

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	fflush(NULL);
	for (int i = 0; i < 2; i++) {
		child[i] = test_fork();
		if (!child[i]) {
			node_with_peer(&nodes[0], fd[i], &attr, eps, max, calls * TIMES / SHARE,
				seed + (uint64_t)i);
			exit(0);
		}
	}
	close(fd[0]);
	close(fd[1]);
	for (int i = 0; i < 2; i++) {
		pid = wait(&status);
		if (!WIFEXITED(status) || WEXITSTATUS(status)) {
			kill(child[child[0] == pid], SIGKILL);
			CHECK(!"a process failed");
		}
	}
}

/* These are the first, because they must fork before this process opens the HCA. */
TEST_WITH(two_processes, run_processes, 0, 1, 200, 20000);
TEST_WITH(two_processes_small_rings, run_processes, 4096, 4, 500, 1000);

/* --------------------------------------------------------------- one process */

/* The arguments are those of node_open(). */
static void run_pair(struct copyrpc_ctx_attr attr, int eps, uint32_t max, uint32_t calls)
{
	run_seeded(&attr, eps, max, calls * TIMES / SHARE, test_seed());
	for (int i = 0; i < 2; i++)
		node_report(&nodes[i]);
	close_nodes();
}

/* Random sizes of rings and messages, and random depths of queues. */
TEST(random_schedules)
{
	static const uint32_t receives[] = {4, 8, 32, 1024};
	uint64_t seed = test_seed();

	for (int i = 0; i < 1000 * TIMES / SHARE; i++) {
		struct copyrpc_ctx_attr attr = {
			.ring_size = 4096u << test_rand(&seed) % 9,
			.sq_depth = 16u << test_rand(&seed) % 5,
			.srq_depth = receives[test_rand(&seed) % ARRAY_SIZE(receives)],
		};
		uint32_t most = COPYRPC_PAYLOAD_MAX(attr.ring_size);
		int eps = 1 + (int)(test_rand(&seed) % (test_rand(&seed) % 8 ? 2 : NODE_EPS));

		if (test_rand(&seed) % 2)
			most = 300;
		run_seeded(&attr, eps, 8 + (uint32_t)(test_rand(&seed) % (most - 7)),
			1 + (uint32_t)(test_rand(&seed) % 40), test_rand(&seed));
		close_nodes();
	}
}

TEST_WITH(smallest_ring, run_pair, (struct copyrpc_ctx_attr){.ring_size = 4096}, 1, 500, 5000);
TEST_WITH(largest_messages, run_pair, (struct copyrpc_ctx_attr){.ring_size = 65536}, 1,
	COPYRPC_PAYLOAD_MAX(65536), 3000);
TEST_WITH(default_ring, run_pair, (struct copyrpc_ctx_attr){0}, 1, 200, 20000);
TEST_WITH(short_send_queue, run_pair, (struct copyrpc_ctx_attr){.ring_size = 4096, .sq_depth = 16},
	1, 300, 5000);
TEST_WITH(many_endpoints, run_pair, (struct copyrpc_ctx_attr){.ring_size = 8192}, NODE_EPS, 200,
	1000);
/* Four receives for sixteen endpoints: the HCA often finds no receive, and repeats the message. */
TEST_WITH(nearly_no_receives, run_pair,
	(struct copyrpc_ctx_attr){.ring_size = 8192, .srq_depth = 4}, NODE_EPS, 100, 60);
TEST_WITH(few_pending_calls, run_pair,
	(struct copyrpc_ctx_attr){.ring_size = 65536, .max_pending = 3}, 1, 100, 3000);

/* One context, whose endpoints 0 and 1 are connected to each other. */
TEST(within_one_context)
{
	struct node *n = &nodes[0];

	node_open(n, &(struct copyrpc_ctx_attr){.ring_size = 8192}, 2, 300, 5000 * TIMES / SHARE,
		test_seed());
	connect_eps(n->ep);
	while (!node_done(n))
		node_step(n);
	node_report(n);
	copyrpc_ctx_destroy(n->ctx);
}
