/* SPDX-License-Identifier: MIT */
/* The library between two processes: the promises of its manual, on rails of each kind. */
#include <poll.h>

#include "duo.h"

static uint64_t seed;

/* Bytes move exactly where they should, and nowhere else. */
TEST(a_write_and_a_read)
{
	const size_t len = 8 * MIB, gap = 4096;

	duo_open(&(struct duo_attr){.len = len});
	duo_random(&seed, d.mine, len);
	CHECK_EQ(duo_move(TENT_WRITE, gap, len - 2 * gap, 0), 0);
	CHECK(!memcmp(d.mine + gap, d.theirs + gap, len - 2 * gap));
	test_filled(d.theirs, gap, 0);
	test_filled(d.theirs + len - gap, gap, 0);
	duo_random(&seed, d.theirs, len);
	CHECK_EQ(duo_move(TENT_READ, 0, len, 0), 0);
	CHECK(!memcmp(d.mine, d.theirs, len));
}

TEST(lengths_of_all_kinds)
{
	static const size_t lengths[] = {1, 63, 64, 65, 4096, 65535, 65536, 65537, 33 * 65536,
		33 * 65536 + 1, 65536 + 16383, 65536 + 16384, 3 * 1024 * 1024 + 7};

	duo_open(&(struct duo_attr){.len = 4 * MIB});
	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		memset(d.theirs, 0, d.len);
		duo_random(&seed, d.mine, d.len);
		CHECK_EQ(duo_move(TENT_WRITE, 100, lengths[i], 0), 0);
		CHECK(!memcmp(d.mine + 100, d.theirs + 100, lengths[i]));
		CHECK_EQ(d.theirs[99], 0);
		CHECK_EQ(d.theirs[100 + lengths[i]], 0);
	}
}

/* Many requests in a batch, more than the scheduler takes at a time. */
TEST(a_batch_of_many)
{
	const uint32_t n = 1000;
	const size_t each = 5000;
	AT_END(end_free) struct tent_request *r = calloc(n, sizeof(*r));
	struct tent_status status;
	struct tent_batch *b;

	duo_open(&(struct duo_attr){.len = n * each});
	duo_random(&seed, d.mine, d.len);
	for (uint32_t i = 0; i < n; i++)
		r[i] = duo_request(TENT_WRITE, i * each, each);
	b = duo_submit(r, n);
	CHECK_EQ(tent_wait(b, -1), 0);
	CHECK(!memcmp(d.mine, d.theirs, d.len));
	CHECK_EQ(duo_status(b).state, TENT_COMPLETED);
	CHECK_EQ(duo_status(b).bytes, n * each);
	CHECK_EQ(tent_task_status(b, n - 1, &status, sizeof(status)), 0);
	CHECK_EQ(status.bytes, each);
	CHECK_EQ(tent_task_status(b, n, &status, sizeof(status)), -ENOENT);
	CHECK_EQ(tent_batch_free(b), 0);
}

/*
 * The two sides register their memory in parts with different ends: no slice crosses one of them.
 */
TEST(registrations_in_parts)
{
	struct tent_request r[2];

	duo_open(&(struct duo_attr){.len = 3 * MIB, .parts = 100 * 1024, .buffers = 3});
	duo_random(&seed, d.mine, d.len);
	CHECK_EQ(duo_move(TENT_WRITE, 0, MIB + 1, 0), -EFAULT); /* two registrations */
	CHECK_EQ(duo_move(TENT_WRITE, 12345, MIB - 12345, 0), 0);
	r[0] = duo_request(TENT_WRITE, MIB, MIB);
	r[1] = duo_request(TENT_WRITE, 2 * MIB + 77, MIB - 77);
	CHECK_EQ(duo_end(duo_submit(r, 2)), 0);
	CHECK(!memcmp(d.mine + 12345, d.theirs + 12345, 2 * MIB - 12345));
	CHECK(!memcmp(d.mine + 2 * MIB + 77, d.theirs + 2 * MIB + 77, MIB - 77));
}

