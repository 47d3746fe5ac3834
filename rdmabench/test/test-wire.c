/* SPDX-License-Identifier: MIT */
/* The TCP connection: bodies are read back unchanged, and hostile peers do no harm. */
#include <errno.h>
#include <sys/socket.h>

#include "support/test.h"
#include "wire.h"

#define SHORT_NS (20 * NSEC_PER_MSEC)
#define LONG_NS (60 * NSEC_PER_SEC)

static struct wire_conn us;
static int them;
static char why[WIRE_TEXT_MAX];

static void close_pair(void)
{
	wire_close(&us);
	wire_close(&us);
	if (them >= 0)
		close(them);
}

static void open_pair(void)
{
	int fd[2];

	test_finally(close_pair);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	wire_open(&us, fd[0], "peer");
	them = fd[1];
}

static void they_send(const void *bytes, size_t n)
{
	CHECK_EQ(send(them, bytes, n, 0), (ssize_t)n);
}

/* Sends a header; the tests make one field invalid. */
static void they_send_header(uint32_t magic, uint16_t version, uint16_t kind, uint32_t len)
{
	uint8_t header[WIRE_HEADER];
	struct wire_buf b = {header, header + sizeof(header), true};

	wire_put(&b, magic, 4);
	wire_put(&b, version, 2);
	wire_put(&b, kind, 2);
	wire_put(&b, len, 4);
	CHECK(b.ok && b.at == b.end);
	they_send(header, sizeof(header));
}

static int expect(enum wire_kind kind, struct wire_buf *b)
{
	return wire_expect(&us, kind, LONG_NS, b, why);
}

TEST(messages_keep_their_bounds)
{
	struct wire_conn peer;
	struct wire_buf b;

	open_pair();
	wire_open(&peer, them, "us");
	CHECK_EQ(wire_send(&peer, WIRE_GO, "abc", 3, LONG_NS), 0);
	CHECK_EQ(wire_send(&peer, WIRE_ALIVE, NULL, 0, LONG_NS), 0);
	CHECK_EQ(wire_send(&peer, WIRE_DONE, "", 0, LONG_NS), 0);
	CHECK_EQ(wire_refuse(&peer, "no\n\033[room", LONG_NS), 0);
	CHECK_EQ(expect(WIRE_GO, &b), 0);
	CHECK(b.end - b.at == 3 && !memcmp(b.at, "abc", 3));
	CHECK_EQ(expect(WIRE_DONE, &b), 0);
	CHECK(b.end == b.at);
	CHECK_EQ(expect(WIRE_DONE, &b), -ECONNREFUSED);
	CHECK(!strcmp(why, "no??[room"));
	CHECK_EQ(wire_poll(&us, LONG_NS, &b), 0);
}

TEST(strangers_are_refused)
{
	static const struct {
		uint32_t magic;
		uint16_t version, kind;
		uint32_t len;
		int err;
	} cases[] = {
		{WIRE_MAGIC + 1, WIRE_VERSION, WIRE_GO, 0, -EBADMSG},
		{WIRE_MAGIC, WIRE_VERSION + 1, WIRE_GO, 0, -EPROTONOSUPPORT},
		{WIRE_MAGIC, WIRE_VERSION - 1, WIRE_GO, 0, -EPROTONOSUPPORT},
		{WIRE_MAGIC, WIRE_VERSION, 0, 0, -EBADMSG},
		{WIRE_MAGIC, WIRE_VERSION, WIRE_ALIVE + 1, 0, -EBADMSG},
		{WIRE_MAGIC, WIRE_VERSION, WIRE_GO, WIRE_BODY_MAX + 1, -EMSGSIZE},
		{WIRE_MAGIC, WIRE_VERSION, WIRE_GO, UINT32_MAX, -EMSGSIZE},
		{WIRE_MAGIC, WIRE_VERSION, WIRE_JOIN, 0, -EBADMSG},
		{WIRE_MAGIC, WIRE_VERSION, WIRE_GO, 0, 0},
	};
	struct wire_buf b;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		open_pair();
		they_send_header(cases[i].magic, cases[i].version, cases[i].kind, cases[i].len);
		CHECK_EQ(expect(WIRE_GO, &b), cases[i].err);
	}
	open_pair();
	they_send("GET / HTTP/1.0\r\n\r\n", 18);
	CHECK_EQ(expect(WIRE_GO, &b), -EBADMSG);
}

