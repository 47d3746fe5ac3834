/* SPDX-License-Identifier: MIT */
/* The first message of a rank is refused if no rank of this program can have sent it. */
#include <errno.h>
#include <math.h>

#include "support/test.h"
#include "hello.h"

static const struct hello good = {.id = {.magic = HELLO_MAGIC,
					  .version = BENCHKV_VERSION,
					  .host = "node1"},
	.port = {.mtu = 4096, .partition = 0x7fff},
	.device = "mlx5_0",
	.window = 6,
	.full = 9,
	.basis = MEASURED,
	.times = {.round_trip_ns = 5000, .write_ns = 800, .message_ns = 90}};

#define AT(field) offsetof(struct hello, field)

/* The numbers of a message must be in the range that this program can send. */
TEST(numbers_have_a_range)
{
	static const struct {
		size_t at;
		uint64_t value;
		bool valid;
	} cases[] = {
		{AT(id.magic), HELLO_MAGIC + 1, false},
		{AT(options[0]), UINT64_MAX, true},
		{AT(file_errno[0]), 4095, true},
		{AT(file_errno[0]), 4096, false},
		{AT(file_errno[FILES - 1]), 1ull << 32, false},
		{AT(machine_errno), 4095, true},
		{AT(machine_errno), 1ull << 32, false},
		{AT(port_errno), 4095, true},
		{AT(port_errno), 1ull << 32, false},
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
		{AT(id.host[0]), 0, true},
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

TEST(texts_end)
{
	static const struct {
		size_t at, size;
	} texts[] = {{AT(id.version), HELLO_VERSION_SIZE}, {AT(id.host), HOST_NAME_SIZE},
		{AT(device), HCA_NAME_MAX}};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct hello h = good;
		char *text = (char *)&h + texts[i].at;

		memset(text, 'x', texts[i].size - 1);
		text[texts[i].size - 1] = 0;
		CHECK(hello_valid(&h));
		text[texts[i].size - 1] = 'x';
		CHECK(!hello_valid(&h));
	}
}

/* The beginning of a message suffices to distinguish another version from another program. */
TEST(versions_are_named)
{
	struct hello h, other = good, longer[2] = {good, good};
	char why[320] = "";

	CHECK_EQ(hello_read(&good, sizeof(good), 3, &h, why, sizeof(why)), 0);
	CHECK(!memcmp(&h, &good, sizeof(h)));
	for (int before = 0; before < 2; before++) {
		char want[128];

		snprintf(other.id.version, sizeof(other.id.version), "%s",
			before ? "0.1.0" : "99.1");
		snprintf(want, sizeof(want),
			"rank 3 (node1) has version %s, this one %s: install the same",
			other.id.version, BENCHKV_VERSION);
		for (size_t len = sizeof(other.id); len <= sizeof(other); len++) {
			CHECK_EQ(hello_read(&other, len, 3, &h, why, sizeof(why)), -EPROTO);
			CHECK(!strcmp(why, want));
		}
	}
	CHECK_EQ(hello_read(&good, sizeof(good) - 1, 3, &h, why, sizeof(why)), -EPROTO);
	CHECK(strstr(why, "rank 3 (node1) has another build of version " BENCHKV_VERSION));
	CHECK_EQ(hello_read(longer, sizeof(longer), 3, &h, why, sizeof(why)), -EPROTO);
	CHECK(strstr(why, "another build"));
	for (size_t len = 0; len < sizeof(other.id); len++) {
		CHECK_EQ(hello_read(&good, len, 3, &h, why, sizeof(why)), -EPROTO);
		CHECK(strstr(why, "rank 3 is not benchkv"));
	}
	other.id.magic++;
	CHECK_EQ(hello_read(&other, sizeof(other), 3, &h, why, sizeof(why)), -EPROTO);
	CHECK(strstr(why, "rank 3 is not benchkv"));
}

static char said[320];

static const char *fits(const struct hello *first, const struct hello *h)
{
	said[0] = 0;
	CHECK_EQ(hello_fits(first, h, 3, said, sizeof(said)), said[0] ? -EINVAL : 0);
	return said;
}

TEST(options_are_named)
{
	CHECK(!*fits(&good, &good));
	for (unsigned i = 0; i < OPTIONS_FIELDS; i++) {
		struct hello h = good;
		char text[100];

		h.options[i]++;
		snprintf(text, sizeof(text), "rank 3 (node1) has another %s than rank 0",
			option_fields[i].name);
		CHECK(strstr(fits(&good, &h), text));
	}
}

TEST(ports_are_compared)
{
	struct hello h = good, none = good;

	h.port.software = 1;
	CHECK(strstr(fits(&good, &h), "rank 3 (node1) has the software HCA, rank 0 an adapter"));
	CHECK(strstr(fits(&h, &good), "rank 3 (node1) has an adapter, rank 0 the software HCA"));
	h = good;
	h.port.ethernet = 1;
	strcpy(h.device, "mlx5_1");
	CHECK(strstr(fits(&good, &h), "mlx5_1 uses RoCE, rank 0's mlx5_0 InfiniBand"));
	h.port = good.port;
	h.port.partition = 0x123;
	CHECK(strstr(fits(&good, &h), "mlx5_1 has the P_Key 0x8123, rank 0's mlx5_0 0xffff"));
	h = good;
	h.port.mtu = 1024;
	CHECK(!*fits(&good, &h) && hello_mtu_differs(&good, &h, 3, said, sizeof(said)));
	CHECK(strstr(said, "rank 3 (node1): mlx5_0 has the MTU 1024, rank 0's mlx5_0 4096"));
	CHECK(!hello_mtu_differs(&good, &good, 3, said, sizeof(said)));
	none.port_errno = ENODEV;
	CHECK(strstr(fits(&good, &none), "rank 3 (node1) has no mlx5 device mlx5_0: give"));
	CHECK(!*fits(&none, &good)); /* rank 0 reports its own error */
	none.device[0] = 0;
	CHECK(strstr(fits(&none, &none), "rank 3 (node1) has no mlx5 device: give"));
	none = good;
	none.port_errno = ENETDOWN;
	CHECK(strstr(fits(&good, &none), "mlx5_0 has no active port"));
	none.port_errno = ENOKEY;
	CHECK(strstr(fits(&good, &none), "mlx5_0 is a full member of no partition"));
	none.port_errno = EIO;
	CHECK(strstr(fits(&good, &none), "mlx5_0: Input/output error"));
}
