/* SPDX-License-Identifier: MIT */
#include "space.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/args.h"
#include "base/compiler.h"
#include "base/field.h"
#include "base/rand.h"
#include "engine.h"
#include "mlx5dvl.h"

#define MUTATE_TRIES 1000
#define RARITY 4 /* other parameters are changed this many times as often as a rare one */

/* The values of DIM_OP, and their names by value. */
enum op { OP_WRITE, OP_SEND, OP_READ, OP_WRITE_IMM, OP_SEND_IMM, OP_ADD, OP_SWAP };
static const char *const op_names[] = {"w", "s", "r", "wi", "si", "a", "c", NULL};
static const char *const direction_names[] = {"none", "reverse", "loopback", NULL};

/*
 * The n built-in values are first, first + 1, ..., or, if shift is not 0, first << index * shift.
 */
static const struct kind {
	const char *name;
	uint8_t n;
	uint32_t first;
	uint8_t shift;
	const char *const *words; /* by value; NULL: the values are numbers */
	struct field field; /* in struct traffic; size 0: it has no field of its own */
	bool has_zero; /* 0 is a value, and comes before first */
	const char *option; /* option of the engine with the valid range; NULL: at most max */
	uint32_t max;
	bool rare; /* every second draw is the value `usual`, the others are any value */
	uint32_t usual;
} kinds[] = {
#define AT(name) FIELD(struct traffic, name)
	[DIM_PROCESSES] = {"process_num", 6, 1, 0, .max = SPACE_PROCESSES},
	[DIM_QPS] = {"qp_num", 6, 1, 2, .field = AT(qps), .option = "qp"},
	[DIM_MTU] = {"mtu", 5, 256, 1, .option = "mtu"},
	[DIM_TYPE] = {"qp_type", 3, MLX5DVL_RC, 0, .words = traffic_type_names, .field = AT(type)},
	[DIM_BIDIRECTIONAL] = {"bidirectional", 2, 1, 0, .field = AT(bidirectional),
		.has_zero = true, .max = 1},
	[DIM_BURST] = {"burst", 5, 1, 2, .field = AT(burst), .has_zero = true, .option = "burst"},
	[DIM_BUFFERS] = {"buf_num", 4, 1, 0, .field = AT(buffers), .option = "buf-num"},
	[DIM_REGIONS] = {"mr_num", 4, 1, 0, .field = AT(regions), .option = "mr-num"},
	[DIM_REQUESTS] = {"requests", PATTERN_REQUESTS, 1, 0, .max = PATTERN_REQUESTS},
	[DIM_CONTROL] = {"control", CONTROL_KINDS, 0, 0, .words = control_names,
		.field = AT(control)},
	[DIM_INJECT] = {"inject", INJECT_KINDS, 0, 0, .words = inject_names, .field = AT(inject)},
	[DIM_INJECT_AT] = {"inject_at", 4, 1, 4, .field = AT(inject_at), .max = UINT32_MAX},
	[DIM_EVENTS] = {"events", 2, 1, 0, .field = AT(sleeps), .has_zero = true, .max = 1},
	[DIM_INLINE] = {"inline", 4, 55, 1, .field = AT(inline_max), .has_zero = true,
		.option = "inline-size"},
	[DIM_RATE] = {"rate", 4, 1024, 5, .field = AT(rate), .has_zero = true, .option = "rate",
		.rare = true},
	[DIM_BURST_PAUSE] = {"burst_pause", 3, 25, 2, .field = AT(burst_pause_us),
		.option = "burst-pause", .rare = true, .usual = 100},
	[DIM_CONTROL_EVERY] = {"control_every", 3, 250, 2, .field = AT(control_us),
		.option = "control-every", .rare = true, .usual = 1000},
	[DIM_CQ_MOD] = {"cq_mod", 4, 1, 2, .field = AT(moderation), .option = "cq-mod",
		.rare = true, .usual = 1},
	[DIM_OUTS] = {"outs", 3, 1, 2, .field = AT(reads), .option = "outs", .rare = true,
		.usual = 4},
	[DIM_QP_TIMEOUT] = {"qp_timeout", 3, 14, 0, .field = AT(qp_timeout), .option = "qp-timeout",
		.rare = true, .usual = 14},
	[DIM_RETRIES] = {"retry_count", 3, 5, 0, .field = AT(retries), .option = "retry-count",
		.rare = true, .usual = 7},
	[DIM_SL] = {"sl", 2, 3, 0, .field = AT(sl), .has_zero = true, .option = "sl", .rare = true},
	[DIM_TCLASS] = {"tclass", 2, 104, 0, .field = AT(traffic_class), .has_zero = true,
		.option = "tclass", .rare = true},
	[DIM_TX_DEPTH] = {"tx_depth", 11, 1, 1, .field = AT(depth), .option = "tx-depth"},
	[DIM_SEND_BATCH] = {"send_batch", 7, 1, 1, .field = AT(send_batch), .option = "send-batch"},
	[DIM_RX_DEPTH] = {"rx_depth", 7, 16, 1, .field = AT(rx_depth), .option = "rx-depth"},
	[DIM_RECV_BATCH] = {"recv_batch", 7, 1, 1, .field = AT(recv_batch), .option = "recv-batch"},
	[DIM_OP] = {"op", ARRAY_SIZE(op_names) - 1, 0, 0, .words = op_names},
	[DIM_SIZE] = {"size", 13, 32, 1, .option = "size"},
	[DIM_PLACES] = {"places", PATTERN_PLACES, 1, 0, .max = PATTERN_PLACES},
	[DIM_DIRECTION] = {"direction", ARRAY_SIZE(direction_names) - 1, 0, 0,
		.words = direction_names},
};