TEST(a_descriptor_tells_the_end)
{
	duo_open(&(struct duo_attr){.len = MIB});
	for (int late = 0; late < 2; late++) {
		struct tent_batch *b = duo_start(TENT_WRITE, 0, MIB);
		struct pollfd p = {.events = POLLIN};

		if (late)
			CHECK_EQ(tent_wait(b, -1), 0);
		p.fd = tent_batch_fd(b);
		CHECK(p.fd >= 0);
		CHECK_EQ(tent_batch_fd(b), p.fd);
		CHECK_EQ(poll(&p, 1, 60000), 1);
		CHECK_EQ(tent_wait(b, 0), 0);
		CHECK_EQ(tent_batch_free(b), 0);
	}
}

/* The child gets each value from 1 to n once, and no other. */
static void take_all(uint16_t n)
{
	bool seen[101] = {false};

	for (uint16_t i = 0; i < n; i++) {
		uint16_t value = duo_ask('n');

		CHECK(value >= 1 && value <= n && !seen[value]);
		seen[value] = true;
	}
	duo_ask('e');
}

TEST(notices_come_after_the_bytes)
{
	duo_open(&(struct duo_attr){.len = 4 * MIB});
	for (uint16_t i = 1; i <= 100; i++) {
		duo_random(&seed, d.mine, d.len);
		CHECK_EQ(duo_move(TENT_WRITE, i * 1000u, i * 20000u, i), 0);
		CHECK_EQ(duo_ask('n'), i);
		CHECK(!memcmp(d.mine + i * 1000u, d.theirs + i * 1000u, i * 20000u));
	}
	for (uint16_t i = 1; i <= 100; i++)
		CHECK_EQ(duo_move(i % 2 ? TENT_WRITE : TENT_READ, i, i * 20000u, i), 0);
	take_all(100);
}

/* More simultaneous requests with notices than there are slots. */
TEST(many_notices_at_once)
{
	struct tent_request r[100];

	duo_open(&(struct duo_attr){.len = 100 * 4096});
	for (uint16_t i = 0; i < 100; i++) {
		r[i] = duo_request(TENT_WRITE, i * 4096u, 4096);
		r[i].notify = (uint16_t)(i + 1);
	}
	CHECK_EQ(duo_end(duo_submit(r, 100)), 0);
	take_all(100);
}

TEST(cancelled_requests_end)
{
	enum { N = 300 };
	struct tent_request r[N];
	struct tent_status status;
	struct tent_batch *b;
	uint64_t bytes = 0;
	int err;

	duo_open(&(struct duo_attr){.len = MIB});
	for (uint32_t i = 0; i < N; i++)
		r[i] = duo_request(TENT_WRITE, 0, MIB);
	b = duo_submit(r, N);
	tent_cancel(b);
	err = tent_wait(b, -1);
	for (uint32_t i = 0; i < N; i++) {
		CHECK_EQ(tent_task_status(b, i, &status, sizeof(status)), 0);
		CHECK(status.state == TENT_COMPLETED || status.state == TENT_CANCELED);
		CHECK_EQ(status.state == TENT_CANCELED, status.err == -ECANCELED);
		bytes += status.bytes;
	}
	CHECK_EQ(duo_status(b).bytes, bytes);
	CHECK_EQ(duo_status(b).err, err);
	/* Adapters without delays may have moved all bytes before tent_cancel(). */
	CHECK(err == -ECANCELED || bytes == N * MIB);
	CHECK_EQ(tent_batch_free(b), 0);
	CHECK_EQ(duo_move(TENT_WRITE, 0, MIB, 0), 0);
}

/* The loss of a peer may be noticed only when a notice is sent. */
TEST(a_peer_dies_before_its_notices)
{
	for (int i = 0; i < 5; i++) {
		struct tent_request r[2];
		struct tent_batch *b;
		int err;

		duo_open(&(struct duo_attr){.len = MIB});
		for (int k = 0; k < 2; k++) {
			r[k] = duo_request(TENT_WRITE, 0, 4096);
			r[k].notify = 1;
		}
		duo_kill();
		while (!(err = tent_submit(d.t, r, 2, &b))) {
			tent_wait(b, -1);
			CHECK_EQ(tent_batch_free(b), 0);
		}
		CHECK_EQ(err, -ECONNRESET);
		test_now(duo_close);
	}
}

