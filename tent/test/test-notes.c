/* SPDX-License-Identifier: MIT */
/* Notices with bytes, and their order. */
#include "host.h"

#define LEN (64 * KIB)

/*
 * Makes the note of request number @i: @i and more bytes. Returns the length, which depends on @i.
 */
static size_t make_note(uint32_t i, uint8_t *note)
{
	size_t len = sizeof(i) + i % (TENT_NOTE_MAX - sizeof(i) + 1);

	memset(note, (int)i, len);
	memcpy(note, &i, sizeof(i));
	return len;
}

/* 'N' takes a notice. Returns the number of its request + 1, or 0: the notice is wrong. */
static uint16_t command(struct tent *t, char command)
{
	struct pollfd p = {.fd = tent_notice_fd(t), .events = POLLIN};
	uint8_t wanted[TENT_NOTE_MAX];
	struct tent_note note;
	uint32_t i;

	while (tent_note_take(t, &note, sizeof(note)) == -EAGAIN)
		CHECK(poll(&p, 1, 60000) == 1);
	memcpy(&i, note.bytes, sizeof(i));
	if (note.len != make_note(i, wanted) || memcmp(note.bytes, wanted, note.len) ||
		note.peer != 1 || note.notify != i % 3)
		return 0;
	return (uint16_t)(i + 1);
}

static struct tent_request noted(uint32_t i, uint8_t *note)
{
	struct tent_request r = duo_request(TENT_WRITE, i % 16 * 4096, 1 + i * 37 % 4096);

	r.note_len = make_note(i, note);
	r.note = note;
	r.notify = i % 3;
	return r;
}

/* Each request begins when the one before it has ended, so the notices have the same order. */
TEST(notices_have_an_order)
{
	uint8_t note[TENT_NOTE_MAX];

	duo_open(&(struct duo_attr){.len = LEN, .command = command});
	for (uint32_t i = 0; i < 300; i++) {
		struct tent_request r = noted(i, note);

		CHECK_EQ(duo_end(duo_submit(&r, 1)), 0);
		if (i % 100 == 99) {
			for (uint32_t k = i - 99; k <= i; k++)
				CHECK_EQ(duo_ask('N'), k + 1);
		}
	}
	CHECK_EQ(duo_ask('e'), 0); /* each came once */
}

/*
 * Requests under way at the same time: each notice comes once. The bytes are those at the time of
 * the submission.
 */
TEST(many_notes_at_once)
{
	static struct tent_request r[200];
	static uint8_t notes[200][TENT_NOTE_MAX];
	bool got[200] = {false};
	struct tent_batch *b;

	duo_open(&(struct duo_attr){.len = LEN, .command = command});
	for (uint32_t i = 0; i < 200; i++)
		r[i] = noted(i, notes[i]);
	b = duo_submit(r, 200);
	memset(notes, 0, sizeof(notes));
	for (uint32_t i = 0; i < 200; i++) {
		uint16_t n = duo_ask('N');

		CHECK(n && n <= 200 && !got[n - 1]);
		got[n - 1] = true;
	}
	CHECK_EQ(duo_end(b), 0);
	CHECK_EQ(duo_ask('e'), 0);
}

TEST(notes_have_a_length)
{
	uint8_t note[TENT_NOTE_MAX + 1] = {0};
	struct tent_request r;
	struct tent_batch *b;

	duo_open(&(struct duo_attr){.len = LEN, .command = command});
	r = duo_request(TENT_WRITE, 0, 1);
	r.note = note;
	r.note_len = TENT_NOTE_MAX + 1;
	CHECK_EQ(tent_submit(d.t, &r, 1, &b), -EINVAL);
	r.note = NULL;
	r.note_len = 1;
	CHECK_EQ(tent_submit(d.t, &r, 1, &b), -EINVAL);
	CHECK_EQ(duo_ask('e'), 0);
}

/* ---- simulated peers ---- */

static struct ctl_msg notice(uint64_t number, uint16_t value, uint8_t len)
{
	return (struct ctl_msg){.type = CTL_NOTICE,
		.mark = {.lap = number / NOTICE_SLOTS + 1,
			.slot = number % NOTICE_SLOTS,
			.value = value,
			.positions = 1,
			.len = len}};
}

/*
 * Sends a message, and waits until the engine has handled it. @confirmed: the number of notices
 * that the engine then confirms.
 */
