/* SPDX-License-Identifier: MIT */
/* cellring on one thread: plans, laps, bursts of every length, and arbitrary bytes as input. */
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "support/test.h"
#include "cellring.h"

#define RING_MAX (1u << 17) /* enough for 65 cells of 1 KiB */

/* A ring with its producer and its consumer, and guard lines before and after it. */
struct rig {
	struct cellring_plan plan;
	struct cellring_cursor out, in;
	struct cellring_burst burst;
	_Alignas(64) unsigned char memory[RING_MAX + 128];
};

static struct rig rig;

static void rig_init(uint32_t payload, uint32_t in_flight, uint32_t messages)
{
	rig.plan = cellring_plan_for(payload, in_flight, messages);
	CHECK(cellring_bytes(&rig.plan) <= RING_MAX);
	memset(rig.memory, 0xee, sizeof(rig.memory));
	memset(rig.memory + 64, 0, cellring_bytes(&rig.plan));
	cellring_cursor_init(&rig.out, rig.memory + 64, &rig.plan);
	cellring_cursor_init(&rig.in, rig.memory + 64, &rig.plan);
	cellring_burst_close(&rig.burst);
}

/* Checks that the guard lines are intact and that the consumer is within the ring. */
static void rig_check(void)
{
	const unsigned char *end = rig.memory + 64 + cellring_bytes(&rig.plan);

	for (int i = 0; i < 64; i++)
		CHECK(rig.memory[i] == 0xee && end[i] == 0xee);
	CHECK(rig.in.slot >= rig.in.begin && rig.in.slot < rig.in.end);
	CHECK(rig.in.ready >= rig.in.slot && rig.in.ready <= rig.in.end);
}

static void fill(unsigned char *data, uint32_t len, uint32_t id)
{
	for (uint32_t i = 0; i < len; i++)
		data[i] = (unsigned char)(id * 7 + i);
}

/* Checks and consumes the next message. */
static void expect(uint32_t id, uint32_t payload)
{
	unsigned char data[4096];

	if (rig.in.slot == rig.in.ready) {
		uint64_t head = cellring_look(&rig.in);

		CHECK(head);
		CHECK(cellring_arrive(&rig.in, head));
	}
	CHECK_EQ(CELLRING_ID(cellring_head(rig.in.slot)), id);
	CHECK_EQ(CELLRING_LENGTH(cellring_head(rig.in.slot)), payload);
	fill(data, payload, id);
	CHECK_EQ(memcmp(cellring_payload(rig.in.slot), data, payload), 0);
	cellring_next(&rig.in);
}

/* ---- plans ---- */

TEST(limits)
{
	static const struct {
		uint32_t in_flight, limit;
	} t[] = {{1, 1}, {7, 1}, {8, 2}, {11, 2}, {12, 3}, {31, 7}, {32, 8}, {1u << 23, 8}};

	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		CHECK_EQ(cellring_limit(t[i].in_flight), t[i].limit);
}

/* Calls made in succession are published together, except with few in flight. */
TEST(call_limits)
{
	static const struct {
		uint32_t in_flight, in_a_row, limit;
	} t[] = {{7, 7, 1}, {8, 0, 2}, {8, 2, 2}, {8, 3, 3}, {8, 8, 8}, {16, 16, 8}, {99, 1, 8}};

	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		CHECK_EQ(cellring_call_limit(t[i].in_flight, t[i].in_a_row), t[i].limit);
}

TEST(plans_have_room)
{
	uint64_t seed = test_seed();

	for (int i = 0; i < 100000; i++) {
		uint32_t payload = (uint32_t)(test_rand(&seed) % 300);
		uint32_t in_flight = 1 + (uint32_t)(test_rand(&seed) % 3000);
		uint32_t messages = (uint32_t)(test_rand(&seed) % 20000);
		struct cellring_plan p = cellring_plan_for(payload, in_flight, messages);

		CHECK(p.stride >= 8 + payload && p.stride < 16 + payload && p.stride % 8 == 0);
		CHECK(p.cell % 64 == 0 && p.most * p.stride <= p.cell);
		CHECK(p.cell < p.most * p.stride + 64);
		CHECK(p.cells > in_flight);
		CHECK((uint64_t)p.cells * p.most + p.most > messages);
		CHECK(p.most >= 1 && p.most <= CELLRING_BURST);
		CHECK(p.most == 1 || p.stride <= CELLRING_STAGED);
	}
	CHECK_EQ(cellring_plan_for(120, 32, 0).most, 8); /* the longest message in a burst */
	CHECK_EQ(cellring_plan_for(121, 32, 0).most, 1);
	CHECK_EQ(cellring_plan_for(120, 8, 0).most, 8);
	CHECK_EQ(cellring_plan_for(120, 7, 0).most, 1);
}

/* ---- messages ---- */

