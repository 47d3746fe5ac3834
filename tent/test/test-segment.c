/* SPDX-License-Identifier: MIT */
/*
 * Tests of the code that needs no device: pairing, descriptions, topologies, notices, places, error
 * messages.
 */
#include <errno.h>
#include <sys/mman.h>

#include "support/test.h"
#include "blame.h"
#include "desc.h"
#include "memory.h"
#include "notice.h"
#include "places.h"
#include "topo.h"

/* ---- pairing ---- */

static struct rail_id roce(const char *name, uint8_t subnet)
{
	struct rail_id r = {.kind = "roce",
		.gid = {[10] = 0xff, [11] = 0xff, [12] = 10, [13] = 0, [14] = subnet, [15] = 1}};

	strcpy(r.name, name);
	return r;
}

static struct rail_id ib(const char *name, uint8_t prefix)
{
	struct rail_id r = {.kind = "ib", .gid = {[0] = 0xfe, [7] = prefix, [15] = 9}};

	strcpy(r.name, name);
	return r;
}

TEST(rails_are_paired_within_a_subnet)
{
	const struct rail_id here[] = {roce("a", 1), ib("b", 1), roce("c", 2)};
	const struct rail_id there[] = {ib("x", 1), roce("a", 2), roce("c", 1), ib("y", 2)};
	struct rail_pair pairs[TENT_MAX_RAILS];
	struct tent_why why;

	CHECK_EQ(pair_rails(here, 3, there, 4, NULL, pairs, &why), 3);
	CHECK_EQ(pairs[0].remote, 2); /* not the rail of the same name, which is in another
					 subnet */
	CHECK_EQ(pairs[1].remote, 0);
	CHECK_EQ(pairs[2].remote, 1);
	CHECK_EQ(pair_rails(here, 3, there, 2, NULL, pairs, &why), -ENETUNREACH);
	CHECK(strstr(why.text, "rail a"));
}

TEST(same_name_wins_over_fewest_partners)
{
	const struct rail_id here[] = {ib("a", 1), ib("b", 1), ib("c", 1), ib("d", 1)};
	const struct rail_id there[] = {ib("c", 1), ib("x", 1)};
	struct rail_pair pairs[TENT_MAX_RAILS];

	CHECK_EQ(pair_rails(here, 4, there, 2, NULL, pairs, NULL), 4);
	CHECK_EQ(pairs[0].remote, 0);
	CHECK_EQ(pairs[1].remote, 1); /* has the fewest partners so far */
	CHECK_EQ(pairs[2].remote, 0); /* by name */
	CHECK_EQ(pairs[3].remote, 1);
}

/* ---- descriptions ---- */

static char *description(void)
{
	uint32_t keys[] = {1, 2, 3, 4};
	struct desc_buffer b[] = {
		{.addr = 0x1000,
			.len = 0x1800,
			.part_len = 0x1000,
			.n_parts = 2,
			.id = 11,
			.fd = 77,
			.location = "*",
			.keys = keys},
		{.addr = 0x3000,
			.len = 8,
			.part_len = 4096,
			.n_parts = 1,
			.id = 12,
			.fd = -1,
			.shared = true,
			.handle = {{1, 2, [63] = 255}},
			.offset = 512,
			.location = "cuda:0",
			.tiers = {1, 2},
			.keys = keys},
	};
	struct desc d = {.host = "h",
		.port = 7,
		.boot = "b",
		.pid = 5,
		.epoch = 9,
		.n_rails = 2,
		.n_buffers = 2,
		.buffers = (struct desc_buffer *[]){&b[0], &b[1]}};
	char *text;

	d.rails[0] = roce("a", 1);
	d.rails[1] = ib("b", 3);
	CHECK_EQ(desc_write(&d, &text), 0);
	return text;
}

