/* SPDX-License-Identifier: MIT */
#include "gather.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_MAX 48

/* Of a run; after the last one comes what the daemons did. */
static void run_key(char key[KEY_MAX], uint32_t run)
{
	snprintf(key, KEY_MAX, "benchkv.result.%u", run);
}

static int tell_result(struct node *n, uint32_t run, const struct result *r)
{
	char key[KEY_MAX];
	void *data;
	size_t len;
	int err = result_encode(r, &data, &len);

	if (err)
		return err;
	run_key(key, run);
	err = launch_put(n->launch, key, data, len);
	free(data);
	return err;
}

int gather_tell(struct node *n, const struct result *runs, const struct result *daemons)
{
	int err = 0;

	for (uint32_t run = 0; !err && run < n->o->runs; run++)
		err = tell_result(n, run, &runs[run]);
	return err ? err : tell_result(n, n->o->runs, daemons);
}

static int hear_result(struct node *n, uint32_t rank, uint32_t run, struct result *r)
{
	char key[KEY_MAX];
	void *data;
	size_t len;
	int err;

	run_key(key, run);
	err = launch_get(n->launch, rank, key, n->o->timeout_ns, &data, &len);
	if (err)
		return err;
	err = result_decode(data, len, r);
	free(data);
	return err;
}

/* One rank: each run, then its daemons. */
static int hear_rank(struct node *n, uint32_t rank, struct result *runs, struct result *sum,
	struct result *daemons)
{
	struct result r;

	for (uint32_t run = 0; run <= n->o->runs; run++) {
		int err = hear_result(n, rank, run, &r);

		if (err)
			return err;
		result_add(run < n->o->runs ? &runs[run] : daemons, &r);
		if (run < n->o->runs)
			result_sequel(sum, &r);
	}
	memcpy(sum->served, r.served, sizeof(r.served));
	return 0;
}

int gather_hear(struct node *n, struct result *runs, struct result *ranks, struct result *daemons)
{
	int err = 0;

	result_sequel_all(&ranks[0], runs, n->o->runs);
	memcpy(ranks[0].served, daemons->served, sizeof(daemons->served));
	for (uint32_t rank = 1; !err && rank < n->ranks; rank++)
		err = hear_rank(n, rank, runs, &ranks[rank], daemons);
	return err;
}