TEST(head_has_its_fields)
{
	uint64_t head = CELLRING_HEAD(0x5a5, 7, 5) | CELLRING_MESSAGE(0xfedcba, 0x123456);

	CHECK_EQ(head, 0x91a2b5a575fedcbaull);
	CHECK_EQ(CELLRING_LAP(head), 0x5a5);
	CHECK_EQ(CELLRING_LENGTH(head), 0x123456);
	CHECK_EQ(CELLRING_ID(head), 0xfedcba);
	CHECK_EQ(CELLRING_COUNT(head), 7);
	CHECK_EQ(CELLRING_TOGETHER(head), 5);
}

/* Checks a ring byte by byte. */
TEST(layout_is_as_documented)
{
	static const unsigned char second[] = {2, 0, 0, 0, 0, 8, 0, 0, 'b'};
	static const unsigned char first[] = {1, 0, 0, 0x22, 1, 0x10, 0, 0, 'a', 'x'};
	static const unsigned char alone[] = {3, 0, 0, 0x11, 1, 0, 0, 0};

	rig_init(8, 8, 16);
	CHECK_EQ(rig.plan.stride, 16);
	CHECK_EQ(rig.plan.cell, 128);
	CHECK(cellring_burst_open(&rig.burst, &rig.out, 2));
	CHECK_EQ(cellring_burst_add(&rig.burst, 1, "ax", 2), 0);
	CHECK_EQ(cellring_burst_add(&rig.burst, 2, "b", 1), 1);
	CHECK(!cellring_ready(&rig.in));
	cellring_burst_write_full(&rig.burst);
	CHECK_EQ(memcmp(rig.in.begin, first, sizeof(first)), 0);
	CHECK_EQ(memcmp(rig.in.begin + 16, second, sizeof(second)), 0);
	cellring_put(&rig.out, 3, NULL, 0);
	CHECK_EQ(memcmp(rig.in.begin + 128, alone, sizeof(alone)), 0);
}

/*
 * Messages of all sizes, alone and in bursts of all lengths, over several laps, with at most the
 * planned number in flight: each arrives once, in order, unchanged.
 */
static void traffic(uint64_t *seed)
{
	uint32_t payload = (uint32_t)(test_rand(seed) % 200);
	uint32_t in_flight = 1 + (uint32_t)(test_rand(seed) % 40);
	uint32_t sent = 0, taken = 0, last = 20 * in_flight;
	unsigned char data[256];

	rig_init(payload, in_flight, (uint32_t)(test_rand(seed) % 100));
	while (taken < last) {
		uint32_t room = in_flight - (sent - taken);
		uint32_t n = (uint32_t)(test_rand(seed) % (room + 1));

		n = n < last - sent ? n : last - sent;
		if (n > 1 && cellring_burst_open(&rig.burst, &rig.out, n)) {
			n = n < rig.burst.limit ? n : rig.burst.limit;
			n -= (uint32_t)(test_rand(seed) % 2);
			for (uint32_t i = 0; i < n; i++, sent++) {
				fill(data, payload, sent);
				CHECK_EQ(cellring_burst_held(&rig.burst), i);
				CHECK_EQ(cellring_burst_add(&rig.burst, sent, data, payload),
					i + 1 == rig.burst.limit);
			}
			if (n == rig.burst.limit)
				cellring_burst_write_full(&rig.burst);
			else
				cellring_burst_write_part(&rig.burst);
			CHECK_EQ(cellring_burst_held(&rig.burst), 0);
		} else if (n) {
			fill(data, payload, sent);
			cellring_put(&rig.out, sent++, data, payload);
		}
		for (n = (uint32_t)(test_rand(seed) % (sent - taken + 1)); n; n--)
			expect(taken++, payload);
		CHECK_EQ(cellring_ready(&rig.in), sent != taken);
	}
	rig_check();
}

TEST(everything_comes_once_and_in_order)
{
	uint64_t seed = test_seed();

	for (int i = 0; i < 2000; i++)
		traffic(&seed);
}

/* The last lap is followed by lap 1, because 0 marks the cells of a new ring. */
TEST(lap_wraps)
{
	rig_init(8, 3, 0);
	rig.out.lap = rig.in.lap = CELLRING_LAP_LAST;
	for (unsigned char *cell = rig.in.begin; cell != rig.in.end; cell += rig.in.cell)
		((struct cellring_message *)(void *)cell)->head =
			CELLRING_HEAD(CELLRING_LAP_LAST - 1, 1, 1);
	for (uint32_t i = 0; i < 3 * rig.plan.cells; i++) {
		unsigned char data[8];

		CHECK(!cellring_ready(&rig.in));
		fill(data, 8, i);
		cellring_put(&rig.out, i, data, 8);
		expect(i, 8);
	}
	CHECK_EQ(rig.out.lap, 3);
}

