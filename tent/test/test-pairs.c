/* SPDX-License-Identifier: MIT */
/*
 * Tests which rails of two engines are connected as pairs, and the errors of imports and
 * configurations. The adapters are those of rails4.topology.
 */
#include "outage.h"

static int file; /* a memfd, which no failed case leaves behind */

/* Writes the text to the file. Returns its name. The text is valid until the next call. */
static const char *file_of(const char *text)
{
	static char path[32];

	CHECK_EQ(ftruncate(file, 0), 0);
	CHECK_EQ(pwrite(file, text, strlen(text), 0), strlen(text));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	return path;
}

static const char *config_of(const char *key, const char *text)
{
	static char config[200];

	snprintf(config, sizeof(config), "{\"%s\": \"%s\"}", key, file_of(text));
	return config;
}

static void check_pair(uint32_t i, const char *local, const char *remote)
{
	const struct tent_rail_stats r = outage_rail(i);

	CHECK(!strcmp(r.name, local) && !strcmp(r.remote, remote));
}

/* Checks that the import fails with this error and a message that contains @words. */
static void refused(const struct duo_attr *a, int err, const char *words)
{
	struct duo_attr attr = *a;

	attr.len = MIB;
	attr.no_import = true;
	duo_open(&attr);
	duo_not_imported(d.t, d.text, err, words);
}

/*
 * In both fabrics the adapters have the same addresses, and their first QPs have the same number.
 * The engine detects the other fabric because the peer's QP has the number and address of the
 * engine's own QP. So this case must be the first one: after other cases the numbers would differ.
 */
TEST_WITH(a_peer_of_another_network, refused,
	&(struct duo_attr){.target_fabric = "tent-pairs-other"}, -ENETUNREACH,
	"not in one network");

TEST(names_pair_within_a_subnet)
{
	static const char *const names[] = {"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"};

	duo_open(&(struct duo_attr){.len = MIB});
	for (uint32_t i = 0; i < 4; i++)
		check_pair(i, names[i], names[i]);
}

/* The rails near the peer's memory carry its bytes, wherever the memory of this side is. */
TEST(memory_of_the_peer_has_its_rails)
{
	const struct duo_attr a = {.len = 4 * MIB,
		.config = "{\"strict_numa\": true}",
		.target_location = "cpu:1"};
	struct tent_rail_stats r[4];

	duo_open(&a);
	CHECK_EQ(duo_move(TENT_WRITE, 0, d.len, 0), 0);
	CHECK_EQ(duo_move(TENT_READ, 0, d.len, 0), 0);
	for (uint32_t i = 0; i < 4; i++)
		CHECK_EQ(tent_rail_get_stats(d.s, i, &r[i], sizeof(r[i])), 0);
	CHECK(!r[0].bytes && !r[1].bytes);
	CHECK(r[2].bytes && r[3].bytes);
	CHECK_EQ(r[2].bytes + r[3].bytes, 2 * d.len);
}

TEST(a_map_pairs_as_it_says)
{
	duo_open(&(struct duo_attr){.len = MIB,
		.config = config_of("rail_map",
			"{\"pairs\": [{\"local\": \"mlx5_1\", \"remote\": \"mlx5_3\"},"
			"{\"local\": \"mlx5_0\", \"remote\": \"mlx5_0\"}]}")});
	check_pair(0, "mlx5_1", "mlx5_3");
	check_pair(1, "mlx5_0", "mlx5_0");
	memset(d.mine, 7, d.len);
	CHECK_EQ(duo_move(TENT_WRITE, 0, d.len, 0), 0);
	test_filled(d.theirs, d.len, 7);
}

TEST(maps_that_cannot_be)
{
	refused(&(struct duo_attr){.config = config_of("rail_map",
					   "{\"pairs\": [{\"local\": \"mlx5_0\", \"remote\": "
					   "\"mlx5_1\"}]}")},
		-EINVAL, "cannot be connected");
	refused(&(struct duo_attr){.config = config_of("rail_map",
					   "{\"pairs\": [{\"local\": \"mlx5_9\", \"remote\": "
					   "\"mlx5_1\"}]}")},
		-EINVAL, "mlx5_9");
}

/* The peer has left out the only partner that mlx5_0 has. */
TEST_WITH(a_rail_without_partner, refused,
	&(struct duo_attr){.target_config = config_of("topology",
				   "{\"cpu:0\": [[\"mlx5_1\", \"mlx5_2\", \"mlx5_3\"]]}")},
	-ENETUNREACH, "mlx5_0");

/* A pair that is connected but whose messages do not arrive. */
TEST(a_pair_that_cannot_reach)
{
	duo_open(&(struct duo_attr){.len = MIB, .no_import = true});
	outage_ctl("link mlx5_2 down");
	duo_not_imported(d.t, d.text, -ENETUNREACH, "mlx5_2 cannot reach");
	outage_ctl("link mlx5_2 up");
	d.s = duo_import(d.t, d.text);
}

/* Checks that there are @n pairs, and that one write uses all of them. */
static void all_carry(uint32_t n)
{
	struct tent_rail_stats r;
	uint64_t bytes = 0;

	memset(d.mine, 9, d.len);
	CHECK_EQ(duo_move(TENT_WRITE, 0, d.len, 0), 0);
	test_filled(d.theirs, d.len, 9);
	for (uint32_t i = 0; i < n; i++) {
		CHECK(outage_rail(i).bytes);
		bytes += outage_rail(i).bytes;
	}
	CHECK_EQ(bytes, d.len);
	CHECK_EQ(tent_rail_get_stats(d.s, n, &r, sizeof(r)), -ENOENT);
}