unsigned space_dim(unsigned traffic, enum dimension_kind kind, unsigned request)
{
	if (kind == DIM_DIRECTION)
		return SPACE_DIRECTION;
	return traffic * SPACE_PER_TRAFFIC + kind + (kind >= DIM_OP ? 3 * request : 0);
}

/* Returns the index of the dimension among those of its traffic. */
static unsigned local_of(unsigned dim)
{
	return dim % SPACE_PER_TRAFFIC;
}

static enum dimension_kind kind_of(unsigned dim)
{
	unsigned local = local_of(dim);

	if (dim == SPACE_DIRECTION)
		return DIM_DIRECTION;
	return local < DIM_OP ? local : DIM_OP + (local - DIM_OP) % 3;
}

static unsigned request_of(unsigned dim)
{
	return (local_of(dim) - DIM_OP) / 3;
}

static uint32_t built_in(const struct kind *k, uint32_t at)
{
	if (k->has_zero && !at--)
		return 0;
	return k->shift ? k->first << k->shift * at : k->first + at;
}

void space_init(struct space *s)
{
	memset(s, 0, sizeof(*s));
	for (unsigned dim = 0; dim < SPACE_DIMS; dim++) {
		const struct kind *k = &kinds[kind_of(dim)];

		s->n[dim] = k->n;
		for (uint32_t at = 0; at < k->n; at++)
			s->value[dim][at] = built_in(k, at);
	}
}

unsigned space_values(const struct space *s, unsigned dim)
{
	return s->n[dim];
}

void space_name(unsigned dim, char name[SPACE_NAME])
{
	enum dimension_kind kind = kind_of(dim);
	unsigned traffic = dim == SPACE_DIRECTION ? 1 : dim / SPACE_PER_TRAFFIC;

	if (kind >= DIM_OP && kind < DIM_KINDS)
		snprintf(name, SPACE_NAME, "%u.request%u.%s", traffic, request_of(dim),
			kinds[kind].name);
	else
		snprintf(name, SPACE_NAME, "%u.%s", traffic, kinds[kind].name);
}

void space_value(const struct space *s, unsigned dim, unsigned at, char value[SPACE_NAME])
{
	const char *const *words = kinds[kind_of(dim)].words;
	uint32_t x = s->value[dim][at];

	if (words)
		snprintf(value, SPACE_NAME, "%s", words[x]);
	else
		snprintf(value, SPACE_NAME, "%u", x);
}

/*
 * Reads one of the words. If @numbers is set, the words are numbers, and the value is the number.
 */
static int parse_word(const struct arg *a, const char *const *words, bool numbers,
	uint32_t *value_p)
{
	unsigned i = 0;
	int err = arg_word(a, words, &i);

	if (!err)
		*value_p = numbers ? (uint32_t)strtoul(words[i], NULL, 10) : i;
	return err;
}

int space_parse(unsigned dim, const char *text, uint32_t *value_p, char *why, size_t size)
{
	const struct kind *k = &kinds[kind_of(dim)];
	const struct arg_row *row = k->option ? engine_option_row(k->option) : NULL;
	struct arg a = {.value = text, .why = why, .size = size};
	uint64_t x = 0;
	int err;

	space_name(dim, a.name);
	if (k->words || (row && row->words))
		return parse_word(&a, k->words ? k->words : row->words, !k->words, value_p);
	err = arg_whole(&a, k->has_zero ? 0 : row ? row->min : 1, row ? row->max : k->max, &x);
	if (!err)
		*value_p = (uint32_t)x;
	return err;
}