TEST(a_description_comes_back)
{
	AT_END(end_free) char *text = description();
	AT_END(desc_fini) struct desc d;

	CHECK_EQ(desc_read(text, &d, NULL), 0);
	CHECK(!strcmp(d.host, "h") && d.port == 7 && d.pid == 5 && d.epoch == 9);
	CHECK_EQ(d.buffers[0]->id, 11);
	CHECK_EQ(d.buffers[1]->id, 12);
	CHECK_EQ(d.buffers[0]->fd, 77);
	CHECK_EQ(d.buffers[1]->fd, -1);
	CHECK(!d.buffers[0]->shared && d.buffers[1]->shared);
	CHECK_EQ(d.buffers[1]->handle.bytes[1], 2);
	CHECK_EQ(d.buffers[1]->handle.bytes[63], 255);
	CHECK_EQ(d.buffers[1]->offset, 512);
	CHECK_EQ(d.n_rails, 2);
	CHECK_EQ(d.rails[1].gid[7], 3);
	CHECK_EQ(d.buffers[0]->keys[3], 4);
	CHECK_EQ(d.buffers[0]->tiers[1], 0);
	CHECK_EQ(d.buffers[1]->tiers[0], 1);
	CHECK_EQ(d.buffers[1]->tiers[1], 2);
	CHECK(desc_find(&d, 0x1000, 0x1800) == d.buffers[0]);
	CHECK(!desc_find(&d, 0x1000, 0x1801));
	CHECK(!desc_find(&d, 0xfff, 1));
	CHECK(!desc_find(&d, 0x2800, 1));
	CHECK(desc_find(&d, 0x3007, 1) == d.buffers[1]);
	CHECK(!desc_find(&d, 0x3007, UINT64_MAX));
}

/* Checks that the description is refused if @from in it is replaced by @to. */
static void refuse(const char *from, const char *to, int err)
{
	char *text = description(), *at = strstr(text, from), changed[4096];
	struct tent_why why = {""};
	struct desc d;

	CHECK(at);
	snprintf(changed, sizeof(changed), "%.*s%s%s", (int)(at - text), text, to,
		at + strlen(from));
	if (desc_read(changed, &d, &why) != err)
		fprintf(stderr, "%s\n", changed);
	CHECK_EQ(desc_read(changed, &d, &why), err);
	CHECK(why.text[0]);
	free(text);
}

