/* SPDX-License-Identifier: MIT */
/* Patterns and traffic: parsing, refusals, the memory that they take, and receives. */
#include <errno.h>

#include "support/test.h"
#include "mlx5dvl.h"
#include "side.h"
#include "traffic.h"

static char why[200];

TEST(patterns_are_understood)
{
	struct pattern p;

	CHECK_EQ(pattern_parse("w_1_65536,s_2_4096_512,r_4_1_2_3_4,si_1_8388608", &p, why,
			 sizeof(why)),
		0);
	CHECK(p.n == 4 && p.request[0].opcode == MLX5DVL_WRITE && p.request[0].total == 65536);
	CHECK(p.request[1].opcode == MLX5DVL_SEND && p.request[1].n == 2);
	CHECK(p.request[1].len[0] == 4096 && p.request[1].len[1] == 512);
	CHECK(p.request[2].opcode == MLX5DVL_READ && p.request[2].total == 10);
	CHECK(p.request[3].opcode == MLX5DVL_SEND_IMM);
	CHECK(p.largest == 8388608 && p.largest_send == 8388608 && p.receives == 2);
	CHECK_EQ(p.kinds, 1 << PATTERN_WRITE | 1 << PATTERN_READ | 1 << PATTERN_SEND);
	CHECK_EQ(pattern_parse("a_1_8,c_1_8,wi_1_1", &p, why, sizeof(why)), 0);
	CHECK(p.kinds == (1u << PATTERN_WRITE | 1u << PATTERN_ATOMIC) && p.receives == 1);
	CHECK(p.request[0].opcode == MLX5DVL_FETCH_ADD && p.request[1].opcode == MLX5DVL_CMP_SWAP);
	CHECK_EQ(p.largest_send, 0);
	CHECK(!strcmp(pattern_op_name(MLX5DVL_WRITE_IMM), "wi"));
}

TEST(other_patterns_are_refused)
{
	static const char *const bad[] = {"", "w", "w_", "w_1", "w_1_", "w_0", "w_1_0",
		"w_5_1_1_1_1_1", "w_2_1", "w_1_1_1", "w_1_8388609", "w_1_99999999999999999999",
		"x_1_1", "W_1_1", "w_1_1,", ",w_1_1", "w_1_1,,w_1_1", "w_1_-1", "w_1_+1", "w_1_ 1",
		"w_ 1_1", "w_1_1 ", "ww_1_1", "a_1_4", "c_2_4_4", "a_1_16",
		"w_1_1,w_1_1,w_1_1,w_1_1,w_1_1,w_1_1,w_1_1,w_1_1,w_1_1"};
	struct pattern p = {.n = 77};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		int err = pattern_parse(bad[i], &p, why, sizeof(why));

		printf("  %-24.24s %d\n", bad[i], err);
		CHECK_EQ(err, -EINVAL);
		CHECK(p.n == 77 && strstr(why, "give"));
	}
}

static int check(struct traffic t, const char *pattern)
{
	snprintf(t.pattern_text, sizeof(t.pattern_text), "%s", pattern);
	return traffic_check(&t, why, sizeof(why));
}

static struct traffic usual(void)
{
	struct traffic t;

	traffic_init(&t);
	return t;
}

#define WITH(field, value)                                                                         \
	({                                                                                         \
		struct traffic t_ = usual();                                                       \
		t_.field = (value);                                                                \
		check(t_, "w_1_64");                                                               \
	})