/* A peer that sends nothing times out. Bytes of an incomplete message do not extend the time. */
TEST(slow_peers_are_given_up)
{
	struct wire_buf b;
	int got;

	open_pair();
	CHECK_EQ(wire_expect(&us, WIRE_GO, SHORT_NS, &b, why), -ETIMEDOUT);
	they_send_header(WIRE_MAGIC, WIRE_VERSION, WIRE_GO, 1000);
	do {
		they_send("x", 1);
		got = wire_poll(&us, SHORT_NS, &b);
	} while (!got);
	CHECK_EQ(got, -ETIMEDOUT);
	close(them);
	them = -1;
	open_pair();
	close(them);
	them = -1;
	CHECK_EQ(expect(WIRE_GO, &b), -ECONNRESET);
}

/* A peer that does not read times out as well. */
TEST(deaf_peers_are_given_up)
{
	static uint8_t body[WIRE_BODY_MAX];
	int err = 0;

	open_pair();
	for (int i = 0; i < 1000 && !err; i++)
		err = wire_send(&us, WIRE_DONE, body, sizeof(body), SHORT_NS);
	CHECK_EQ(err, -ETIMEDOUT);
}

/* Often enough for a peer with a --timeout of one second, whatever our own limit is. */
TEST(alive_comes_four_times_a_second)
{
	struct wire_conn peer;
	struct wire_buf b;
	uint64_t now;

	open_pair();
	wire_open(&peer, them, "us");
	now = peer.alive_ns;
	CHECK_EQ(wire_alive(&peer, now + NSEC_PER_SEC / 4 - 1, LONG_NS), 0);
	CHECK_EQ(recv(us.fd, why, sizeof(why), MSG_DONTWAIT), -1);
	us.heard_ns = 0;
	CHECK_EQ(wire_alive(&peer, now + NSEC_PER_SEC / 4, LONG_NS), 0);
	CHECK_EQ(wire_alive(&peer, now + NSEC_PER_SEC / 4 + 1, LONG_NS), 0);
	CHECK_EQ(wire_poll(&us, LONG_NS, &b), WIRE_ALIVE);
	CHECK(us.heard_ns > 0);
	CHECK_EQ(wire_poll(&us, LONG_NS, &b), 0);
}

/* Otherwise a client could make a server wait for longer than the time limit. */
TEST(a_client_that_is_only_alive_is_refused)
{
	static const enum wire_kind awaited[] = {WIRE_HELLO, WIRE_JOIN};

	for (size_t i = 0; i < ARRAY_SIZE(awaited); i++) {
		struct wire_conn peer;
		struct wire_buf b;

		open_pair();
		wire_open(&peer, them, "us");
		CHECK_EQ(wire_send(&peer, WIRE_ALIVE, NULL, 0, LONG_NS), 0);
		CHECK_EQ(wire_expect(&us, awaited[i], SHORT_NS, &b, why), -EBADMSG);
	}
}

static struct wire_buf body_of(uint8_t *bytes, size_t n)
{
	return (struct wire_buf){bytes, bytes + n, true};
}

/* Writes a traffic as a message and reads it back. */
static int send_traffic(const struct traffic *t, struct traffic *back_p)
{
	uint8_t bytes[1000];
	struct wire_buf b = body_of(bytes, wire_put_traffic(bytes, sizeof(bytes), t));

	return wire_get_traffic(&b, back_p, why);
}

static int send_side(const struct wire_side *s, uint32_t qps, struct wire_side *back_p)
{
	static uint8_t bytes[WIRE_BODY_MAX];
	struct wire_buf b = body_of(bytes, wire_put_side(bytes, sizeof(bytes), s));

	return wire_get_side(&b, qps, back_p);
}

/* Checks that too short and too long bodies are refused. @get reads a body of two QPs. */
static void only_whole_bodies(uint8_t *bytes, size_t n, int (*get)(struct wire_buf *b))
{
	for (size_t len = 0; len <= n + 1; len++) {
		struct wire_buf b = body_of(bytes, len);

		CHECK_EQ(get(&b), len == n ? 0 : -EBADMSG);
	}
}