TEST(invalid_descriptions_are_refused)
{
	refuse("\"tent\":6", "\"tent\":7", -EPROTONOSUPPORT);
	refuse("\"tent\":6", "\"tent\":5", -EPROTONOSUPPORT);
	refuse("\"tent\":6", "\"tent\":\"6\"", -EINVAL);
	refuse("\"epoch\":9", "\"epoch\":-1", -EINVAL);
	refuse("\"epoch\":9", "\"epoch\":4294967296", -EINVAL);
	refuse("\"id\":11", "\"id\":0", -EINVAL);
	refuse("\"id\":11", "\"id\":4294967296", -EINVAL);
	refuse("\"fd\":77", "\"fd\":-1", -EINVAL);
	refuse("\"fd\":77", "\"fd\":2147483648", -EINVAL);
	refuse("\"fd\":77", "\"fd\":null", -EINVAL);
	refuse("\"handle\":\"01", "\"handle\":\"", -EINVAL); /* too short */
	refuse("\"handle\":\"01", "\"handle\":\"0x", -EINVAL);
	refuse("\"offset\":512", "\"offset\":-1", -EINVAL);
	refuse("\"offset\":512", "\"x\":512", -EINVAL);
	refuse("\"ipc\":{", "\"ipc\":[],\"x\":{", -EINVAL);
	refuse("\"ipc\":{", "\"staged\":true,\"ipc\":{", -EINVAL); /* without a stage */
	refuse("\"buffers\":", "\"stage\":{\"id\":0},\"buffers\":", -EINVAL);
	refuse("{", "[", -EINVAL);
	refuse("\"port\":7", "\"port\":0", -EINVAL);
	refuse("\"port\":7", "\"port\":65536", -EINVAL);
	refuse("\"pid\":5", "\"pid\":0", -EINVAL);
	refuse("\"host\":\"h\"", "\"host\":\"a b\"", -EINVAL);
	refuse("\"name\":\"a\"", "\"name\":\"b\"", -EINVAL); /* twice */
	refuse("\"kind\":\"ib\"", "\"kind\":\"shm\"", -EINVAL); /* mixed */
	refuse("\"kind\":\"ib\"", "\"kind\":\"xx\"", -EINVAL);
	refuse("[[1,2]", "[[1]", -EINVAL);
	refuse("[[1,2]", "[[1,2,3]", -EINVAL);
	refuse("\"length\":8,\"part\":4096",
		"\"length\":9223372036854775807,\"part\":9223372036854775807", -EINVAL); /* wraps */
	refuse("[[1,2]", "[[1,4294967296]", -EINVAL);
	refuse("[[1,2]", "[[1,-2]", -EINVAL);
	refuse("\"length\":6144", "\"length\":0", -EINVAL);
	refuse("\"length\":6144", "\"length\":8193", -EINVAL); /* three parts, and an overlap */
	refuse("\"part\":4096,\"location\":\"*\"", "\"part\":0,\"location\":\"*\"", -EINVAL);
	refuse("\"addr\":12288", "\"addr\":10239", -EINVAL); /* overlaps by a byte */
	refuse("\"rails\":[", "\"rails\":[],\"x\":[", -EINVAL);
	refuse("\"tiers\":[1,2]", "\"tiers\":[1]", -EINVAL);
	refuse("\"tiers\":[1,2]", "\"tiers\":[1,3]", -EINVAL);
	refuse("\"tiers\":[1,2]", "\"tiers\":[1,-1]", -EINVAL);
	refuse("\"tiers\":[1,2]", "\"tiers\":[1,2,0]", -EINVAL);
	refuse("\"key\":\"00", "\"key\":\"0g", -EINVAL);
}

/* ---- topologies ---- */

static int topology(const char *text, struct topo *t)
{
	struct tent_why why = {""};
	int fd = memfd_create("topology", 0), err;
	char path[40];

	CHECK_EQ(write(fd, text, strlen(text)), strlen(text));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	err = topo_load(path, t, &why);
	close(fd);
	CHECK(!err || why.text[0]);
	return err;
}

TEST(both_forms_of_topologies)
{
	struct topo t;

	CHECK_EQ(
		topology(
			"{\"nics\": [{\"name\": \"m0\", \"pci_bus_id\": \"x\"}, {\"name\": \"m1\"}],"
			"\"mems\": [{\"name\": \"cpu:0\", \"device_list\": {\"rank0\": [0],"
			" \"rank1\": [\"m1\"]}}, {\"name\": \"cpu:1\", \"device_list\": {}}]}",
			&t),
		0);
	CHECK_EQ(t.n_rails, 2);
	CHECK_EQ(topo_location(&t, "cpu:1"), 2);
	CHECK_EQ(t.tiers[1][0], 0);
	CHECK_EQ(t.tiers[1][1], 1);
	CHECK_EQ(t.tiers[2][0], 2);
	CHECK_EQ(topology("{\"cpu:0\": [[\"a\"], [\"b\"]], \"*\": [[\"c\"], [\"a\"]],"
			  "\"cpu:1\": [[\"b\"], [], [\"a\"]]}",
			 &t),
		0);
	CHECK_EQ(t.n_rails, 3);
	CHECK_EQ(topo_location(&t, "*"), 0);
	CHECK_EQ(topo_location(&t, NULL), 0);
	CHECK_EQ(topo_location(&t, "cpu:2"), -1);
	CHECK_EQ(t.tiers[0][topo_rail(&t, "a")], 0);
	CHECK_EQ(t.tiers[1][topo_rail(&t, "b")], 1);
	CHECK_EQ(t.tiers[1][topo_rail(&t, "c")], 2); /* not listed */
	CHECK_EQ(t.tiers[2][topo_rail(&t, "b")], 0);
}

