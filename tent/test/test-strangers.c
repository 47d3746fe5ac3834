/* SPDX-License-Identifier: MIT */
/* Valid and invalid messages on a control connection. The engine must survive all of them. */
#include "support/stranger.h"
#include "blame.h"
#include "desc.h"
#include "duo.h"
#include "notice.h"

#define ANSWER_MS 20000
#define CONN_LINKS (TENT_MAX_RAILS + BLAME_ENDS)

static struct tent *t;
static struct desc desc;

static struct ctl meet(void)
{
	struct tent_why why;
	struct ctl c;

	CHECK_EQ(ctl_connect(desc.host, desc.port, ANSWER_MS, &c, &why), 0);
	return c;
}

static struct ctl_msg hello(uint32_t pairs)
{
	struct ctl_msg m = {.type = CTL_HELLO, .rail = pairs};

	memcpy(m.bytes, desc.key, sizeof(m.bytes));
	return m;
}

static struct ctl meet_well(uint32_t pairs)
{
	struct ctl_msg m = hello(pairs), answer;
	struct ctl c = meet();

	CHECK_EQ(ctl_send(&c, &m), 0);
	CHECK_EQ(ctl_await(&c, ANSWER_MS, &answer), 0);
	CHECK_EQ(answer.type, CTL_WELCOME);
	CHECK_EQ(answer.status, 0);
	return c;
}

/* The connection ends without an answer. */
static void is_sent_away(struct ctl c, struct ctl_msg m)
{
	struct ctl_msg answer;

	CHECK_EQ(ctl_send(&c, &m), 0);
	CHECK_EQ(ctl_await(&c, ANSWER_MS, &answer), -ECONNRESET);
	ctl_close(&c);
	c = meet_well(1); /* the engine is well */
	ctl_close(&c);
}

static void is_not_welcome(struct ctl_msg m)
{
	struct ctl_msg answer;
	struct ctl c = meet();

	CHECK_EQ(ctl_send(&c, &m), 0);
	CHECK_EQ(ctl_await(&c, ANSWER_MS, &answer), 0);
	CHECK_EQ(answer.type, CTL_WELCOME);
	CHECK_EQ(answer.status, EACCES);
	CHECK_EQ(ctl_await(&c, ANSWER_MS, &answer), -ECONNRESET);
	ctl_close(&c);
}

static void who_does_not_know_the_key(void)
{
	struct ctl_msg m = hello(1);

	m.bytes[15] ^= 1;
	is_not_welcome(m);
	is_not_welcome(hello(0));
	is_not_welcome(hello(TENT_MAX_RAILS + 1));
	is_sent_away(meet(), (struct ctl_msg){.type = CTL_CONNECT});
	is_sent_away(meet(), (struct ctl_msg){.type = CTL_FENCE});
	is_sent_away(meet(), (struct ctl_msg){.type = CTL_FENCE, .pair = TENT_MAX_RAILS});
}

static void who_speaks_another_language(void)
{
	struct ctl_msg m = hello(1), answer;
	struct ctl c = meet();

	m.magic = CTL_MAGIC + 1; /* ctl_send() would set it */
	CHECK_EQ(write(c.fd, &m, sizeof(m)), sizeof(m));
	CHECK_EQ(ctl_await(&c, ANSWER_MS, &answer), -ECONNRESET);
	ctl_close(&c);
	c = meet();
	CHECK_EQ(write(c.fd, &m, 10), 10);
	ctl_close(&c);
	is_sent_away(meet_well(1), (struct ctl_msg){.type = 99});
	is_sent_away(meet_well(1), hello(1));
	is_sent_away(meet_well(1), (struct ctl_msg){.type = CTL_WELCOME});
}

static void who_names_pairs_that_are_not(void)
{
	static const uint32_t pairs[] = {1, TENT_MAX_RAILS - 1, CONN_LINKS, UINT32_MAX};

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		is_sent_away(meet_well(1), (struct ctl_msg){.type = CTL_CONNECT, .pair = pairs[i]});
		is_sent_away(meet_well(1), (struct ctl_msg){.type = CTL_FENCE, .pair = pairs[i]});
	}
	is_sent_away(meet_well(1), (struct ctl_msg){.type = CTL_CONNECT, .rail = desc.n_rails});
	is_sent_away(meet_well(1), (struct ctl_msg){.type = CTL_CONNECT, .rail = UINT32_MAX});
}

/* A fence of a pair without a link is confirmed too. */
static void a_fence_of_nothing(void)
{
	struct ctl_msg m = {.type = CTL_FENCE, .pair = CONN_LINKS - 1, .epoch = 7}, answer;
	struct ctl c = meet_well(1);

	CHECK_EQ(ctl_send(&c, &m), 0);
	CHECK_EQ(ctl_await(&c, ANSWER_MS, &answer), 0);
	CHECK_EQ(answer.type, CTL_FENCED);
	CHECK_EQ(answer.epoch, 7);
	ctl_close(&c);
}

/* Over adapters they come through the adapter, which bounds how many there are. */
static void marks_by_message(void)
{
	const struct notice_mark mark = {.lap = 1, .value = 5, .positions = 1};
	struct ctl_msg m = {.type = CTL_NOTICE}, answer;
	uint16_t value = 0;
	struct ctl c;

	ctl_put_mark(&m, &mark);
	if (!duo_shm_rails()) {
		is_sent_away(meet_well(1), m);
		CHECK_EQ(tent_notice(t, &value), -EAGAIN);
		return;
	}
	c = meet_well(1);
	CHECK_EQ(ctl_send(&c, &m), 0);
	CHECK_EQ(ctl_await(&c, ANSWER_MS, &answer), 0);
	CHECK_EQ(answer.type, CTL_TAKEN);
	CHECK(!memcmp(answer.bytes, &mark, sizeof(mark)));
	CHECK_EQ(tent_notice(t, &value), 0);
	CHECK_EQ(value, 5);
	ctl_close(&c);
}

/* More strangers than MAX_STRANGERS stay connected; a peer is served nevertheless. */
static void who_says_nothing(void)
{
	struct ctl_msg m = hello(1);

	m.magic = CTL_MAGIC;
	for (unsigned kind = 0; kind < STRANGERS; kind++) {
		struct strangers s = strangers_come(kind, desc.port, &m, sizeof(m));
		struct ctl_msg fence = {.type = CTL_FENCE, .epoch = kind}, answer;
		struct ctl c = meet_well(1);

		strangers_drip(&s);
		CHECK_EQ(ctl_send(&c, &fence), 0);
		CHECK_EQ(ctl_await(&c, ANSWER_MS, &answer), 0);
		CHECK_EQ(answer.type, CTL_FENCED);
		CHECK_EQ(answer.epoch, kind);
		ctl_close(&c);
		strangers_leave(&s);
	}
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(who_does_not_know_the_key),
		TEST(who_speaks_another_language),
		TEST(who_names_pairs_that_are_not),
		TEST(a_fence_of_nothing),
		TEST(marks_by_message),
		TEST(who_says_nothing),
	};
	struct tent_why why;
	char *text;
	int failed;

	t = duo_create(NULL, 0, 0);
	CHECK_EQ(tent_export(t, &text), 0);
	CHECK_EQ(desc_read(text, &desc, &why), 0);
	free(text);
	failed = test_main(tests, ARRAY_SIZE(tests), argc, argv);
	desc_fini(&desc);
	tent_destroy(t);
	return failed;
}