static void both(const char *rails, const char *target_rails, const char *config)
{
	duo_open(&(struct duo_attr){.len = 4 * MIB,
		.rails = rails,
		.target_rails = target_rails,
		.config = config});
}

/* Rails over TCP and rails of adapters carry one request together. */
TEST(tcp_beside_adapters)
{
	both("mix:2", "mix:2", NULL);
	check_pair(0, "mlx5_0", "mlx5_0");
	check_pair(3, "mlx5_3", "mlx5_3");
	check_pair(4, "tcp0", "tcp0");
	check_pair(5, "tcp1", "tcp1");
	all_carry(6);
}

/* If one host has rails of one kind and the other host has both kinds, only that kind is used. */
TEST(hosts_with_fewer_kinds)
{
	both("mix:2", "tcp:1", NULL);
	check_pair(0, "tcp0", "tcp0");
	check_pair(1, "tcp1", "tcp0");
	all_carry(2);
	both("tcp:1", "mix:2", NULL);
	check_pair(0, "tcp0", "tcp0");
	all_carry(1);
	both("mix:1", "none", NULL);
	check_pair(3, "mlx5_3", "mlx5_3");
	all_carry(4);
	both("none", "mix:1", NULL);
	all_carry(4);
	refused(&(struct duo_attr){.rails = "tcp:1", .target_rails = "none"}, -EREMOTE,
		"its rails are adapters, those of this engine are TCP");
	refused(&(struct duo_attr){.rails = "tcp:1",
			.target_rails = "none",
			.config = config_of("rail_map",
				"{\"pairs\": [{\"local\": \"tcp0\", \"remote\": \"mlx5_0\"}]}")},
		-EREMOTE, "its rails are adapters");
	refused(&(struct duo_attr){.rails = "mix:1", .target_rails = "shm:1"}, -EREMOTE,
		"its rails are shared memory");
}

/*
 * A rail map may name rails of both kinds. A topology file names adapters only, and all rails over
 * TCP are used as well.
 */
TEST(files_with_tcp_beside_adapters)
{
	both("mix:2", "mix:2",
		config_of("rail_map", "{\"pairs\": [{\"local\": \"tcp1\", \"remote\": \"tcp0\"},"
				      "{\"local\": \"mlx5_0\", \"remote\": \"mlx5_2\"}]}"));
	check_pair(0, "tcp1", "tcp0");
	check_pair(1, "mlx5_0", "mlx5_2");
	all_carry(2);
	both("mix:1", "mix:1", config_of("topology", "{\"cpu:0\": [[\"mlx5_3\", \"mlx5_1\"]]}"));
	check_pair(0, "mlx5_3", "mlx5_3");
	check_pair(1, "mlx5_1", "mlx5_1");
	check_pair(2, "tcp0", "tcp0");
	all_carry(3);
	refused(&(struct duo_attr){.rails = "mix:1",
			.target_rails = "mix:1",
			.config = config_of("rail_map",
				"{\"pairs\": [{\"local\": \"mlx5_0\", \"remote\": \"tcp0\"}]}")},
		-EINVAL, "mlx5_0 is roce here and tcp0 is tcp at the peer");
}

static void attributes_refused(struct tent_attr a, const char *words)
{
	a.size = sizeof(a);
	a.adapters = 1;
	duo_refused(&a, -EINVAL, words);
}

TEST(what_is_not_beside_adapters)
{
	attributes_refused((struct tent_attr){.shm_rails = 1}, "adapters and shared memory: give");
	attributes_refused((struct tent_attr){.gpu_rails = 1}, "adapters and GPUs: give");
	attributes_refused((struct tent_attr){.shm_rails = 1, .tcp_rails = 1}, "of one kind");
	attributes_refused((struct tent_attr){.tcp_rails = 29}, "of all kinds: give up to 32");
	attributes_refused((struct tent_attr){.tcp_rails = 33}, "tcp_rails: give up to 32");
}

static void engine_refused(const char *config, int err, const char *words)
{
	duo_refused(&(struct tent_attr){.config = config}, err, words);
}

TEST(configurations_that_leave_no_rail)
{
	engine_refused(config_of("topology", "{}"), -EINVAL, "at least one rail");
	engine_refused(config_of("topology", "{\"cpu:0\": [[\"mlx5_7\"]]}"), -ENODEV, "mlx5_7");
	engine_refused("{\"topology\": \"/nowhere/x\"}", -ENOENT, "/nowhere/x");
	engine_refused("{\"rail_map\": \"/nowhere/x\"}", -ENOENT, "/nowhere/x");
	engine_refused(config_of("rail_map", "{\"pairs\": []}"), -EINVAL, "pairs");
	engine_refused("{\"no_such_key\": 1}", -EINVAL, "no_such_key");
}

TEST(shared_memory_does_not_meet_adapters)
{
	struct tent *shm;

	duo_open(&(struct duo_attr){.len = MIB});
	CHECK_EQ(tent_create(&(struct tent_attr){.shm_rails = 1}, NULL, &shm), 0);
	duo_not_imported(shm, d.text, -EREMOTE, "its rails are adapters");
	tent_destroy(shm);
	duo_refused(&(struct tent_attr){.shm_rails = 33}, -EINVAL, "up to 32");
}

int main(int argc, char **argv)
{
	file = memfd_create("config", 0);
	CHECK(file >= 0);
	return test_main(argc, argv);
}