static int get_traffic(struct wire_buf *b)
{
	struct traffic t;

	return wire_get_traffic(b, &t, why);
}

static int get_side(struct wire_buf *b)
{
	static struct wire_side s;

	return wire_get_side(b, 2, &s);
}

static int get_tally(struct wire_buf *b)
{
	static struct wire_tally t;

	return wire_get_tally(b, 2, &t);
}

/* Returns a traffic in which most values differ from the defaults. */
static struct traffic unusual(void)
{
	struct traffic t;

	traffic_init(&t);
	t.type = MLX5DVL_UC;
	t.bidirectional = true;
	t.mtu = 3;
	t.qps = 7;
	t.depth = 99;
	t.send_batch = 9;
	t.recv_batch = 5;
	t.rx_depth = 77;
	t.buffers = 6;
	t.regions = 5;
	t.inline_max = 33;
	t.burst = 4;
	t.burst_pause_us = 12;
	t.retries = 3;
	t.reads = 9;
	t.sl = 11;
	t.traffic_class = 0xa8;
	t.moderation = 17;
	t.sleeps = t.again = true;
	t.control = CONTROL_RKEY;
	t.control_us = 345;
	t.inject = INJECT_RNR;
	t.inject_at = 98765432109;
	t.iterations = 123456789012;
	t.rate = 4242;
	snprintf(t.pattern_text, sizeof(t.pattern_text), "w_1_5,s_1_6");
	return t;
}

TEST(traffic_comes_back)
{
	struct traffic t = unusual(), back;
	uint8_t bytes[1000];
	struct wire_buf b;
	size_t n;

	CHECK_EQ(traffic_check(&t, why, sizeof(why)), 0);
	memset(&back, 0, sizeof(back));
	CHECK_EQ(send_traffic(&t, &back), 0);
	CHECK(!memcmp(&t.pattern, &back.pattern, sizeof(t.pattern)));
	CHECK(back.type == t.type && back.bidirectional && !back.check && back.mtu == 3);
	CHECK(back.qps == 7 && back.depth == 99 && back.send_batch == 9 && back.recv_batch == 5);
	CHECK(back.buffers == 6 && back.regions == 5);
	CHECK(back.rx_depth == 77 && back.inline_max == 33 && back.burst == 4);
	CHECK(back.burst_pause_us == 12 && back.iterations == t.iterations && back.rate == 4242);
	CHECK(back.duration_ns == t.duration_ns && back.qp_timeout == 14);
	CHECK(back.moderation == 17 && back.sleeps && back.again);
	CHECK(back.retries == 3 && back.reads == 9 && back.sl == 11 && back.traffic_class == 0xa8);
	CHECK(back.control == CONTROL_RKEY && back.control_us == 345);
	CHECK(back.inject == INJECT_RNR && back.inject_at == t.inject_at);
	n = wire_put_traffic(bytes, sizeof(bytes), &t);
	only_whole_bodies(bytes, n, get_traffic);
	CHECK_EQ(wire_put_traffic(bytes, n - 1, &t), 0);
	t.depth = 0;
	CHECK_EQ(send_traffic(&t, &back), -EINVAL);
	traffic_init(&t);
	t.cm = true;
	CHECK(!back.cm && !send_traffic(&t, &back) && back.cm);
	t.cm = false;
	n = wire_put_traffic(bytes, sizeof(bytes), &t);
	bytes[1] |= 0x40; /* a flag that this version does not have */
	b = body_of(bytes, n);
	CHECK_EQ(wire_get_traffic(&b, &back, why), -EBADMSG);
}