/* An open burst is stale when its ring has begun another lap, because its head has the old lap. */
TEST(burst_grows_stale)
{
	uint32_t n = 0;

	rig_init(8, 8, 0);
	CHECK(cellring_burst_open(&rig.burst, &rig.out, 2));
	while (!cellring_burst_stale(&rig.burst)) {
		cellring_burst_add(&rig.burst, 0, "", 1);
		cellring_burst_write_part(&rig.burst);
		n++;
	}
	CHECK_EQ(n, rig.plan.cells);
	CHECK(!cellring_burst_open(&rig.burst, &rig.out, 1));
	CHECK(!rig.burst.to);
	CHECK(!cellring_burst_open(&rig.burst, &rig.out, 0));
}

/* ---- order ---- */

#define PAGE 4096

static unsigned char *pages; /* two pages, of which the second one is not accessible at first */
/*
 * Stored by the signal handler, loaded by the interrupted function. It is atomic, because otherwise
 * a compiler may use the value from before the fault.
 */
static _Atomic uint64_t line_at_fault;

/* Called when the producer has reached the second page: loads what a consumer would see now. */
static void second_page(int sig)
{
	const uint64_t *line = (const uint64_t *)(const void *)(pages + PAGE - CELLRING_LINE);
	uint64_t words = 0;

	(void)sig;
	for (unsigned i = 0; i < CELLRING_LINE / sizeof(*line); i++)
		words |= line[i];
	atomic_store_explicit(&line_at_fault, words, memory_order_relaxed);
	if (mprotect(pages + PAGE, PAGE, PROT_READ | PROT_WRITE))
		_exit(2);
}

/* A burst begins in the last line of a page. The second page is written before that line. */
TEST(first_line_is_stored_last)
{
	struct sigaction old, now = {.sa_handler = second_page};
	struct cellring_plan plan = cellring_plan_for(32, 16, 0);
	struct cellring_cursor out;

	pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(pages != MAP_FAILED);
	CHECK_EQ(mprotect(pages + PAGE, PAGE, PROT_NONE), 0);
	CHECK_EQ(sigaction(SIGSEGV, &now, &old), 0);
	cellring_cursor_init(&out, pages + PAGE - CELLRING_LINE, &plan);
	cellring_burst_close(&rig.burst);
	CHECK(cellring_burst_open(&rig.burst, &out, 4));
	for (uint32_t i = 0; i < 4; i++)
		cellring_burst_add(&rig.burst, i, "payload", 8);
	atomic_store_explicit(&line_at_fault, 1, memory_order_relaxed);
	cellring_burst_write_full(&rig.burst);
	CHECK_EQ(atomic_load_explicit(&line_at_fault, memory_order_relaxed), 0);
	CHECK_EQ(CELLRING_LAP(*(uint64_t *)(void *)(pages + PAGE - CELLRING_LINE)), 1);
	CHECK_EQ(sigaction(SIGSEGV, &old, NULL), 0);
	CHECK_EQ(munmap(pages, 2 * PAGE), 0);
}

/* ---- a hostile producer ---- */

TEST(impossible_counts_are_refused)
{
	rig_init(24, 16, 0);
	CHECK_EQ(rig.plan.most, 8);
	for (uint32_t count = 0; count < 16; count++) {
		struct cellring_cursor before = rig.in, c = rig.in;
		uint32_t got = cellring_arrive(&c, CELLRING_HEAD(1, count, 1));

		CHECK_EQ(got, count >= 1 && count <= 8 ? count : 0);
		if (!got)
			CHECK_EQ(memcmp(&c, &before, sizeof(c)), 0);
		else
			CHECK_EQ(cellring_left(&c), count);
	}
}

/* The consumer stays within the ring, whatever bytes are written into it at any time. */
TEST(any_bytes_keep_the_cursor_inside)
{
	uint64_t seed = test_seed();

	for (int i = 0; i < 300; i++) {
		rig_init((uint32_t)(test_rand(&seed) % 200), 1 + (uint32_t)(test_rand(&seed) % 64),
			0);
		for (int k = 0; k < 300; k++) {
			uint64_t head = test_rand(&seed);

			if (test_rand(&seed) % 4)
				head = (uint64_t)rig.in.lap << 32 | (uint32_t)head |
				       CELLRING_MESSAGE(0, head >> 43);
			((struct cellring_message *)(void *)rig.in.slot)->head = head;
			if (rig.in.slot == rig.in.ready) {
				head = cellring_look(&rig.in);
				if (!head || !cellring_arrive(&rig.in, head))
					continue;
			}
			CHECK(CELLRING_ID(cellring_head(rig.in.slot)) <= CELLRING_ID_MASK);
			CHECK((const unsigned char *)cellring_payload(rig.in.slot) +
					rig.plan.stride - 8 <=
				rig.in.end);
			cellring_next(&rig.in);
			rig_check();
		}
	}
}
