/* SPDX-License-Identifier: MIT */
/*
 * Processes that are stopped and continued at random, several at a time, while all of them send
 * messages. No message of the process that is never stopped may fail. The others find that their
 * messages are complete, or that their QPs have failed; then they make new QPs.
 *
 * test-stop-random [SEED [STOPS]]
 */
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"
#include "softhca.h"

#define WORKERS 3
#define LONGEST (32 * 1024u)

/* Shared by the tester and a worker. */
static struct shared {
	/*
	 * Odd: the worker wants to make or destroy objects, and may not be stopped then. Each
	 * request has a new number, so that a late agreement is not mistaken for the next one.
	 */
	uint32_t asks;
	uint32_t may; /* the number to which the tester has agreed */
	uint32_t messages, failures;
} * shared; /* of each worker */
static uint32_t *end;
static unsigned seed; /* of each process, its own */
static uint32_t stops;

struct pair {
	struct rig from, to;
};

static enum ibv_wc_status message(struct pair *p, uint32_t n)
{
	uint32_t len = 1 + (uint32_t)rand_r(&seed) % (n % 16 ? 64 : LONGEST);
	enum ibv_wc_status status;

	rig_fill(p->from.buf, len, n);
	rig_write(&p->from, &p->to, len);
	status = rig_wait(p->from.scq).status;
	if (status == IBV_WC_SUCCESS)
		CHECK(rig_same(p->to.buf, len, n));
	return status;
}

/* Waits until the worker may make and destroy objects. */
static void ask(struct shared *s)
{
	test_store(&s->asks, s->asks + 1);
	while (test_load(&s->may) != s->asks)
		sched_yield();
}

static void asked(struct shared *s)
{
	test_store(&s->asks, s->asks + 1);
}

static void work(struct shared *s)
{
	struct pair p;

	ask(s);
	while (!test_load(end)) {
		rig_open_pair(&p.from, NULL, &p.to, NULL);
		asked(s);
		while (!test_load(end) && message(&p, s->messages) == IBV_WC_SUCCESS)
			s->messages++;
		s->failures += !test_load(end);
		ask(s);
		rig_close_pair(&p.from, &p.to);
	}
	exit(0);
}

static pid_t start(uint32_t i)
{
	pid_t pid = test_fork();

	if (!pid) {
		seed += i;
		work(&shared[i]);
	}
	return pid;
}

struct worker {
	pid_t pid;
	bool stopped;
};

/*
 * Continues a stopped worker. Otherwise agrees to the worker's request, or stops the worker if it
 * has none. Returns true if it has stopped the worker.
 */
static bool turn(struct worker *w, struct shared *s)
{
	uint32_t asks = test_load(&s->asks);

	if (w->stopped) {
		CHECK(!kill(w->pid, SIGCONT));
		w->stopped = false;
		return false;
	}
	if (asks % 2) {
		test_store(&s->may, asks);
		return false;
	}
	CHECK(!kill(w->pid, SIGSTOP));
	test_stopped(w->pid);
	w->stopped = true;
	return true;
}

/* Continues all workers and waits for their ends. */
static void finish(struct worker *workers)
{
	int status;

	test_store(end, 1);
	for (uint32_t i = 0; i < WORKERS; i++)
		CHECK(!kill(workers[i].pid, SIGCONT));
	for (uint32_t i = 0; i < WORKERS; i++) {
		while (!waitpid(workers[i].pid, &status, WNOHANG)) {
			test_store(&shared[i].may, test_load(&shared[i].asks));
			sched_yield();
		}
		CHECK_EQ(status, 0);
	}
}

TEST(stopped_at_random)
{
	uint32_t failures = 0, messages = 0;
	struct worker workers[WORKERS] = {0};
	struct pair p;

	fprintf(stderr, "seed 0x%x\n", seed);
	shared = test_map((WORKERS + 1) * sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED);
	end = &shared[WORKERS].asks;
	for (uint32_t i = 0; i < WORKERS; i++)
		workers[i].pid = start(i);
	rig_open_pair(&p.from, NULL, &p.to, NULL);
	for (uint32_t n = 0, done = 0; done < stops; n++) {
		uint32_t i = (uint32_t)rand_r(&seed) % WORKERS;

		usleep((unsigned)rand_r(&seed) %
			1000); /* so that workers are at different points */
		done += turn(&workers[i], &shared[i]);
		for (int k = rand_r(&seed) % 8; k; k--)
			CHECK_EQ(message(&p, n), IBV_WC_SUCCESS);
	}
	finish(workers);
	CHECK_EQ(message(&p, 0), IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < WORKERS; i++) {
		failures += shared[i].failures;
		messages += shared[i].messages;
	}
	fprintf(stderr, "%u stops, taken over %u times, %u messages, %u failures\n", stops,
		rig_info().recoveries, messages, failures);
	CHECK(messages > 0);
	rig_close_pair(&p.from, &p.to);
}

int main(int argc, char **argv)
{
	test_fabric("stop-random");
	CHECK(!setenv("SOFTHCA_PATIENCE", "1", 1));
	seed = (unsigned)test_number(&argc, argv, (uint64_t)getpid());
	stops = (uint32_t)test_number(&argc, argv, 300);
	return test_main(argc, argv);
}