TEST(invalid_topologies_are_refused)
{
	static const char *const texts[] = {"", "[]", "{}", "{\"nics\": []}",
		"{\"nics\": [{\"name\": 1}]}", "{\"nics\": [{\"name\": \"a\"}, {\"name\": \"a\"}]}",
		"{\"nics\": [{\"name\": \"a\"}], \"mems\": [{\"name\": \"cpu:0\", \"device_list\": "
		"{\"rank0\": [1]}}]}",
		"{\"nics\": [{\"name\": \"a\"}], \"mems\": [{\"name\": \"cpu:0\", \"device_list\": "
		"{\"rank0\": [\"b\"]}}]}",
		"{\"cpu:0\": [[\"a\"], [], [], [\"b\"]]}", "{\"cpu:0\": [[\"a b\"]]}",
		"{\"cpu:0\": [[\"\"]]}", "{\"cpu:0\": [\"a\"]}", "{\"cpu 0\": [[\"a\"]]}"};
	struct topo t = {0};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		CHECK_EQ(topology(texts[i], &t), -EINVAL);
	CHECK_EQ(t.n_rails, 0);
}

TEST(topologies_have_limits)
{
	char name[TENT_NAME_LEN + 1], text[2 * TENT_NAME_LEN];
	struct topo t;

	topo_init(&t);
	for (int i = 0; i < TENT_MAX_RAILS; i++) {
		snprintf(name, sizeof(name), "m%d", i);
		CHECK_EQ(topo_add_rail(&t, name, NULL), 0);
	}
	CHECK_EQ(topo_add_rail(&t, "one-more", NULL), -EINVAL);
	for (int i = 1; i < TOPO_MAX_LOCATIONS; i++) {
		snprintf(name, sizeof(name), "cpu:%d", i);
		CHECK_EQ(topo_add_location(&t, name, NULL), 0);
	}
	CHECK_EQ(topo_add_location(&t, "one-more", NULL), -EINVAL);
	memset(name, 'x', TENT_NAME_LEN);
	name[TENT_NAME_LEN] = 0;
	snprintf(text, sizeof(text), "{\"cpu:0\": [[\"%s\"]]}", name);
	CHECK_EQ(topology(text, &t), -EINVAL);
}

/* A machine with more NUMA nodes than there may be locations. */
TEST(nodes_have_limits)
{
	struct topo t;

	CHECK_EQ(setenv("HWLOC_SYNTHETIC", "numa:70 core:1 pu:1", 1), 0);
	topo_init(&t);
	CHECK_EQ(topo_add_rail(&t, "m0", NULL), 0);
	CHECK_EQ(topo_from_hwloc(&t, NULL), 0);
	CHECK_EQ(unsetenv("HWLOC_SYNTHETIC"), 0);
	CHECK_EQ(t.n_locations, TOPO_MAX_LOCATIONS);
	CHECK_EQ(topo_location(&t, "cpu:62"), TOPO_MAX_LOCATIONS - 1);
	CHECK_EQ(topo_location(&t, "cpu:63"), -1);
}

/* ---- notices ---- */

static bool count(struct notice_counter *c, uint8_t slot, uint64_t lap, uint8_t position,
	uint8_t positions)
{
	const struct notice_mark m = {
		.lap = lap,
		.value = 77,
		.slot = slot,
		.position = position,
		.positions = positions,
	};

	return notice_count(c, &m);
}

