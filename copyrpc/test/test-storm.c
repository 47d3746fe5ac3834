/* SPDX-License-Identifier: MIT */
/*
 * Many faults at the same time. A seed determines a schedule: two or three nodes, each a thread
 * with a context, and sometimes another node in a process that is killed. Each pair of nodes has
 * some connections. The nodes make calls. They reply at once, later, inside a callback, or after a
 * call of their own. They detach requests, use raw READ and WRITE, poll or sleep, flush in all
 * ways, and destroy endpoints and connect new ones. Meanwhile the HCA makes errors and delays, the
 * link goes down, other QPs of mlx5dv-lite are created and destroyed, and at the end the device may
 * fail. Each node checks what copyrpc.h promises: every byte, the order of requests, that each call
 * and each raw operation ends exactly once, that no event comes after the end of an endpoint, and
 * that no wake-up is lost. In the end no object may be left.
 *
 *	test-copyrpc-storm [SEED [COUNT]]
 *
 * runs COUNT schedules with consecutive seeds, each in its own process. If SEED is 0 or absent, the
 * first seed is TEST_SEED or a new one.
 */
#include <sys/wait.h>

#include "storm-churn.h"
#include "storm-node.h"
#include "support/hcacall.h"

/* ---- the director: faults, and QPs that come and go -------------------------------- */

static void add_fault(uint64_t *seed)
{
	static const char *const rules[] = {
		"action=error opcode=write_imm syndrome=retry_exceeded",
		"action=error opcode=write_imm syndrome=remote_access",
		"action=error opcode=read syndrome=remote_op",
		"action=error opcode=write syndrome=rnr_exceeded",
		"action=partial opcode=write_imm bytes=40 syndrome=remote_op",
		"action=rnr opcode=write_imm count=3",
		"action=no_answer count=2",
		"action=no_answer count=9",
		"action=delay opcode=write_imm delay_ns=300000 count=3",
		"action=late opcode=write_imm delay_ns=2000000",
		"action=hold_receive opcode=write_imm",
		"action=link_down",
	};
	const char *rule = rules[test_rand(seed) % ARRAY_SIZE(rules)];
	unsigned nth = 1 + (unsigned)(test_rand(seed) % 300);
	char text[128];

	snprintf(text, sizeof(text), "%s nth=%u", rule, nth);
	HCA(softhca_fault_add)(text); /* there may be no room for more */
	if (!strcmp(rule, "action=link_down")) {
		snprintf(text, sizeof(text), "action=link_up nth=%u", nth + 2);
		HCA(softhca_fault_add)(text);
	}
}

/* The link may still be down: the next message brings it up. */
static void end_faults(void)
{
	for (int i = 1; i < 256; i++)
		HCA(softhca_fault_remove)(i);
	hca_fault("action=link_up");
}

static bool all_done(void)
{
	uint32_t all = (1u << storm->nodes) - 1;

	return (atomic_load(&storm->done) | atomic_load(&storm->dead)) == all;
}

static void see_death(pid_t *victim)
{
	int status;

	if (!*victim || waitpid(*victim, &status, WNOHANG) != *victim)
		return;
	*victim = 0;
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	atomic_fetch_or(&storm->dead, 1u << (storm->nodes - 1));
	for (uint32_t i = 0; i < storm->nodes; i++)
		ring(i);
}

static void direct(struct churn *churn, pid_t *victim)
{
	uint64_t seed = mix(storm->seed, 7);
	static const uint32_t rates[] = {0, 2, 20, 100};
	uint32_t faults = rates[test_rand(&seed) % ARRAY_SIZE(rates)] / 2;
	uint32_t rounds = rates[test_rand(&seed) % ARRAY_SIZE(rates)];
	eventfd_t rung;

	if (test_rand(&seed) % 2)
		HCA(softhca_fault_add)("action=hold_receive opcode=send_imm count=0");
	while (!all_done()) {
		struct pollfd p = {.fd = storm->bell[NODES], .events = POLLIN};

		if (faults && test_rand(&seed) % 4 == 0) {
			faults--;
			add_fault(&seed);
		}
		if (rounds) {
			rounds--;
			churn_round(churn);
		}
		if (poll(&p, 1, rounds ? 0 : 5))
			eventfd_read(storm->bell[NODES], &rung);
		see_death(victim);
	}
	while (rounds--)
		churn_round(churn);
}

/* Posts another message, over new queue pairs if an earlier fault has stopped the present ones. */
static void send_again(struct churn *churn, struct churn_pair *pair)
{
	churn_poll(churn);
	if (pair->qp[0] && (mlx5dvl_qp_status(pair->qp[0]) || mlx5dvl_qp_status(pair->qp[1])))
		churn_destroy(churn, pair);
	if (!pair->qp[0])
		churn_make(churn, pair);
	churn_send(churn, pair, 1);
}

/*
 * Makes the device fail. Some nodes are woken before the failure, others sleep until the device
 * reports it. If another fault hits the message that should trigger the failure, another message
 * follows.
 */
static void fail_device(struct churn *churn)
{
	uint64_t seed = mix(storm->seed, 8);
	struct pollfd p = {.fd = mlx5dvl_ctx_fd(churn->h.ctx), .events = POLLIN};
	struct churn_pair *pair = &churn->pair[0];

	churn_read_events(churn);
	if (pair->qp[0]) /* a half message would hold up the next one */
		churn_destroy(churn, pair);
	atomic_store(&storm->phase, FATAL);
	for (uint32_t i = 0; i < storm->nodes; i++)
		if (test_rand(&seed) % 2)
			ring(i);
	hca_fault("action=device_fatal");
	do
		send_again(churn, pair);
	while (!poll(&p, 1, 100));
	if (test_rand(&seed) % 2)
		churn_destroy(churn, pair);
	while (!churn->fatal) {
		if (poll(&p, 1, 100))
			churn_read_events(churn);
		else
			send_again(churn, pair);
	}
}