TEST(a_dead_peer_is_an_error)
{
	struct tent_request r;
	struct tent_batch *b;
	int err;

	duo_open(&(struct duo_attr){.len = 16 * MIB});
	duo_kill();
	r = duo_request(TENT_WRITE, 0, d.len);
	err = tent_submit(d.t, &r, 1, &b);
	if (!err) { /* the submit was before the engine detected the loss of the peer */
		err = tent_wait(b, -1);
		CHECK_EQ(duo_status(b).state, TENT_FAILED);
		CHECK_EQ(tent_batch_free(b), 0);
	}
	CHECK_EQ(err, -ECONNRESET);
	CHECK_EQ(duo_move(TENT_WRITE, 0, d.len, 0), -ECONNRESET);
}

TEST(what_is_used_stays)
{
	struct tent_batch *b;

	duo_open(&(struct duo_attr){.len = 64 * MIB});
	b = duo_start(TENT_WRITE, 0, d.len);
	if (tent_batch_free(b) == -EBUSY) {
		/* The memory is in use, unless the request has ended in between. */
		int u = tent_unregister(d.t, d.mine);

		CHECK(u == 0 || u == -EBUSY);
		if (!u)
			duo_own();
		CHECK_EQ(duo_end(b), 0);
	}
	CHECK_EQ(tent_unregister(d.t, d.mine + 1), -ENOENT);
	CHECK_EQ(tent_unregister(d.t, d.mine), 0);
	CHECK_EQ(tent_unregister(d.t, d.mine), -ENOENT);
	CHECK_EQ(duo_move(TENT_WRITE, 0, 1, 0), -EFAULT);
}

/* More requests of each class than the scheduler takes at a time. */
TEST(all_classes_move)
{
	const uint32_t n = 900, len = 1024;
	AT_END(end_free) struct tent_request *r = calloc(n, sizeof(*r));
	struct tent_batch *b;
	int err;

	duo_open(&(struct duo_attr){.len = MIB, .config = "{\"priorities\": 3}"});
	duo_random(&seed, d.mine, d.len);
	for (uint32_t i = 0; i < n; i++) {
		r[i] = duo_request(TENT_WRITE, (size_t)i * len, len);
		r[i].priority = (uint8_t)(i % 3);
	}
	CHECK_EQ(duo_end(duo_submit(r, n)), 0);
	CHECK(!memcmp(d.mine, d.theirs, (size_t)n * len));
	b = duo_submit(r, n);
	tent_cancel(b);
	err = duo_end(b);
	CHECK(!err || err == -ECANCELED);
	r[0].priority = 3;
	CHECK_EQ(tent_submit(d.t, r, 1, &b), -EINVAL);
}

TEST(bad_requests_start_nothing)
{
	static const int errors[] = {-EINVAL, -EINVAL, -EINVAL, -EINVAL, -EINVAL, -EFAULT, -EFAULT,
		-EFAULT};
	struct tent_request r[ARRAY_SIZE(errors)][2], *many;
	struct tent_batch *b = NULL;

	duo_open(&(struct duo_attr){.len = MIB});
	memset(d.mine, 1, d.len);
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
		r[i][0] = r[i][1] = duo_request(TENT_WRITE, 0, 1000);
	CHECK_EQ(tent_submit(d.t, r[0], 0, &b), -EINVAL);
	r[0][1].len = 0;
	r[1][1].len = UINT64_MAX;
	r[2][1].op = (enum tent_op)2;
	r[3][1].priority = 1; /* there is one class */
	r[4][1].segment = NULL;
	r[5][1].len = MIB + 1;
	r[6][1].remote = d.at - 1;
	r[7][1].local = d.mine + MIB - 999;
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
		CHECK_EQ(tent_submit(d.t, r[i], 2, &b), errors[i]);
	many = calloc(1025, sizeof(*many));
	for (int i = 0; i < 1025; i++)
		many[i] = r[0][0];
	CHECK_EQ(tent_submit(d.t, many, 1025, &b), -E2BIG); /* waiting would not help */
	free(many);
	CHECK(!b);
	test_filled(d.theirs, d.len, 0);
}