/* Traffic that is not possible as a ping-pong is refused. */
TEST(pingpongs_are_checked)
{
	static const struct {
		const char *pattern;
		uint32_t depth, warm_up;
		bool both, sleeps;
		int err;
	} cases[] = {
		{"w_1_5", 1, 7, .err = 0},
		{"s_2_5_6", 1, 0, .sleeps = true, .err = 0},
		{"wi_1_5", 1, 0, .sleeps = true, .err = 0},
		{"w_1_5", 1, 0, .sleeps = true, .err = -EINVAL},
		{"w_1_5", 1, 8, .err = -EINVAL},
		{"w_1_5", 2, 0, .err = -EINVAL},
		{"w_1_5", 1, 0, .both = true, .err = -EINVAL},
		{"s_1_5,s_1_5", 1, 0, .err = -EINVAL},
		{"r_1_5", 1, 0, .err = -EINVAL},
		{"a_1_8", 1, 0, .err = -EINVAL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct traffic t, back = {.qps = 77};

		traffic_init(&t);
		t.pingpong = true;
		t.iterations = 8;
		t.depth = cases[i].depth;
		t.warm_up = cases[i].warm_up;
		t.bidirectional = cases[i].both;
		t.sleeps = cases[i].sleeps;
		strcpy(t.pattern_text, cases[i].pattern);
		CHECK_EQ(send_traffic(&t, &back), cases[i].err);
		CHECK(cases[i].err ? back.qps == 77 : back.pingpong && back.warm_up == t.warm_up);
	}
}

/* The reason is printed to a terminal, so it has no control characters. */
TEST(a_pattern_stays_one_line)
{
	struct traffic t = unusual(), back;

	strcpy(t.pattern_text, "\033]0;owned\a\nall is well");
	CHECK_EQ(send_traffic(&t, &back), -EINVAL);
	CHECK(strstr(why, "?]0;owned??all"));
}

TEST(sides_come_back)
{
	static struct wire_side s, back;
	static uint8_t bytes[WIRE_BODY_MAX + 1];
	struct wire_buf b;
	size_t n;

	s = (struct wire_side){.run = "r-1",
		.cm_port = 0xfedc,
		.addr = 0x123456789abc,
		.qps = 2,
		.rkey = {0x1234, 0x5678}};
	s.qp[1] = (struct mlx5dvl_qp_info){.qpn = 5, .psn = 6, .lid = 7, .mtu = 3, .rd_atomic = 9};
	s.qp[1].qkey = 11;
	s.qp[1].gid[15] = 12;
	CHECK_EQ(send_side(&s, 2, &back), 0);
	CHECK(!strcmp(back.run, "r-1") && back.addr == s.addr && back.cm_port == 0xfedc &&
		back.rkey[0] == 0x1234 && back.rkey[1] == 0x5678);
	CHECK(!memcmp(&back.qp[1], &s.qp[1], sizeof(s.qp[1])));
	CHECK_EQ(send_side(&s, 1, &back), -EBADMSG);
	n = wire_put_side(bytes, sizeof(bytes), &s);
	only_whole_bodies(bytes, n, get_side);
	bytes[WIRE_RUN_MAX + 10] = 3; /* the field qps; the body still has two QPs */
	b = body_of(bytes, n);
	CHECK_EQ(wire_get_side(&b, 2, &back), -EBADMSG);
	snprintf(s.run, sizeof(s.run), "../x");
	CHECK_EQ(send_side(&s, 2, &back), -EBADMSG);
	memset(s.run, 'a', sizeof(s.run));
	CHECK_EQ(send_side(&s, 2, &back), -EBADMSG);
	s.qps = TRAFFIC_QPS_MAX;
	CHECK(wire_put_side(bytes, WIRE_BODY_MAX, &s) > 0); /* the largest fits */
}

TEST(tallies_come_back)
{
	static struct wire_tally t, back;
	static uint8_t bytes[WIRE_BODY_MAX + 1];
	struct wire_buf b;
	size_t n;

	t = (struct wire_tally){.messages = 1,
		.bytes = 2,
		.elapsed_ns = 3,
		.mismatches = 4,
		.errors = 5,
		.first_error = -EACCES,
		.qps = 2,
		.posted = {7, 8}};
	n = wire_put_tally(bytes, sizeof(bytes), &t);
	b = body_of(bytes, n);
	CHECK_EQ(wire_get_tally(&b, 2, &back), 0);
	CHECK(!memcmp(&t, &back, sizeof(t)));
	b = body_of(bytes, n);
	CHECK_EQ(wire_get_tally(&b, 3, &back), -EBADMSG);
	only_whole_bodies(bytes, n, get_tally);
	t.qps = TRAFFIC_QPS_MAX;
	CHECK(wire_put_tally(bytes, WIRE_BODY_MAX, &t) > 0);
}
