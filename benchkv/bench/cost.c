/* SPDX-License-Identifier: MIT */
/*
 * Two clients and a store in one thread, to measure the cost of the clients' checks:
 *
 *	cost OPS [ZIPF [INTERVAL]]
 *
 * With INTERVAL, the clients count the latencies of each INTERVAL replies separately. The same
 * program is also linked without the checks of values (unchecked.c).
 */
#include <stdlib.h>

#include "check.h"
#include "series.h"
#include "store.h"

#define DEPTH 8
#define CLIENTS 2
#define KEYS (1u << 20)

static const struct placement place = {.ranks = 1, .shards = 1};

struct side {
	struct stream stream;
	struct checker check;
	struct series_recorder series;
	uint64_t next;
};

/* Makes DEPTH requests, serves all of them, and checks all replies. */
static void burst(struct side *s, struct store *store)
{
	struct kv_req req[DEPTH];
	struct kv_resp resp[DEPTH];
	uint64_t start;

	for (uint32_t i = 0; i < DEPTH; i++) {
		check_open(&s->check, s->next, 0, &req[i]);
		check_sent(&s->check, &req[i]);
		s->next++;
	}
	for (uint32_t i = 0; i < DEPTH; i++)
		resp[i] = store_serve(store, &req[i]);
	for (uint32_t i = 0; i < DEPTH; i++) {
		check_reply(&s->check, req[i].seq, &resp[i], &start);
		if (s->series.all)
			series_record(&s->series, s->next, resp[i].value & 0xfffff);
	}
}

static int side_init(struct side *s, const struct source *source, struct board *board,
	uint32_t client)
{
	const struct history attr = {.source = source,
		.board = board,
		.client = client,
		.writers = CLIENTS,
		.preloaded = true};

	stream_init(&s->stream, source, &place, client);
	return check_init(&s->check, &attr, &s->stream, 0, DEPTH);
}

int main(int argc, char **argv)
{
	uint64_t ops = argc > 1 ? strtoull(argv[1], NULL, 0) : 0, wrong = 0;
	uint64_t interval = argc > 3 ? strtoull(argv[3], NULL, 0) : 0;
	const struct workload load = {.key_range = KEYS,
		.read_ratio = 0.5,
		.zipf_theta = argc > 2 ? strtod(argv[2], NULL) : 0,
		.seed = 1};
	struct side sides[CLIENTS] = {{.next = 0}};
	struct source source;
	struct store store;
	struct board board;

	source_init(&source, &load);
	if (store_init(&store, &place, 0, 0, KEYS) || store_preload(&store, KEYS) ||
		board_init(&board, history_keys(KEYS)))
		return 1;
	for (uint32_t i = 0; i < CLIENTS; i++) {
		if (side_init(&sides[i], &source, &board, i) ||
			(interval && series_recorder_init(&sides[i].series, interval, SERIES_MAX)))
			return 1;
		series_restart(&sides[i].series, 0);
	}
	for (uint64_t n = 0; n < ops; n += CLIENTS * DEPTH) {
		for (uint32_t i = 0; i < CLIENTS; i++)
			burst(&sides[i], &store);
	}
	for (uint32_t i = 0; i < CLIENTS; i++) {
		wrong += check_errors(&sides[i].check.n);
		check_fini(&sides[i].check);
		series_recorder_fini(&sides[i].series);
	}
	board_fini(&board);
	store_fini(&store);
	return wrong != 0;
}