/* A stopped peer confirms no notices, so all but the first requests wait. */
TEST(too_many_requests_wait_for_some)
{
	enum { MOST = 1024 };
	AT_END(end_free) struct tent_request *r = calloc(MOST, sizeof(*r));
	struct tent_batch *b, *more;

	duo_open(&(struct duo_attr){.len = 4096});
	for (int i = 0; i < MOST; i++) {
		r[i] = duo_request(TENT_WRITE, 0, 64);
		r[i].notify = 1;
	}
	duo_stop();
	b = duo_submit(r, MOST);
	CHECK_EQ(tent_submit(d.t, r, MOST, &more), -EAGAIN);
	CHECK_EQ(kill(d.child, SIGCONT), 0);
	CHECK_EQ(duo_end(b), 0);
	CHECK_EQ(duo_end(duo_submit(r, MOST)), 0);
}

TEST(segments_belong_to_their_engine)
{
	uint8_t *memory = test_shared(4096);
	struct tent_batch *b = NULL;
	struct tent_request r[2];
	struct tent *other;

	duo_open(&(struct duo_attr){.len = 4096});
	/* After the fork: ThreadSanitizer allows no fork of a process with threads. */
	other = duo_create(NULL, 0, 0);
	CHECK_EQ(tent_register(other, memory, 4096, NULL, NULL), 0);
	r[0] = r[1] = duo_request(TENT_WRITE, 0, 4096);
	r[1].local = memory;
	CHECK_EQ(tent_submit(d.t, r, 2, &b), -EFAULT);
	CHECK_EQ(tent_submit(other, &r[1], 1, &b), -EINVAL);
	CHECK(!b);
	tent_destroy(other);
	munmap(memory, 4096);
}

/* Modes that bind slices at submit have room for 4,096 slices; mode pull takes any number. */
TEST(requests_of_many_parts)
{
	static const char *const configs[] = {"{\"scheduler\": \"smart\"}",
		"{\"scheduler\": \"baseline\"}", "{\"scheduler\": \"pull\"}"};

	if (!duo_shm_rails() && !duo_rails("tcp:"))
		return; /* so many regions of each adapter take long to register */
	for (size_t i = 0; i < ARRAY_SIZE(configs); i++) {
		duo_open(&(
			struct duo_attr){.len = 4097 * 4096, .parts = 4096, .config = configs[i]});
		duo_random(&seed, d.mine, d.len);
		CHECK_EQ(duo_move(TENT_WRITE, 0, d.len, 0), i < 2 ? -EMSGSIZE : 0);
		CHECK_EQ(duo_move(TENT_WRITE, 0, 4096 * 4096, 0), 0);
		CHECK(!memcmp(d.mine, d.theirs, 4096 * 4096));
	}
}

/*
 * Rails of all kinds refuse memory that an adapter could not write: one of three pages is not
 * writable or not mapped.
 */
TEST(memory_that_cannot_be_registered)
{
	static const struct {
		int page, prot; /* prot -1: the page is not mapped */
	} odd[] = {{0, PROT_READ}, {1, PROT_READ}, {2, PROT_READ}, {0, PROT_NONE}, {1, PROT_NONE},
		{2, PROT_NONE}, {0, -1}, {1, -1}, {2, -1}};
	struct tent *t = duo_create(NULL, 0, 0);

	for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
		uint8_t *m = test_shared(3 * 4096), *at = m + odd[i].page * 4096;
		struct tent_why why = {""};

		CHECK_EQ(tent_register(t, m, 3 * 4096, NULL, &why), 0);
		CHECK_EQ(tent_unregister(t, m), 0);
		CHECK_EQ(odd[i].prot < 0 ? munmap(at, 4096) : mprotect(at, 4096, odd[i].prot), 0);
		duo_not_registered(t, (uintptr_t)m, 3 * 4096, NULL, -EFAULT,
			"not mapped, or not writable");
		munmap(m, 3 * 4096);
	}
	tent_destroy(t);
}