TEST(traffic_is_checked)
{
	struct traffic t = usual();

	CHECK_EQ(check(t, "w_1_65536"), 0);
	CHECK_EQ(WITH(qps, 0), -EINVAL);
	CHECK_EQ(WITH(qps, TRAFFIC_QPS_MAX + 1), -EINVAL);
	CHECK_EQ(WITH(depth, 0), -EINVAL);
	CHECK_EQ(WITH(depth, TRAFFIC_DEPTH_MAX + 1), -EINVAL);
	CHECK_EQ(WITH(send_batch, 0), -EINVAL);
	CHECK_EQ(WITH(send_batch, 129), -EINVAL);
	CHECK_EQ(WITH(recv_batch, 0), -EINVAL);
	CHECK_EQ(WITH(rx_depth, 32768), -EINVAL);
	CHECK_EQ(WITH(buffers, 0), -EINVAL);
	CHECK_EQ(WITH(buffers, TRAFFIC_BUFFERS_MAX + 1), -EINVAL);
	CHECK_EQ(WITH(regions, 0), -EINVAL);
	CHECK_EQ(WITH(regions, 2), -EINVAL); /* there is only one QP */
	CHECK_EQ(WITH(mtu, 6), -EINVAL);
	CHECK_EQ(WITH(qp_timeout, 32), -EINVAL);
	CHECK_EQ(WITH(inline_max, MLX5DVL_INLINE_MAX + 1), -EINVAL);
	CHECK_EQ(WITH(iterations, (1ull << 40) + 1), -EINVAL);
	CHECK_EQ(WITH(duration_ns, 0), -EINVAL);
	CHECK_EQ(WITH(duration_ns, UINT64_MAX), -EINVAL);
	CHECK_EQ(WITH(rate, UINT64_MAX), -EINVAL);
	CHECK_EQ(WITH(burst_pause_us, 2000000), -EINVAL);
	CHECK_EQ(WITH(type, 3), -EINVAL);
	CHECK_EQ(WITH(control, CONTROL_KINDS), -EINVAL);
	CHECK_EQ(WITH(inject, INJECT_KINDS), -EINVAL);
	CHECK_EQ(WITH(retries, 8), -EINVAL);
	CHECK_EQ(WITH(reads, 17), -EINVAL);
	CHECK_EQ(WITH(sl, 16), -EINVAL);
	CHECK_EQ(WITH(moderation, 0), -EINVAL);
	CHECK_EQ(WITH(control_us, 0), -EINVAL);
	CHECK_EQ(WITH(inject_at, 0), -EINVAL);
	CHECK(strstr(why, "give"));
	memset(t.pattern_text, '0', sizeof(t.pattern_text)); /* the text has no terminating 0 */
	memcpy(t.pattern_text, "w_1_", 4);
	t.pattern_text[sizeof(t.pattern_text) - 1] = '1';
	CHECK_EQ(traffic_check(&t, why, sizeof(why)), -EINVAL);
}

TEST(transports_have_their_operations)
{
	struct traffic t = usual();

	t.type = MLX5DVL_UC;
	CHECK_EQ(check(t, "w_1_64,s_1_64,wi_1_1"), 0);
	CHECK_EQ(check(t, "s_1_64,r_1_64"), -EINVAL);
	CHECK_EQ(check(t, "a_1_8"), -EINVAL);
	t.type = MLX5DVL_UD;
	CHECK_EQ(check(t, "s_1_64,si_1_64"), 0);
	CHECK_EQ(check(t, "w_1_64"), -EINVAL);
	CHECK_EQ(check(t, "s_1_7"), 0);
	t.check = true;
	CHECK_EQ(check(t, "s_1_7"), -EINVAL);
	CHECK_EQ(check(t, "s_1_8,si_1_7"), 0);
	t.type = MLX5DVL_RC;
	CHECK_EQ(check(t, "s_1_7"), 0);
}

static uint32_t receives(const char *pattern)
{
	struct traffic t = usual();

	snprintf(t.pattern_text, sizeof(t.pattern_text), "%s", pattern);
	t.rx_depth = 0;
	CHECK_EQ(traffic_check(&t, why, sizeof(why)), 0);
	return traffic_rx_depth(&t, 1);
}

/* The default is as many receives as fit into 64 MiB, at least 16 and at most 1,024. */
TEST(receives_have_a_default)
{
	CHECK_EQ(receives("s_1_1"), 1024);
	CHECK_EQ(receives("s_1_65534"), 1024);
	CHECK_EQ(receives("s_1_65536"), 1023);
	CHECK_EQ(receives("s_1_1048575"), 64);
	CHECK_EQ(receives("s_1_8388608"), 16);
}

