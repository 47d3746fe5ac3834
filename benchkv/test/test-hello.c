/* SPDX-License-Identifier: MIT */
/* The first message of a rank is refused if no rank of this program can have sent it. */
#include <math.h>

#include "support/test.h"
#include "hello.h"

static const struct hello good = {.magic = HELLO_MAGIC,
	.window = 6,
	.full = 9,
	.basis = MEASURED,
	.times = {.round_trip_ns = 5000, .write_ns = 800, .message_ns = 90},
	.host = "node1"};

#define AT(field) offsetof(struct hello, field)

/* Each of them must be one that this program can have. */
TEST(numbers_have_a_range)
{
	static const struct {
		size_t at;
		uint64_t value;
		bool valid;
	} cases[] = {
		{AT(magic), HELLO_MAGIC + 1, false},
		{AT(options), UINT64_MAX, true},
		{AT(file_errno[0]), 4095, true},
		{AT(file_errno[0]), 4096, false},
		{AT(file_errno[FILES - 1]), 1ull << 32, false},
		{AT(machine_errno), 4095, true},
		{AT(machine_errno), 1ull << 32, false},
		{AT(window), 1, true},
		{AT(window), 0, false},
		{AT(window), 65536, true},
		{AT(window), 65537, false},
		{AT(window), (1ull << 32) + 6, false},
		{AT(full), 1, true},
		{AT(full), 0, false},
		{AT(full), 65536, true},
		{AT(full), (1ull << 32) + 9, false},
		{AT(basis), BY_DEFAULT, true},
		{AT(basis), BASES, false},
		{AT(host[0]), 0, true},
	};

	CHECK(hello_valid(&good));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct hello h = good;

		memcpy((char *)&h + cases[i].at, &cases[i].value, sizeof(cases[i].value));
		CHECK_EQ(hello_valid(&h), cases[i].valid);
	}
}

TEST(times_are_finite)
{
	static const size_t times[] = {AT(times.round_trip_ns), AT(times.write_ns),
		AT(times.message_ns)};
	static const struct {
		double ns;
		bool valid;
	} cases[] = {{0, true}, {1e9, true}, {-1, false}, {NAN, false}, {INFINITY, false}};

	for (size_t t = 0; t < ARRAY_SIZE(times); t++) {
		for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
			struct hello h = good;

			memcpy((char *)&h + times[t], &cases[i].ns, sizeof(double));
			CHECK_EQ(hello_valid(&h), cases[i].valid);
		}
	}
}

TEST(host_names_end)
{
	struct hello h = good;

	memset(h.host, 'x', sizeof(h.host) - 1);
	CHECK(hello_valid(&h));
	h.host[sizeof(h.host) - 1] = 'x';
	CHECK(!hello_valid(&h));
}