TEST(registrations_are_checked)
{
	struct tent_why why;
	struct tent *t = duo_create(NULL, 0, 0);
	uint8_t *m = test_shared(8 * 4096);

	CHECK_EQ(tent_register(t, m, 0, NULL, &why), -EINVAL);
	CHECK_EQ(tent_register(t, m, SIZE_MAX, NULL, &why), -EINVAL);
	duo_not_registered(t, (uintptr_t)m, 4096, "cpu:999", -EINVAL, "location");
	CHECK(why.text[0]);
	CHECK_EQ(tent_register(t, m + 4096, 4096, "*", &why), 0);
	CHECK(!why.text[0]);
	duo_not_registered(t, (uintptr_t)m + 8191, 4096, NULL, -EEXIST, "overlap");
	CHECK_EQ(tent_register(t, m, 4097, NULL, &why), -EEXIST);
	CHECK_EQ(tent_register(t, m, 8 * 4096, NULL, &why), -EEXIST);
	CHECK_EQ(tent_register(t, m, 4096, "cpu:0", &why), 0);
	CHECK_EQ(tent_register(t, m + 8192, 4096, NULL, &why), 0);
	CHECK_EQ(tent_register(t, m + 8192, 4096, NULL, NULL), -EEXIST);
	CHECK_EQ(munmap(m + 7 * 4096, 4096), 0);
	duo_not_registered(t, (uintptr_t)m + 6 * 4096, 8192, NULL, -EFAULT, "not mapped");
	tent_destroy(t);
	munmap(m, 7 * 4096);
}

TEST(attributes_are_checked)
{
	char address[300];
	struct tent *t;
	char *text;

	memset(address, 'a', sizeof(address));
	address[sizeof(address) - 1] = 0;
	duo_refused(&(struct tent_attr){.shm_rails = 1, .config = "{}", .config_file = "x"},
		-EINVAL, "not both");
	duo_refused(&(struct tent_attr){.shm_rails = 33}, -EINVAL, "shm_rails: give up to 32");
	duo_refused(&(struct tent_attr){.size = sizeof(struct tent_attr), .tcp_rails = 33}, -EINVAL,
		"tcp_rails: give up to 32");
	duo_refused(&(struct tent_attr){.size = sizeof(struct tent_attr),
			    .shm_rails = 1,
			    .tcp_rails = 1},
		-EINVAL, "shared memory and TCP: give rails of one kind");
	duo_refused(&(struct tent_attr){.shm_rails = 1, .max_tasks = 65537}, -EINVAL,
		"up to 65536");
	duo_refused(&(struct tent_attr){.shm_rails = 1, .max_registration = 4095}, -EINVAL, "4096");
	duo_refused(&(struct tent_attr){.shm_rails = 1, .rail_wait_ms = -2}, -EINVAL, "or -1");
	duo_refused(&(struct tent_attr){.shm_rails = 1, .address = address}, -EINVAL, "address");
	duo_refused(&(struct tent_attr){.shm_rails = 1, .config = "{\"a\": 1}"}, -EINVAL,
		"no such key");
	duo_refused(&(struct tent_attr){.shm_rails = 1, .config_file = "/none"}, -ENOENT, "/none");
	duo_refused(&(struct tent_attr){.shm_rails = 1, .address = "192.0.2.1"}, -EADDRNOTAVAIL,
		"192.0.2.1");
	t = duo_create(NULL, 0, 0);
	CHECK_EQ(tent_export(t, &text), 0);
	duo_refused(&(struct tent_attr){.shm_rails = 1,
			    .port = (uint16_t)atoi(strstr(text, "\"port\":") + 7)},
		-EADDRINUSE, "127.0.0.1");
	free(text);
	tent_destroy(t);
}

/* The rails of a topology file are adapters. */
TEST(a_topology_is_for_adapters)
{
	static const char topology[] = "{\"cpu:0\": [[\"mlx5_0\"]]}";
	AT_END(end_close_fd) int fd = memfd_create("topology", 0);
	char config[100];

	CHECK(fd >= 0);
	CHECK_EQ(write(fd, topology, strlen(topology)), strlen(topology));
	snprintf(config, sizeof(config), "{\"topology\": \"/proc/self/fd/%d\"}", fd);
	duo_refused(&(struct tent_attr){.shm_rails = 1, .config = config}, -EINVAL,
		"leave it out with rails of shared memory");
	duo_refused(&(struct tent_attr){.size = sizeof(struct tent_attr),
			    .tcp_rails = 1,
			    .config = config},
		-EINVAL, "leave it out with rails of TCP");
}

