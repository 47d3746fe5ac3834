/* SPDX-License-Identifier: MIT */
#include "traffic.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "mlx5dvl.h"
#include "payload.h"
#include "text.h"

#define BLOCKS_PER_REQUEST 4 /* of the largest request: 220 bytes inline */
#define CQ_BLOCKS_MAX (1u << 22) /* entries of the largest send CQ */
#define RECV_MEMORY (64u << 20)
#define RX_DEPTH_DEFAULT 1024
#define RX_DEPTH_MIN 16
#define SLOT_ALIGN 64

const char *const traffic_type_names[] = {"RC", "UC", "UD", NULL};
const char *const control_names[] = {"none", "mr", "qp", "modify", "rkey", "lkey", NULL};
const char *const inject_names[] = {"none", "drop", "rnr", "delay", NULL};

#define AT(name) FIELD(struct traffic, name)

const struct traffic_number traffic_numbers[TRAFFIC_NUMBERS] = {
	{"the MTU", AT(mtu), 0, 5, 0},
	{"the timeout", AT(qp_timeout), 1, 31, 14},
	{"the number of retries", AT(retries), 0, 7, 7},
	{"the number of READs", AT(reads), 0, 16, 0},
	{"the service level", AT(sl), 0, 15, 0},
	{"the traffic class", AT(traffic_class), 0, 255, 0},
	{"the number of QPs", AT(qps), 1, TRAFFIC_QPS_MAX, 1},
	{"the depth", AT(depth), 1, TRAFFIC_DEPTH_MAX, 128},
	{"the send batch", AT(send_batch), 1, TRAFFIC_DEPTH_MAX, 1},
	{"the receive batch", AT(recv_batch), 1, TRAFFIC_DEPTH_MAX, 64},
	{"the receive depth", AT(rx_depth), 0, TRAFFIC_RX_DEPTH_MAX, 0},
	{"the number of buffers", AT(buffers), 1, TRAFFIC_BUFFERS_MAX, 1},
	{"the number of memory regions", AT(regions), 1, TRAFFIC_QPS_MAX, 1},
	{"the inline limit", AT(inline_max), 0, MLX5DVL_INLINE_MAX, MLX5DVL_INLINE_MAX},
	{"the burst", AT(burst), 0, UINT32_MAX, 0},
	{"the pause", AT(burst_pause_us), 0, 1000000, 100},
	{"the moderation", AT(moderation), 1, TRAFFIC_DEPTH_MAX, 1},
	{"the kind of control", AT(control), 0, CONTROL_KINDS - 1, 0},
	{"the time between two controls", AT(control_us), 1, 1000000, 1000},
	{"the kind of injection", AT(inject), 0, INJECT_KINDS - 1, 0},
	{"the number of the message", AT(inject_at), 1, 1ull << 40, 1},
	{"the number of iterations", AT(iterations), 0, 1ull << 40, 0},
	{"the warm-up", AT(warm_up), 0, 1u << 30, 0},
	{"the duration", AT(duration_ns), 0, UINT64_MAX, NSEC_PER_SEC}, /* see check_ranges() */
	{"the rate", AT(rate), 0, 1000000000, 0},
};

void traffic_init(struct traffic *t)
{
	*t = (struct traffic){.pattern_text = "w_1_65536"};
	for (int i = 0; i < TRAFFIC_NUMBERS; i++)
		field_set(t, traffic_numbers[i].field, traffic_numbers[i].usual);
}

static int check_range(const char *what, uint64_t value, uint64_t min, uint64_t max, char *why,
	size_t size)
{
	if (value >= min && value <= max)
		return 0;
	return fail(why, size, -EINVAL, "%s is out of range: give 1 to %llu", what,
		(unsigned long long)max);
}

static int check_ranges(const struct traffic *t, char *why, size_t size)
{
	int err = check_range("the kind of QP", t->type + 1, 1, MLX5DVL_UD + 1, why, size);

	for (size_t i = 0; i < TRAFFIC_NUMBERS && !err; i++) {
		const struct traffic_number *n = &traffic_numbers[i];

		err = check_range(n->what, field_get(t, n->field), n->min, n->max, why, size);
	}
	if (!err)
		err = check_range("the send batch", t->send_batch, 1, t->depth, why, size);
	if (!err)
		err = check_range("the number of memory regions (at most one per QP)", t->regions,
			1, t->qps, why, size);
	if (!err)
		err = check_range("the number of iterations or the duration",
			t->iterations ? 1 : t->duration_ns, 1, 86400000000000ull, why, size);
	return err;
}

static int check_type(const struct traffic *t, char *why, size_t size)
{
	const struct pattern *p = &t->pattern;

	if (t->type != MLX5DVL_RC && p->kinds & (1u << PATTERN_READ | 1u << PATTERN_ATOMIC))
		return fail(why, size, -EINVAL,
			"%s has no READ and no atomics: give RC, or another pattern",
			traffic_type_names[t->type]);
	if (t->type == MLX5DVL_UD && p->kinds & 1u << PATTERN_WRITE)
		return fail(why, size, -EINVAL,
			"UD has SEND only: give RC or UC, or a pattern of s and si");
	return 0;
}