static uint32_t value_of(const struct space *s, const struct point *p, unsigned dim)
{
	return s->value[dim][p->at[dim]];
}

double point_place(const struct space *s, const struct point *p, unsigned dim)
{
	const struct kind *k = &kinds[kind_of(dim)];
	uint32_t at = 0;

	while (at + 1u < k->n && built_in(k, at) < value_of(s, p, dim))
		at++;
	return k->n > 1 ? (double)at / (k->n - 1) : 0;
}

static uint32_t get(const struct space *s, const struct point *p, unsigned traffic,
	enum dimension_kind kind, unsigned request)
{
	return value_of(s, p, space_dim(traffic, kind, request));
}

enum direction point_direction(const struct space *s, const struct point *p)
{
	return (enum direction)value_of(s, p, SPACE_DIRECTION);
}

/* Returns true if the dimension has an effect. */
static bool point_uses(const struct space *s, const struct point *p, unsigned dim)
{
	unsigned traffic = dim / SPACE_PER_TRAFFIC;

	if (dim == SPACE_DIRECTION)
		return true;
	if (traffic && point_direction(s, p) == DIRECTION_NONE)
		return false;
	return kind_of(dim) < DIM_OP || request_of(dim) < get(s, p, traffic, DIM_REQUESTS, 0);
}

static bool is_atomic(uint32_t op)
{
	return op == OP_ADD || op == OP_SWAP;
}

bool space_op_fits(uint32_t type, uint32_t op)
{
	if (type == MLX5DVL_UC)
		return !is_atomic(op) && op != OP_READ;
	return type == MLX5DVL_RC || op == OP_SEND || op == OP_SEND_IMM;
}

/* Lowers the value to the largest one that does not exceed @most, or to the first one. */
static void limit(const struct space *s, struct point *p, unsigned dim, uint32_t most)
{
	while (p->at[dim] && value_of(s, p, dim) > most)
		--p->at[dim];
}

static void settle_request(const struct space *s, struct point *p, unsigned traffic,
	unsigned request)
{
	unsigned op = space_dim(traffic, DIM_OP, request);
	unsigned bytes = space_dim(traffic, DIM_SIZE, request);
	uint32_t type = get(s, p, traffic, DIM_TYPE, 0);

	if (!space_op_fits(type, value_of(s, p, op)))
		p->at[op] = 0;
	while (p->at[op] + 1 < s->n[op] && !space_op_fits(type, value_of(s, p, op)))
		++p->at[op];
	if (is_atomic(value_of(s, p, op))) /* an atomic has one place of 8 bytes */
		p->at[bytes] = p->at[space_dim(traffic, DIM_PLACES, request)] = 0;
	if (type == MLX5DVL_UD)
		limit(s, p, bytes, get(s, p, traffic, DIM_MTU, 0));
}

/* Sets the index to 0 if the parameter has no effect because the value of @decides is 0. */
static void settle_idle(const struct space *s, struct point *p, unsigned traffic,
	enum dimension_kind kind, enum dimension_kind decides)
{
	if (!get(s, p, traffic, decides, 0))
		p->at[space_dim(traffic, kind, 0)] = 0;
}

void point_settle(const struct space *s, struct point *p)
{
	for (unsigned traffic = 0; traffic < 2; traffic++) {
		limit(s, p, space_dim(traffic, DIM_TX_DEPTH, 0),
			traffic_depth_max(get(s, p, traffic, DIM_QPS, 0)));
		limit(s, p, space_dim(traffic, DIM_SEND_BATCH, 0),
			get(s, p, traffic, DIM_TX_DEPTH, 0));
		limit(s, p, space_dim(traffic, DIM_REGIONS, 0), get(s, p, traffic, DIM_QPS, 0));
		settle_idle(s, p, traffic, DIM_INJECT_AT, DIM_INJECT);
		settle_idle(s, p, traffic, DIM_BURST_PAUSE, DIM_BURST);
		settle_idle(s, p, traffic, DIM_CONTROL_EVERY, DIM_CONTROL);
		for (unsigned r = 0; r < PATTERN_REQUESTS; r++)
			settle_request(s, p, traffic, r);
	}
	for (unsigned dim = 0; dim < SPACE_DIMS; dim++) {
		if (!point_uses(s, p, dim))
			p->at[dim] = 0;
	}
}

bool space_is_ordered(unsigned dim)
{
	return !kinds[kind_of(dim)].words;
}