TEST(a_notice_is_counted_once)
{
	struct notice_counter c = {0};

	CHECK(!count(&c, 3, 1, 0, 3));
	CHECK(!count(&c, 3, 1, 2, 3));
	CHECK(!count(&c, 3, 1, 2, 3)); /* sent again */
	CHECK(count(&c, 4, 1, 0, 1)); /* another slot */
	CHECK(count(&c, 3, 1, 1, 3));
	CHECK(!count(&c, 3, 1, 1, 3)); /* sent again, after the end */
	CHECK(!count(&c, 3, 2, 1, 2)); /* the next request in the slot */
	CHECK(count(&c, 3, 2, 0, 2));
	CHECK(!count(&c, 6, 1, 0, 32));
	for (uint8_t i = 1; i < 32; i++)
		CHECK_EQ(count(&c, 6, 1, i, 32), i == 31);
}

/* The requests of the skipped laps have failed, and none of their marks have arrived. */
TEST(laps_may_be_missing)
{
	struct notice_counter c = {0};
	uint64_t lap = 1;

	CHECK(count(&c, 3, lap, 0, 1));
	for (uint32_t bit = 0; bit < 63; bit++) {
		lap += 1ull << bit;
		CHECK(count(&c, 3, lap, 0, 1));
	}
	CHECK(!count(&c, 5, 9, 0, 2));
	CHECK(!count(&c, 5, 10, 1, 2)); /* of lap 10, and does not complete lap 9 */
	CHECK(count(&c, 5, 10, 0, 2));
}

/*
 * A mark that is delayed until later marks of its slot have arrived is ignored, however many laps
 * later they are.
 */
TEST(a_late_mark_counts_for_nothing)
{
	struct notice_counter c = {0};

	CHECK(count(&c, 3, 7, 0, 1));
	for (uint32_t bit = 0; bit < 64; bit++) {
		uint64_t lap = 7 + (1ull << bit);

		if (lap < 7)
			break;
		CHECK(!count(&c, 3, lap, 0, 2));
		CHECK(!count(&c, 3, 7, 0, 1));
		CHECK(!count(&c, 3, lap - 1, 1, 2));
		CHECK(count(&c, 3, lap, 1, 2));
	}
}

TEST(invalid_marks_are_ignored)
{
	struct notice_counter c = {0}, none = {0};

	CHECK(!count(&c, NOTICE_SLOTS, 1, 0, 1));
	CHECK(!count(&c, 255, 1, 0, 1));
	CHECK(!count(&c, 5, 1, 0, 0));
	CHECK(!count(&c, 5, 1, 2, 2));
	CHECK(!count(&c, 5, 1, 0, 33));
	CHECK(!count(&c, 5, 1, 40, 64));
	CHECK(!memcmp(&c, &none, sizeof(c)));
}

/* notice_next() returns notices in the order of their numbers, without those that were skipped. */
TEST(notices_are_given_in_order)
{
	const uint8_t bytes[NOTICE_BYTES] = {1, 2, 3};
	struct notice_mark m = {.lap = 1, .slot = 1, .positions = 1, .len = 3};
	struct notice_counter c = {0};

	CHECK_EQ(notice_next(&c, false), NOTICE_SLOTS);
	CHECK(!notice_count(&c, &m)); /* without the bytes */
	CHECK(notice_note(&c, &m, bytes));
	CHECK(!notice_note(&c, &m, bytes));
	CHECK(c.slots[1].len == 3 && c.slots[1].bytes[2] == 3);
	CHECK_EQ(notice_next(&c, false), NOTICE_SLOTS);
	CHECK_EQ(notice_next(&c, true), 1);
	m.slot = 0;
	CHECK(!notice_note(&c, &m, bytes)); /* without the mark */
	CHECK_EQ(notice_next(&c, true), 1);
	CHECK(notice_count(&c, &m));
	CHECK_EQ(notice_next(&c, false), 0);
	c.slots[0].over = true;
	CHECK_EQ(notice_next(&c, false), 1);
	c.slots[1].over = true;
	CHECK_EQ(notice_next(&c, false), NOTICE_SLOTS);
	CHECK(!notice_count(&c, &m)); /* the notice is over */
	for (uint8_t slot = NOTICE_SLOTS - 1; slot >= 2; slot--) {
		CHECK(count(&c, slot, 1, 0, 1));
		CHECK_EQ(notice_next(&c, false), slot == 2 ? 2 : NOTICE_SLOTS);
	}
	m = (struct notice_mark){.lap = 1, .slot = 2, .positions = 1};
	notice_skip(&c, &m);
	CHECK_EQ(notice_next(&c, false), 3);
	m.positions = 0;
	m.slot = 3;
	notice_skip(&c, &m); /* the mark is invalid */
	CHECK_EQ(notice_next(&c, false), 3);
	m = (struct notice_mark){.lap = 2, .slot = 0, .positions = 1};
	notice_skip(&c, &m);
	CHECK(!notice_count(&c, &m)); /* its request has failed */
}