/*
 * Checks the warm-up, and a ping-pong. A side recognises its turn by the arrival of the one request
 * that is under way. Only completions wake a side that sleeps, so the request must cause one.
 */
static int check_pingpong(const struct traffic *t, char *why, size_t size)
{
	const unsigned answered = 1u << PATTERN_WRITE | 1u << PATTERN_SEND;
	const struct pattern *p = &t->pattern;

	if (t->iterations && t->warm_up >= t->iterations)
		return fail(why, size, -EINVAL,
			"nothing is left after the warm-up: give more iterations");
	if (!t->pingpong)
		return 0;
	if (p->n != 1 || p->kinds & ~answered || t->depth != 1 || t->bidirectional)
		return fail(why, size, -EINVAL,
			"a round trip consists of one request: give a depth of 1, one direction, and one "
			"WRITE or SEND");
	if (t->sleeps && !p->receives)
		return fail(why, size, -EINVAL,
			"a WRITE causes no event: give wi, s or si, or no --events");
	return 0;
}

/*
 * Checks that messages have numbers, in the payload or as immediates: lost messages are detected by
 * them.
 */
static int check_numbers(const struct traffic *t, char *why, size_t size)
{
	for (uint32_t i = 0; i < t->pattern.n; i++) {
		const struct pattern_request *r = &t->pattern.request[i];

		if (t->check && t->type != MLX5DVL_RC && r->opcode == MLX5DVL_SEND &&
			r->total < PAYLOAD_NUMBER)
			return fail(why, size, -EINVAL,
				"%s can lose messages, and --check needs 8 bytes to detect that: "
				"give larger messages, or si",
				traffic_type_names[t->type]);
	}
	return 0;
}

uint32_t traffic_depth_max(uint32_t qps)
{
	uint32_t blocks = CQ_BLOCKS_MAX / qps;

	return (blocks >= pow2_ceil(blocks) ? blocks : pow2_ceil(blocks) / 2) / BLOCKS_PER_REQUEST -
	       2;
}

static int check_memory(const struct traffic *t, char *why, size_t size)
{
	struct layout l;

	traffic_layout(t, &l);
	if (l.size > TRAFFIC_MEMORY_MAX / t->qps ||
		(uint64_t)traffic_rx_depth(t, 1) * traffic_recv_size(t) > TRAFFIC_MEMORY_MAX)
		return fail(why, size, -EINVAL,
			"that is more than 2 GiB of memory: give fewer QPs, or a smaller depth or "
			"size");
	if (t->depth > traffic_depth_max(t->qps))
		return fail(why, size, -EINVAL,
			"no completion queue is that deep: give fewer QPs or less depth");
	return 0;
}

int traffic_check(struct traffic *t, char *why, size_t size)
{
	int err;

	if (!memchr(t->pattern_text, 0, sizeof(t->pattern_text)))
		return fail(why, size, -EINVAL, "the pattern is too long: give up to %d letters",
			PATTERN_TEXT_MAX - 1);
	err = pattern_parse(t->pattern_text, &t->pattern, why, size);
	if (!err)
		err = check_ranges(t, why, size);
	if (!err)
		err = check_type(t, why, size);
	if (!err)
		err = check_numbers(t, why, size);
	if (!err)
		err = check_pingpong(t, why, size);
	return err ? err : check_memory(t, why, size);
}

uint32_t traffic_sq_depth(const struct traffic *t)
{
	return (uint32_t)pow2_ceil((t->depth + 2) * BLOCKS_PER_REQUEST);
}

uint32_t traffic_recv_size(const struct traffic *t)
{
	if (!t->pattern.largest_send)
		return 0;
	return t->pattern.largest_send + (t->type == MLX5DVL_UD ? MLX5DVL_GRH_BYTES : 0);
}

/*
 * Returns the number of receives for messages that are on their way at the same time. An SRQ is
 * refilled when fewer than two thirds of its receives are posted. For a single message, one buffer
 * is used, which stays in the cache.
 */
static uint32_t few_receives(uint64_t messages, uint64_t fit)
{
	uint64_t n = (3 * messages - 1) / 2;

	n = n < fit ? n : fit;
	return n < TRAFFIC_RX_DEPTH_MAX ? (uint32_t)n : TRAFFIC_RX_DEPTH_MAX;
}

uint32_t traffic_rx_depth(const struct traffic *t, uint32_t n_peers)
{
	uint32_t size = traffic_recv_size(t) + 1, fit = RECV_MEMORY / size;

	if (t->rx_depth)
		return t->rx_depth;
	if (t->pingpong)
		return few_receives((uint64_t)t->qps * n_peers, TRAFFIC_MEMORY_MAX / size);
	fit = fit < RX_DEPTH_DEFAULT ? fit : RX_DEPTH_DEFAULT;
	return fit > RX_DEPTH_MIN ? fit : RX_DEPTH_MIN;
}

void traffic_layout(const struct traffic *t, struct layout *l_p)
{
	struct layout l = {.slots = t->check ? t->depth : t->buffers,
		.stride = align_up(t->pattern.largest, SLOT_ALIGN)};

	l.write_at = l.slots * l.stride;
	l.read_at = l.write_at + l.slots * l.stride;
	l.atomic_at = l.read_at + l.stride;
	l.size = l.atomic_at + SLOT_ALIGN;
	*l_p = l;
}
