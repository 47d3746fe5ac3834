/* SPDX-License-Identifier: MIT */
/*
 * Rails whose links have limited rates (rates.topology): each rail carries bytes in proportion to
 * its rate.
 */
#include "duo.h"

#define TRIES 20

static const char seeds[] = "{\"min_bandwidth_gbps\": 0.1, \"default_bandwidth_gbps\": 0.4}";

static uint64_t bytes_of(const char *name)
{
	struct tent_rail_stats r;

	for (uint32_t i = 0; !tent_rail_get_stats(d.s, i, &r, sizeof(r)); i++) {
		if (!strcmp(r.name, name))
			return r.bytes;
	}
	CHECK(0);
	return 0;
}

/* Moves a stream of requests. Returns true if the rails' bytes are in proportion to their rates. */
static bool bytes_follow(void)
{
	double fast, slow, remote;

	duo_open(&(struct duo_attr){.len = 4 * MIB, .config = seeds});
	for (int i = 0; i < 6; i++)
		CHECK_EQ(duo_move(TENT_WRITE, 0, d.len, 0), 0);
	fast = (double)bytes_of("mlx5_0");
	slow = (double)bytes_of("mlx5_1");
	remote = (double)bytes_of("mlx5_2");
	printf("bytes: %.0f %.0f %.0f, slow / fast %.2f\n", fast, slow, remote, slow / fast);
	CHECK_EQ(fast + slow + remote, 6 * d.len);
	return slow / fast > .35 && slow / fast < .65 && remote / fast > .7 && remote / fast < 1.4;
}

/*
 * On a machine with other work a rail may seem slower than it is, so it suffices if one of several
 * streams has the expected shares.
 */
TEST(bytes_follow_the_rates)
{
	int tries = 0;

	while (!bytes_follow())
		CHECK(++tries < TRIES);
}

/*
 * Like bytes_follow(), with one more rail, over TCP, which is much faster here. All rails are busy
 * all the time, so each carries as much as its rate permits.
 */
static bool bytes_follow_beside(void)
{
	double fast, slow, remote, tcp;
	struct tent_request r[4];

	duo_open(&(struct duo_attr){.len = 32 * MIB,
		.config = seeds,
		.rails = "mix:1",
		.target_rails = "mix:1"});
	for (uint32_t i = 0; i < ARRAY_SIZE(r); i++)
		r[i] = duo_request(TENT_WRITE, i * 8 * MIB, 8 * MIB);
	duo_random(&(uint64_t){1}, d.mine, d.len);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(duo_end(duo_submit(r, ARRAY_SIZE(r))), 0);
	CHECK(!memcmp(d.mine, d.theirs, d.len));
	fast = (double)bytes_of("mlx5_0");
	slow = (double)bytes_of("mlx5_1");
	remote = (double)bytes_of("mlx5_2");
	tcp = (double)bytes_of("tcp0");
	printf("bytes: %.0f %.0f %.0f, TCP %.0f, slow / fast %.2f\n", fast, slow, remote, tcp,
		slow / fast);
	CHECK_EQ(fast + slow + remote + tcp, 4 * d.len);
	CHECK(fast && slow && remote && tcp);
	return slow / fast > .35 && slow / fast < .65 && remote / fast > .7 &&
	       remote / fast < 1.4 && tcp > fast + slow + remote;
}

TEST(tcp_beside_adapters)
{
	int tries = 0;

	while (!bytes_follow_beside())
		CHECK(++tries < TRIES);
}

static void register_at(const char *location)
{
	CHECK_EQ(tent_unregister(d.t, d.mine), 0);
	CHECK_EQ(tent_register(d.t, d.mine, d.len, location, NULL), 0);
}

/* mlx5_2 is on node 1, as hwloc reports. With strict_numa, memory of node 0 does not use it. */
TEST(strict_numa_stays_on_its_node)
{
	duo_open(&(struct duo_attr){.len = MIB,
		.config = "{\"strict_numa\": true, \"min_bandwidth_gbps\": 0.1}"});
	register_at("cpu:0");
	CHECK_EQ(duo_move(TENT_WRITE, 0, d.len, 0), 0);
	CHECK_EQ(bytes_of("mlx5_2"), 0);
	CHECK(bytes_of("mlx5_0") > 0);
	register_at("cpu:1");
	CHECK_EQ(duo_move(TENT_WRITE, 0, d.len, 0), 0);
	CHECK_EQ(bytes_of("mlx5_2"), d.len);
}

/*
 * The links report 10 Gb/s. This is the first estimate if it is within the configured range;
 * otherwise the default is.
 */
TEST(seeds_are_the_links_rates)
{
	static const struct {
		const char *config;
		double gbps;
	} cases[] = {
		{NULL, 10},
		{"{\"min_bandwidth_gbps\": 20}", 400},
		{"{\"min_bandwidth_gbps\": 1, \"max_bandwidth_gbps\": 5, "
		 "\"default_bandwidth_gbps\": 3}",
			3},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct tent_rail_stats r;

		duo_open(&(struct duo_attr){.len = 4096, .config = cases[i].config});
		CHECK_EQ(tent_rail_get_stats(d.s, 0, &r, sizeof(r)), 0);
		CHECK_EQ(r.link_gbps, cases[i].gbps);
		CHECK_EQ(tent_rail_get_stats(d.s, 3, &r, sizeof(r)), -ENOENT);
	}
}