static void send_and_wait(struct ctl *c, struct ctl_msg m, uint32_t confirmed)
{
	struct ctl_msg fence = {.type = CTL_FENCE};

	host_send(c, m);
	for (uint32_t i = 0; i < confirmed; i++)
		host_await(c, CTL_TAKEN);
	host_exchange(c, fence, CTL_FENCED);
}

static void next_is(uint16_t value)
{
	struct tent_note note;

	CHECK_EQ(tent_note_take(host, &note, sizeof(note)), 0);
	CHECK_EQ(note.notify, value);
}

/* A notice waits for those before it: until they come, or their requests have failed. */
TEST(a_notice_waits_for_those_before)
{
	struct tent_note note;
	struct ctl_msg m;
	GUEST c = {.fd = -1};

	if (!duo_shm_rails())
		return; /* on other rails, links carry the marks */
	host_begin();
	c = host_guest();
	send_and_wait(&c, notice(1, 11, 0), 0);
	send_and_wait(&c, notice(3, 13, 0), 0);
	CHECK_EQ(tent_note_take(host, &note, sizeof(note)), -EAGAIN);
	send_and_wait(&c, notice(0, 10, 0), 2);
	next_is(10);
	next_is(11);
	CHECK_EQ(tent_note_take(host, &note, sizeof(note)), -EAGAIN);
	m = notice(2, 12, 0);
	m.type = CTL_SKIP;
	send_and_wait(&c, m, 1);
	next_is(13);
	send_and_wait(&c, notice(2, 12, 0), 0); /* a mark of a request that has failed */
	send_and_wait(&c, notice(4 + NOTICE_SLOTS, 20, 0), 0);
	/* Notice 4 must have failed, because the message above uses its slot again. */
	send_and_wait(&c, notice(5, 15, 0), 1);
	next_is(15);
	CHECK_EQ(tent_note_take(host, &note, sizeof(note)), -EAGAIN);
	/* A high number takes no more time than a low one. */
	for (uint64_t i = 6; i < 6 + NOTICE_SLOTS; i++)
		send_and_wait(&c, notice(i + (1ull << 62), (uint16_t)i, 0),
			i == 19 ? 1 :
			i == 21 ? NOTICE_SLOTS :
				  0);
	next_is(20);
	for (uint16_t i = 6; i < 6 + NOTICE_SLOTS; i++)
		next_is(i);
	CHECK_EQ(tent_note_take(host, &note, sizeof(note)), -EAGAIN);
}

/* When a peer is gone, its complete notices do not wait for the missing ones any more. */
TEST(who_dies_has_no_gaps)
{
	struct pollfd p;
	GUEST c = {.fd = -1};

	if (!duo_shm_rails())
		return;
	host_begin();
	p = (struct pollfd){.fd = tent_notice_fd(host), .events = POLLIN};
	c = host_guest();
	send_and_wait(&c, notice(5, 15, 0), 0);
	send_and_wait(&c, notice(3, 13, 0), 0);
	ctl_close(&c);
	CHECK_EQ(poll(&p, 1, ANSWER_MS), 1);
	next_is(13);
	next_is(15);
}

/* The number of bytes of a notice is limited. Bytes that are sent again are ignored. */
TEST(notes_are_checked)
{
	struct tent_note note;
	struct ctl_msg m = notice(0, 10, NOTICE_BYTES);
	GUEST c = {.fd = -1};

	host_begin();
	c = host_guest();
	memset(m.note, 'A', sizeof(m.note));
	m.mark.len = NOTICE_BYTES + 1;
	send_and_wait(&c, m, 0);
	CHECK_EQ(tent_note_take(host, &note, sizeof(note)), -EAGAIN);
	m.mark.len = NOTICE_BYTES;
	send_and_wait(&c, m, duo_shm_rails() != 0);
	memset(m.note, 'B', sizeof(m.note));
	send_and_wait(&c, m, 0);
	if (!duo_shm_rails()) {
		CHECK_EQ(tent_note_take(host, &note, sizeof(note)), -EAGAIN); /* without its mark */
		return;
	}
	CHECK_EQ(tent_note_take(host, &note, sizeof(note)), 0);
	CHECK_EQ(note.len, NOTICE_BYTES);
	test_filled(note.bytes, NOTICE_BYTES, 'A');
	CHECK_EQ(tent_note_take(host, &note, sizeof(note)), -EAGAIN);
}

int main(int argc, char **argv)
{
	return test_main(argc, argv);
}