/* Callers that were built with structs of another version, with fewer or more fields. */
TEST(structs_have_sizes)
{
	struct {
		struct tent_attr attr;
		uint64_t more;
	} later = {.attr = {.size = sizeof(later), .shm_rails = 1}, .more = 1};
	struct {
		struct tent_request r;
		uint64_t more;
	} requests[2] = {{.more = 1}, {.more = 1}};
	struct tent_rail_stats st;
	struct tent_remote remote;
	struct tent_status status;
	struct tent_batch *b;
	struct tent *t;

	duo_refused(&later.attr, -E2BIG, "a field");
	later.more = 0;
	CHECK_EQ(tent_create(&later.attr, NULL, &t), 0);
	tent_destroy(t);
	duo_open(&(struct duo_attr){.len = 4096});
	memset(&st, 0x7f, sizeof(st));
	CHECK_EQ(tent_rail_get_stats(d.s, 0, &st, offsetof(struct tent_rail_stats, bytes)), 0);
	CHECK(st.name[0] && st.name[0] != 0x7f);
	test_filled(&st.bytes, sizeof(st) - offsetof(struct tent_rail_stats, bytes), 0x7f);
	memset(&remote, 0x7f, sizeof(remote));
	CHECK_EQ(tent_segment_remote(d.s, 0, &remote, sizeof(remote.addr)), 0);
	CHECK_EQ(remote.addr, d.at);
	test_filled(&remote.len, sizeof(remote) - sizeof(remote.addr), 0x7f);
	CHECK_EQ(tent_segment_remote(d.s, 1, &remote, sizeof(remote)), -ENOENT);
	for (size_t i = 0; i < 2; i++) {
		requests[i].r = duo_request(TENT_WRITE, 100 * i, 50);
		requests[i].r.size = sizeof(requests[i]);
	}
	memset(d.mine, 'r', d.len);
	CHECK_EQ(tent_submit(d.t, &requests[0].r, 2, &b), -E2BIG);
	requests[0].more = requests[1].more = 0;
	requests[1].r.size = sizeof(requests[1].r);
	CHECK_EQ(tent_submit(d.t, &requests[0].r, 2, &b), -EINVAL);
	requests[1].r.size = sizeof(requests[1]);
	b = duo_submit(&requests[0].r, 2);
	CHECK_EQ(tent_wait(b, -1), 0);
	test_filled(d.theirs + 100, 50, 'r');
	memset(&status, 0x7f, sizeof(status));
	CHECK_EQ(tent_task_status(b, 1, &status, offsetof(struct tent_status, bytes)), 0);
	CHECK(status.state == TENT_COMPLETED && !status.err);
	test_filled(&status.bytes, sizeof(status.bytes), 0x7f);
	CHECK_EQ(tent_batch_free(b), 0);
	requests[0].r.size = offsetof(struct tent_request, notify); /* an older struct */
	b = duo_submit(&requests[0].r, 1);
	CHECK_EQ(duo_end(b), 0);
	requests[0].r.size++; /* a second request would not be aligned */
	CHECK_EQ(tent_submit(d.t, &requests[0].r, 1, &b), -EINVAL);
}

/* The largest value of max_registration is no limit, on either side. */
TEST(registrations_without_a_limit)
{
	duo_open(&(struct duo_attr){.len = 4096, .parts = UINT64_MAX});
	memset(d.mine, 'w', d.len);
	CHECK_EQ(duo_move(TENT_WRITE, 0, d.len, 0), 0);
	test_filled(d.theirs, d.len, 'w');
}

TEST(a_segment_of_another_engine_is_refused)
{
	char *key;

	duo_open(&(struct duo_attr){.len = 4096, .no_import = true});
	key = strstr(d.text, "\"key\":\"") + 7;
	key[0] = key[0] == '0' ? '1' : '0';
	duo_not_imported(d.t, d.text, -EACCES, "does not know");
	strstr(d.text, "\"tent\":6")[7] = '1';
	duo_not_imported(d.t, d.text, -EPROTONOSUPPORT, "version 1");
}

int main(int argc, char **argv)
{
	seed = test_seed();
	return test_main(argc, argv);
}