/* In a ping-pong each QP of each peer has one message in flight, and two thirds of the receives are
 * always posted. */
TEST(round_trips_have_few_receives)
{
	struct traffic t = usual();

	snprintf(t.pattern_text, sizeof(t.pattern_text), "s_1_8388608");
	t.rx_depth = 0;
	t.pingpong = true;
	t.depth = 1;
	CHECK_EQ(traffic_check(&t, why, sizeof(why)), 0);
	CHECK_EQ(traffic_rx_depth(&t, 1), 1);
	CHECK_EQ(traffic_rx_depth(&t, 3), 4);
	t.qps = 4;
	CHECK_EQ(traffic_rx_depth(&t, 1), 5);
	CHECK_EQ(traffic_rx_depth(&t, 64), 255); /* 2 GiB */
	snprintf(t.pattern_text, sizeof(t.pattern_text), "s_1_64");
	t.qps = TRAFFIC_QPS_MAX;
	CHECK_EQ(traffic_check(&t, why, sizeof(why)), 0);
	CHECK_EQ(traffic_rx_depth(&t, 64), TRAFFIC_RX_DEPTH_MAX);
	t.rx_depth = 7;
	CHECK_EQ(traffic_rx_depth(&t, 2), 7);
}

TEST(memory_is_bounded)
{
	struct traffic t = usual();
	struct layout l;

	t.check = true;
	CHECK_EQ(check(t, "w_1_8388608"), -EINVAL);
	t.depth = 16;
	CHECK_EQ(check(t, "w_1_8388608"), 0);
	t.check = false;
	t.qps = TRAFFIC_QPS_MAX;
	t.depth = TRAFFIC_DEPTH_MAX;
	CHECK_EQ(check(t, "w_1_64"), -EINVAL); /* no CQ is that deep */
	t = usual();
	t.rx_depth = 32767;
	CHECK_EQ(check(t, "s_1_8388608"), -EINVAL);
	t.rx_depth = 0;
	CHECK_EQ(check(t, "s_1_8388608"), 0);
	snprintf(t.pattern_text, sizeof(t.pattern_text), "s_2_100_29,w_1_5");
	CHECK_EQ(traffic_check(&t, why, sizeof(why)), 0);
	traffic_layout(&t, &l);
	CHECK(l.slots == 1 && l.stride == 192 && l.size == 3 * 192 + 64);
	t.check = true;
	traffic_layout(&t, &l);
	CHECK(l.slots == 128 && l.write_at == 128 * 192 && l.read_at == 256 * 192);
	CHECK_EQ(traffic_recv_size(&t), 129);
	CHECK_EQ(traffic_rx_depth(&t, 1), 1024);
	CHECK_EQ(traffic_sq_depth(&t), 1024);
	t.type = MLX5DVL_UD;
	CHECK_EQ(traffic_recv_size(&t), 169);
}

/* --check detects that a peer sends what its pattern does not contain. */
TEST(receives_that_no_request_consumes_are_mismatches)
{
	static struct side s;
	static struct peer peer = {.side = &s};
	struct flow f = {.peer = &peer};
	struct mlx5dvl_qp qp = {.user = &f};
	struct mlx5dvl_recv empty = {.opcode = MLX5DVL_RECV_SEND};
	struct mlx5dvl_recv imm = {.opcode = MLX5DVL_RECV_WRITE_IMM, .len = 64};

	traffic_init(&s.t);
	s.t.check = true;
	snprintf(s.t.pattern_text, sizeof(s.t.pattern_text), "w_1_64");
	CHECK_EQ(traffic_check(&s.t, why, sizeof(why)), 0);
	CHECK_EQ(s.t.pattern.receives, 0);
	flow_on_recv(NULL, &qp, &empty);
	imm.imm = (uint32_t)f.next_number;
	flow_on_recv(NULL, &qp, &imm);
	CHECK(s.mismatches == 2 && peer.mismatches == 2 && s.recv_messages == 2 && !s.lost);
}