/*
 * For each kind, the kinds that decide which of its values are valid. 0 means none: DIM_PROCESSES,
 * which is 0, decides nothing.
 */
static const uint8_t parents[DIM_KINDS][3] = {
	[DIM_REGIONS] = {DIM_QPS},
	[DIM_INJECT_AT] = {DIM_INJECT},
	[DIM_BURST_PAUSE] = {DIM_BURST},
	[DIM_CONTROL_EVERY] = {DIM_CONTROL},
	[DIM_TX_DEPTH] = {DIM_QPS},
	[DIM_SEND_BATCH] = {DIM_TX_DEPTH},
	[DIM_OP] = {DIM_TYPE},
	[DIM_SIZE] = {DIM_TYPE, DIM_MTU, DIM_OP},
	[DIM_PLACES] = {DIM_TYPE, DIM_OP},
};

static bool take(bool *taken)
{
	bool was = *taken;

	*taken = true;
	return !was;
}

bool space_take_parents(unsigned dim, bool taken[SPACE_DIMS])
{
	unsigned traffic = dim / SPACE_PER_TRAFFIC;
	enum dimension_kind kind = kind_of(dim);
	bool more = false;

	if (dim == SPACE_DIRECTION)
		return false;
	for (int i = 0; i < 3; i++) {
		unsigned request = parents[kind][i] == DIM_OP ? request_of(dim) : 0;

		if (parents[kind][i])
			more |= take(&taken[space_dim(traffic, parents[kind][i], request)]);
	}
	if (kind >= DIM_OP)
		more |= take(&taken[space_dim(traffic, DIM_REQUESTS, 0)]);
	if (traffic)
		more |= take(&taken[SPACE_DIRECTION]);
	return more;
}

static unsigned below(uint64_t *rand, unsigned n)
{
	return (unsigned)(rand_unit(rand) * n);
}

/*
 * Draws a value. For a rare parameter this is every second time the usual value, if the list has
 * it.
 */
static uint8_t draw(const struct space *s, unsigned dim, uint64_t *rand)
{
	const struct kind *k = &kinds[kind_of(dim)];
	unsigned drawn = below(rand, k->rare ? 2 * s->n[dim] : s->n[dim]), at = 0;

	if (drawn < s->n[dim])
		return (uint8_t)drawn;
	while (at < s->n[dim] && s->value[dim][at] != k->usual)
		at++;
	return (uint8_t)(at < s->n[dim] ? at : drawn - s->n[dim]);
}

void point_random(const struct space *s, struct point *p, uint64_t *rand)
{
	for (unsigned dim = 0; dim < SPACE_DIMS; dim++)
		p->at[dim] = draw(s, dim, rand);
	point_settle(s, p);
}

/*
 * Changes the value of a dimension: with probability 1/2 to a neighbour, otherwise to any other
 * value.
 */
static void change(const struct space *s, struct point *p, unsigned dim, uint64_t *rand)
{
	unsigned n = s->n[dim], at = p->at[dim];

	if (below(rand, 2))
		at = at == 0 ? 1 : at == n - 1 ? n - 2 : at + 2 * below(rand, 2) - 1;
	else
		at = (at + 1 + below(rand, n - 1)) % n;
	p->at[dim] = (uint8_t)at;
}

/* Draws values for the dimensions that have an effect in @p, but had none in @was. */
static void draw_new(const struct space *s, struct point *p, const struct point *was,
	uint64_t *rand)
{
	for (unsigned dim = 0; dim < SPACE_DIMS; dim++) {
		if (point_uses(s, p, dim) && !point_uses(s, was, dim))
			p->at[dim] = draw(s, dim, rand);
	}
}

void point_mutate(const struct space *s, struct point *p, uint64_t *rand)
{
	const struct point was = *p;

	for (int i = 0; i < MUTATE_TRIES && point_equal(p, &was); i++) {
		unsigned dim = below(rand, SPACE_DIMS);

		*p = was;
		if (s->n[dim] == 1 || !point_uses(s, p, dim) ||
			(kinds[kind_of(dim)].rare && below(rand, RARITY)))
			continue;
		change(s, p, dim, rand);
		draw_new(s, p, &was, rand);
		point_settle(s, p);
	}
}

bool point_equal(const struct point *a, const struct point *b)
{
	return !memcmp(a->at, b->at, sizeof(a->at));
}

/* An atomic has 8 bytes. */
static uint32_t bytes_of(const struct space *s, const struct point *p, unsigned traffic,
	unsigned request)
{
	return is_atomic(get(s, p, traffic, DIM_OP, request)) ?
		       8 :
		       get(s, p, traffic, DIM_SIZE, request);
}

