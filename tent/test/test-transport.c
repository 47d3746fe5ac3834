/* SPDX-License-Identifier: MIT */
/* An engine with a new transport (stub-transport.c), which needs only one line in a table. */
#include <errno.h>

#include "support/test.h"
#include "base/clock.h"
#include "engine.h"

#define LEN (300u << 10)

extern const struct transport stub_transport, shm_transport, rdma_transport;

/* Replaces the library's table. */
const struct transport *const transports[] = {
	&stub_transport,
	&shm_transport,
	&rdma_transport,
	NULL,
};

static uint8_t here[LEN], there[LEN];

static struct tent *engine(const struct tent_attr *attr, void *memory)
{
	struct tent_why why = {""};
	struct tent *t;

	CHECK_EQ(tent_create(attr, &why, &t), 0);
	CHECK_EQ(tent_register(t, memory, LEN, NULL, &why), 0);
	return t;
}

static struct tent_segment *import(struct tent *t, struct tent *target)
{
	AT_END(end_free) char *text = NULL;
	struct tent_why why = {""};
	struct tent_segment *s;

	CHECK_EQ(tent_export(target, &text), 0);
	CHECK(strstr(text, "\"kind\":\"stub\""));
	CHECK_EQ(tent_import(t, text, &why, &s), 0);
	return s;
}

static void move(struct tent *t, struct tent_segment *s, enum tent_op op, uint16_t notify)
{
	const struct tent_request r = {.op = op,
		.local = here,
		.segment = s,
		.remote = (uintptr_t)there,
		.len = LEN,
		.notify = notify};
	struct tent_batch *b;

	CHECK_EQ(tent_submit(t, &r, 1, &b), 0);
	CHECK_EQ(tent_wait(b, 20000), 0);
	CHECK_EQ(tent_batch_free(b), 0);
	CHECK(!memcmp(here, there, LEN));
}

TEST(bytes_move_over_it)
{
	struct tent *target = engine(NULL, there), *t = engine(NULL, here);
	struct tent_segment *s = import(t, target);
	struct tent_rail_stats st;
	uint16_t value = 0;

	memset(here, 'w', LEN);
	move(t, s, TENT_WRITE, 7);
	CHECK_EQ(tent_notice(target, &value), 0);
	CHECK_EQ(value, 7);
	memset(there, 'r', LEN);
	move(t, s, TENT_READ, 0);
	for (uint32_t i = 0; i < 2; i++) {
		CHECK_EQ(tent_rail_get_stats(s, i, &st, sizeof(st)), 0);
		CHECK(!strncmp(st.name, "stub", 4) && st.bytes && !st.exclusions);
	}
	CHECK_EQ(tent_rail_get_stats(s, 2, &st, sizeof(st)), -ENOENT);
	CHECK_EQ(tent_unregister(target, there), 0);
	tent_destroy(t);
	tent_destroy(target);
}

/* The target answers a request for its end of a link a second time. */
TEST(an_end_is_connected_once)
{
	struct tent *target = engine(NULL, there), *t = engine(NULL, here);
	struct tent_segment *s = import(t, target);
	struct ctl_msg m = {.type = CTL_CONNECTED};

	pthread_mutex_lock(&t->lock);
	m.epoch = sched_rail_epoch(s->sched, 0);
	CHECK_EQ(s->pairs[0].link->posted, 0);
	CHECK_EQ(move_message(s, &m, clock_ns()), 0);
	CHECK_EQ(s->pairs[0].link->posted, 0); /* no second probe */
	CHECK_EQ(sched_rail_state(s->sched, 0), RAIL_UP);
	pthread_mutex_unlock(&t->lock);
	tent_destroy(t);
	tent_destroy(target);
}