/* ---- a schedule ------------------------------------------------------------------- */

static void plan(uint64_t seed)
{
	static const uint32_t rings[] = {4096, 4096, 8192, 65536};
	struct copyrpc_ctx_attr *a = &storm->attr;
	pthread_mutexattr_t attr;

	memset(storm, 0, sizeof(*storm));
	storm->seed = seed;
	storm->nodes = 2 + (uint32_t)(test_rand(&seed) % 2);
	storm->victim = test_rand(&seed) % 4 == 0;
	storm->nodes += storm->victim;
	storm->links = 1 + (uint32_t)(test_rand(&seed) % LINKS);
	storm->steps = 1000 / SCALE;
	storm->fatal = test_rand(&seed) % 3 == 0;
	a->ring_size = rings[test_rand(&seed) % ARRAY_SIZE(rings)];
	a->srq_depth = 8u << test_rand(&seed) % 6;
	a->cq_depth = a->srq_depth > 64 ? a->srq_depth : 64;
	a->sq_depth = 16u << test_rand(&seed) % 4;
	a->max_endpoints = storm->nodes * storm->links + (uint32_t)(test_rand(&seed) % 2);
	a->max_pending = test_rand(&seed) % 2 ? 0 : 1 + (uint32_t)(test_rand(&seed) % 16);
	a->nested = test_rand(&seed) % 3 == 0;
	a->path = &storm->path;
	a->probe_ms = 300; /* to detect messages that the HCA holds for ever */
	storm->path.timeout = 10 + (uint8_t)(test_rand(&seed) % 4);
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&storm->lock, &attr);
	for (int i = 0; i <= NODES; i++) {
		storm->bell[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		CHECK(storm->bell[i] >= 0);
	}
}

/* The victim is killed by the HCA in the middle of a message, or between two steps. */
static void run_victim(void)
{
	struct node *n = new_node(storm->nodes - 1);
	uint32_t left = 1 + draw(n, storm->steps);
	char rule[128];

	alarm(HANG_S);
	open_node(n);
	snprintf(rule, sizeof(rule), "action=kill pid=%d opcode=write_imm bytes=40 nth=%u",
		getpid(), 1 + draw(n, 200));
	if (draw(n, 2))
		HCA(softhca_fault_add)(rule);
	n->steps = UINT32_MAX;
	while (left--)
		work(n);
	raise(SIGKILL);
}

static pid_t start_victim(void)
{
	pid_t pid = storm->victim ? test_fork() : 0;

	if (storm->victim && !pid)
		run_victim();
	return pid;
}

static void open_and_close(void)
{
	AT_END(end_ctx) struct copyrpc_ctx *ctx;

	CHECK_EQ(copyrpc_ctx_create(&storm->attr, &ctx), 0);
}

static void check_qps(void)
{
	struct softhca_fabric_info i;

	do {
		CHECK_EQ(HCA(softhca_fabric_info)(&i), 0);
		sched_yield();
	} while (i.qps);
}

static void run_schedule(uint64_t seed)
{
	struct node *node[NODES];
	struct churn churn;
	pid_t victim;
	long maps, mrs;
	int fds;

	alarm(HANG_S);
	plan(seed);
	victim = start_victim();
	open_and_close();
	fds = fdtest_open();
	maps = mapped;
	mrs = regions;
	churn_open(&churn, mix(seed, 9));
	for (uint32_t i = 0; i < storm->nodes - storm->victim; i++) {
		node[i] = new_node(i);
		CHECK_EQ(pthread_create(&node[i]->thread, NULL, run_node, node[i]), 0);
	}
	/* A context cannot be created while the link is down. */
	while (atomic_load(&storm->opened) < storm->nodes)
		sched_yield();
	direct(&churn, &victim);
	end_faults();
	if (storm->fatal)
		fail_device(&churn);
	atomic_store(&storm->phase, END);
	for (uint32_t i = 0; i < storm->nodes; i++)
		ring(i);
	for (uint32_t i = 0; i < storm->nodes - storm->victim; i++) {
		CHECK_EQ(pthread_join(node[i]->thread, NULL), 0);
		free(node[i]);
	}
	churn_close(&churn, !storm->fatal);
	CHECK_EQ(mapped, maps);
	CHECK_EQ(regions, mrs);
	CHECK_EQ(fdtest_open(), fds);
	if (!storm->victim) /* the victim's QPs stay until a message detects that it is dead */
		check_qps();
}

static bool schedule_passes(uint64_t seed)
{
	pid_t child = test_fork();
	int status;

	if (!child) {
		run_schedule(seed);
		exit(0);
	}
	status = test_reap(child);
	if (status > 128)
		fprintf(stderr, "signal %d%s\n", status - 128,
			status == 128 + SIGALRM ? ": it hangs" : "");
	return !status;
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 0;
	unsigned long count = argc > 2 ? strtoul(argv[2], NULL, 0) : 1;

	if (!seed)
		seed = test_seed();
	storm = mmap(NULL, sizeof(*storm), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		0);
	CHECK(storm != MAP_FAILED);
	for (; count; count--, seed++) {
		if (schedule_passes(seed))
			continue;
		/* The link may be down now, so the next schedules would fail, too. */
		fprintf(stderr, "seed 0x%" PRIx64 " fails; again: %s 0x%" PRIx64 "\n", seed,
			argv[0], seed);
		return 1;
	}
	return 0;
}