/* An atomic has one place, and no place is empty. */
static uint32_t places_of(const struct space *s, const struct point *p, unsigned traffic,
	unsigned request)
{
	uint32_t places = get(s, p, traffic, DIM_PLACES, request);
	uint32_t bytes = bytes_of(s, p, traffic, request);

	if (is_atomic(get(s, p, traffic, DIM_OP, request)))
		return 1;
	return places < bytes ? places : bytes;
}

/*
 * Writes a request like "s_2_512_513": all places have the same length, except that the last one
 * also has the remainder.
 */
static size_t put_request(const struct space *s, const struct point *p, unsigned traffic,
	unsigned request, char *text, size_t size)
{
	uint32_t total = bytes_of(s, p, traffic, request);
	uint32_t places = places_of(s, p, traffic, request), one = total / places;
	size_t n = (size_t)snprintf(text, size, "%s%s_%u", request ? "," : "",
		op_names[get(s, p, traffic, DIM_OP, request)], places);

	for (uint32_t i = 0; i < places && n < size; i++)
		n += (size_t)snprintf(text + n, size - n, "_%u",
			i + 1 < places ? one : total - one * (places - 1));
	return n;
}

uint32_t point_traffic(const struct space *s, const struct point *p, unsigned traffic,
	struct traffic *t_p)
{
	char *text = t_p->pattern_text;
	size_t n = 0;

	if (traffic && point_direction(s, p) == DIRECTION_NONE)
		return 0;
	traffic_init(t_p);
	for (enum dimension_kind kind = 0; kind < DIM_OP; kind++) {
		if (kinds[kind].field.size)
			field_set(t_p, kinds[kind].field, get(s, p, traffic, kind, 0));
	}
	t_p->mtu = (uint8_t)(__builtin_ctz(get(s, p, traffic, DIM_MTU, 0)) - 7); /* enum ibv_mtu */
	for (unsigned r = 0; r < get(s, p, traffic, DIM_REQUESTS, 0); r++)
		n += put_request(s, p, traffic, r, text + n, PATTERN_TEXT_MAX - n);
	return get(s, p, traffic, DIM_PROCESSES, 0);
}

/* Adds the values of the dimensions from @dim to @last to an object, which is returned. */
static json_t *add_values(json_t *o, const struct space *s, const struct point *p, unsigned dim,
	unsigned last)
{
	for (; dim <= last; dim++) {
		const struct kind *k = &kinds[kind_of(dim)];
		uint32_t value = value_of(s, p, dim);

		json_object_set_new(o, k->name,
			k->words ? json_string(k->words[value]) : json_integer(value));
	}
	return o;
}

static json_t *traffic_json(const struct space *s, const struct point *p, unsigned traffic)
{
	const unsigned base = space_dim(traffic, DIM_PROCESSES, 0);
	json_t *requests = json_array();
	json_t *o = json_pack("{s:s s:s}", "workload_type",
		get(s, p, traffic, DIM_BIDIRECTIONAL, 0) ? "bidirection" : "unidirection",
		"direction", traffic ? direction_names[point_direction(s, p)] : "forward");

	add_values(o, s, p, base + DIM_PROCESSES, base + DIM_TYPE);
	add_values(o, s, p, base + DIM_BURST, base + DIM_REGIONS);
	add_values(o, s, p, base + DIM_CONTROL, base + DIM_TCLASS);
	for (unsigned r = 0; r < get(s, p, traffic, DIM_REQUESTS, 0); r++) {
		const char *op = op_names[get(s, p, traffic, DIM_OP, r)];

		json_array_append_new(requests, json_pack("{s:s s:i s:i}", "op", op, "size",
							(int)bytes_of(s, p, traffic, r), "places",
							(int)places_of(s, p, traffic, r)));
	}
	json_object_set_new(o, "requests", requests);
	json_object_set_new(o, "server",
		add_values(json_object(), s, p, base + DIM_RX_DEPTH, base + DIM_RECV_BATCH));
	json_object_set_new(o, "client",
		add_values(json_object(), s, p, base + DIM_TX_DEPTH, base + DIM_SEND_BATCH));
	return o;
}

json_t *point_json(const struct space *s, const struct point *p)
{
	json_t *list = json_array();

	json_array_append_new(list, traffic_json(s, p, 0));
	if (point_direction(s, p) != DIRECTION_NONE)
		json_array_append_new(list, traffic_json(s, p, 1));
	return json_pack("{s:o}", "Traffics", list);
}
