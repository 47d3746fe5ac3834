/* SPDX-License-Identifier: MIT */
/*
 * A counter service over several threads: each thread owns the names that hash to it, and
 * every thread counts words of all names by calling the owner.
 *
 *	sharded-counter [THREADS [WORDS]]
 *
 * Prints the total of each thread. The exit status is 0 if no word was lost.
 */
#include <flux.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define NAMES 1024

struct count {
	uint32_t name;
	uint32_t by;
};

struct worker {
	struct flux_node *node;
	uint32_t threads;
	uint32_t words; /* number of words to count */
	uint32_t sent;
	uint32_t acknowledged;
	uint64_t total[NAMES]; /* counts of the names that this thread owns */
};

static uint32_t finished; /* threads whose words have all been counted */

/* Called when the owner of a name has counted one of this thread's words. */
static void on_response(void *arg, uint64_t token, const void *payload, uint32_t len)
{
	struct worker *w = arg;

	if (!payload) {
		fprintf(stderr, "the owner of name %u has left\n", (unsigned)token);
		exit(1);
	}
	w->acknowledged++;
}

/* Called when a thread, possibly this one, wants a word counted. */
static void count(void *arg, const struct flux_req *req, const void *payload)
{
	const struct count *c = payload;
	struct worker *w = arg;

	w->total[c->name] += c->by;
	flux_reply(w->node, req->token, c, sizeof(*c));
}

/*
 * Calls the owner to count the next word. Returns a value other than 0 if the call must be retried
 * later.
 */
static int count_next(struct worker *w)
{
	struct count c = {.name = w->sent * 2654435761u % NAMES, .by = 1};
	int r = flux_call(w->node, c.name % w->threads, &c, sizeof(c), c.name);

	w->sent += r == 0;
	return r;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	int done = 0;

	/* All threads continue to serve until no thread has a word left. */
	while (__atomic_load_n(&finished, __ATOMIC_ACQUIRE) < w->threads) {
		while (w->sent < w->words && !count_next(w))
			;
		flux_serve(w->node, count, w, 256);
		if (!flux_poll(w->node, on_response, w))
			flux_wait(w->node, 1000000);
		if (!done && w->acknowledged == w->words) {
			done = 1;
			__atomic_fetch_add(&finished, 1, __ATOMIC_ACQ_REL);
		}
	}
	flux_leave(w->node);
	return NULL;
}

int main(int argc, char **argv)
{
	uint32_t threads = argc > 1 ? (uint32_t)atoi(argv[1]) : 3;
	uint32_t words = argc > 2 ? (uint32_t)atoi(argv[2]) : 20000;
	struct flux_attr attr = {.nodes = threads, .payload_size = sizeof(struct count)};
	struct worker *w = calloc(threads, sizeof(*w));
	pthread_t *t = calloc(threads, sizeof(*t));
	uint64_t sum = 0;
	struct flux *f;

	if (!w || !t || flux_create(&attr, &f) < 0) {
		fprintf(stderr, "cannot make a network of %u nodes; give 1 to %u\n", threads,
			FLUX_MAX_NODES);
		return 2;
	}
	for (uint32_t i = 0; i < threads; i++) {
		w[i].node = flux_get_node(f, i);
		w[i].threads = threads;
		w[i].words = words;
		if (pthread_create(&t[i], NULL, work, &w[i]))
			return 1;
	}
	for (uint32_t i = 0; i < threads; i++) {
		uint64_t total = 0;

		pthread_join(t[i], NULL);
		for (uint32_t k = 0; k < NAMES; k++)
			total += w[i].total[k];
		printf("thread %u counted %llu words\n", i, (unsigned long long)total);
		sum += total;
	}
	flux_destroy(f);
	free(w);
	free(t);
	return sum != (uint64_t)threads * words;
}