/* ---- places ---- */

TEST(sets_of_tiers_have_a_limit)
{
	static uint8_t tiers[SCHED_MAX_LOCATIONS + 9][TENT_MAX_RAILS];
	static struct place_sets sets;

	for (uint32_t i = 0; i < SCHED_MAX_LOCATIONS + 9; i++) {
		for (uint32_t bit = 0; bit < 12; bit++)
			tiers[i][bit] = i >> bit & 1;
	}
	place_sets_init(&sets, SCHED_MAX_LOCATIONS);
	CHECK_EQ(place_set(&sets, tiers[0]), 0); /* all tiers of set 0 are 0 */
	for (uint32_t i = 1; i < SCHED_MAX_LOCATIONS; i++)
		CHECK_EQ(place_set(&sets, tiers[i]), i);
	CHECK_EQ(place_set(&sets, tiers[7]), 7);
	for (uint32_t i = SCHED_MAX_LOCATIONS; i < SCHED_MAX_LOCATIONS + 9; i++)
		CHECK_EQ(place_set(&sets, tiers[i]), 0);
	CHECK_EQ(sets.n, SCHED_MAX_LOCATIONS);
}

/* ---- causes and error messages ---- */

/*
 * Each of two messages tests one port. A port is blamed only if its message was lost and the other
 * message arrived.
 */
TEST(two_messages_have_a_verdict)
{
	static const enum tent_fault verdicts[3][3] = {
		[MESSAGE_NONE] = {TENT_FAULT_UNKNOWN, TENT_FAULT_UNKNOWN, TENT_FAULT_UNKNOWN},
		[MESSAGE_LOST] = {TENT_FAULT_UNKNOWN, TENT_FAULT_UNKNOWN, TENT_FAULT_OWN_PORT},
		[MESSAGE_ARRIVED] = {TENT_FAULT_UNKNOWN, TENT_FAULT_PEER_PORT, TENT_FAULT_PATH},
	};

	for (int ours = 0; ours < 3; ours++) {
		for (int theirs = 0; theirs < 3; theirs++)
			CHECK_EQ(blame_verdict((enum blame_message)ours,
					 (enum blame_message)theirs),
				verdicts[ours][theirs]);
	}
	CHECK(!strcmp(tent_fault_name(TENT_FAULT_REFUSED), "refused"));
	CHECK(!strcmp(tent_fault_name((enum tent_fault)99), "?"));
}

TEST(a_failed_registration_names_its_limit)
{
	const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY}, some = {65536, 65536};
	struct tent_why why;

	CHECK_EQ(memory_why(-ENOMEM, &some, 1 << 20, &why), -ENOMEM);
	CHECK(strstr(why.text, "65536") && strstr(why.text, "ulimit -l"));
	CHECK_EQ(memory_why(-ENOMEM, &none, 1 << 20, &why), -ENOMEM);
	CHECK(strstr(why.text, "max_map_count") && !strstr(why.text, "ulimit"));
	CHECK_EQ(memory_why(-EFAULT, &some, 1 << 20, &why), -EFAULT);
	CHECK(strstr(why.text, "not mapped"));
}
