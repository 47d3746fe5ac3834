/* SPDX-License-Identifier: MIT */
#include "space.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/rand.h"
#include "field.h"
#include "mlx5dvl.h"
#include "text.h"

#define MUTATE_TRIES 1000

/* By index. */
enum op { OP_WRITE, OP_SEND, OP_READ, OP_WRITE_IMM, OP_SEND_IMM, OP_ADD, OP_SWAP };
static const char *const op_names[] = {"w", "s", "r", "wi", "si", "a", "c"};
static const char *const direction_names[] = {"none", "reverse", "loopback"};

/* Values are consecutive from first, or, with a shift, first << index * shift. */
static const struct kind {
	const char *name;
	uint8_t n;
	uint32_t first;
	uint8_t shift;
	const char *const *words; /* by index; NULL: the values are numbers */
	struct field field; /* in struct traffic; size 0: none has this value */
	bool has_zero; /* 0 comes before first */
} kinds[] = {
#define AT(name) FIELD(struct traffic, name)
	[DIM_PROCESSES] = {"process_num", 6, 1, 0, .words = NULL},
	[DIM_QPS] = {"qp_num", 5, 1, 2, .field = AT(qps)},
	[DIM_MTU] = {"mtu", 5, 256, 1, .words = NULL},
	[DIM_TYPE] = {"qp_type", 3, MLX5DVL_RC, 0, .words = traffic_type_names, .field = AT(type)},
	[DIM_BIDIRECTIONAL] = {"bidirectional", 2, 0, 0, .field = AT(bidirectional)},
	[DIM_BURST] = {"burst", 5, 1, 2, .field = AT(burst), .has_zero = true},
	[DIM_BUFFERS] = {"buf_num", 4, 1, 0, .field = AT(buffers)},
	[DIM_REGIONS] = {"mr_num", 4, 1, 0, .field = AT(regions)},
	[DIM_REQUESTS] = {"requests", PATTERN_REQUESTS, 1, 0, .words = NULL},
	[DIM_CONTROL] = {"control", CONTROL_KINDS, 0, 0, .words = control_names,
		.field = AT(control)},
	[DIM_INJECT] = {"inject", INJECT_KINDS, 0, 0, .words = inject_names, .field = AT(inject)},
	[DIM_INJECT_AT] = {"inject_at", 4, 1, 4, .field = AT(inject_at)},
	[DIM_EVENTS] = {"events", 2, 0, 0, .field = AT(sleeps)},
	[DIM_INLINE] = {"inline", 4, 55, 1, .field = AT(inline_max), .has_zero = true},
	[DIM_TX_DEPTH] = {"tx_depth", 11, 1, 1, .field = AT(depth)},
	[DIM_SEND_BATCH] = {"send_batch", 7, 1, 1, .field = AT(send_batch)},
	[DIM_RX_DEPTH] = {"rx_depth", 7, 16, 1, .field = AT(rx_depth)},
	[DIM_RECV_BATCH] = {"recv_batch", 7, 1, 1, .field = AT(recv_batch)},
	[DIM_OP] = {"op", ARRAY_SIZE(op_names), 0, 0, .words = op_names},
	[DIM_SIZE] = {"size", 13, 32, 1, .words = NULL},
	[DIM_PLACES] = {"places", PATTERN_PLACES, 1, 0, .words = NULL},
	[DIM_DIRECTION] = {"direction", ARRAY_SIZE(direction_names), 0, 0,
		.words = direction_names},
};

unsigned space_dim(unsigned traffic, enum dimension_kind kind, unsigned request)
{
	if (kind == DIM_DIRECTION)
		return SPACE_DIRECTION;
	return traffic * SPACE_PER_TRAFFIC + kind + (kind >= DIM_OP ? 3 * request : 0);
}

/* Dimension within its traffic. */
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

unsigned space_values(unsigned dim)
{
	return kinds[kind_of(dim)].n;
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

static uint32_t value_of(const struct point *p, unsigned dim)
{
	const struct kind *k = &kinds[kind_of(dim)];
	uint32_t at = p->at[dim];

	if (k->has_zero && !at--)
		return 0;
	return k->shift ? k->first << k->shift * at : k->first + at;
}

void space_value(unsigned dim, unsigned at, char value[SPACE_NAME])
{
	const char *const *words = kinds[kind_of(dim)].words;
	struct point p = {{0}};

	p.at[dim] = (uint8_t)at;
	if (words)
		snprintf(value, SPACE_NAME, "%s", words[at]);
	else
		snprintf(value, SPACE_NAME, "%u", value_of(&p, dim));
}

/* Joins words, like "none, reverse, loopback". */
static void list_values(unsigned dim, char *text, size_t size)
{
	size_t n = 0;

	for (unsigned at = 0; at < space_values(dim) && n < size; at++) {
		char value[SPACE_NAME];

		space_value(dim, at, value);
		n += (size_t)snprintf(text + n, size - n, "%s%s", at ? ", " : "", value);
	}
}

static bool find_value(struct fixed *f, unsigned dim, const char *value)
{
	for (unsigned at = 0; at < space_values(dim); at++) {
		char text[SPACE_NAME];

		space_value(dim, at, text);
		if (strcmp(text, value))
			continue;
		f->on[dim] = true;
		f->point.at[dim] = (uint8_t)at;
		return true;
	}
	return false;
}

int fixed_add(struct fixed *f, const char *text, char *why, size_t size)
{
	size_t len = strcspn(text, "=");
	char name[SPACE_NAME], values[160];

	for (unsigned dim = 0; dim < SPACE_DIMS && text[len]; dim++) {
		space_name(dim, name);
		if (strlen(name) != len || memcmp(name, text, len))
			continue;
		if (find_value(f, dim, text + len + 1))
			return 0;
		list_values(dim, values, sizeof(values));
		return fail(why, size, -EINVAL, "--fix: %s has no such value: give one of %s", name,
			values);
	}
	return fail(why, size, -EINVAL,
		"--fix %.40s: give a parameter and its value, as 0.qp_num=4", text);
}

void fixed_apply(const struct fixed *f, struct point *p)
{
	for (unsigned dim = 0; dim < SPACE_DIMS; dim++) {
		if (f->on[dim])
			p->at[dim] = f->point.at[dim];
	}
	point_settle(p);
}

static uint32_t get(const struct point *p, unsigned traffic, enum dimension_kind kind,
	unsigned request)
{
	return value_of(p, space_dim(traffic, kind, request));
}

bool point_uses(const struct point *p, unsigned dim)
{
	unsigned traffic = dim / SPACE_PER_TRAFFIC;

	if (dim == SPACE_DIRECTION)
		return true;
	if (traffic && p->at[SPACE_DIRECTION] == DIRECTION_NONE)
		return false;
	return kind_of(dim) < DIM_OP || request_of(dim) < get(p, traffic, DIM_REQUESTS, 0);
}

static void settle_request(struct point *p, unsigned traffic, unsigned request)
{
	uint8_t *op = &p->at[space_dim(traffic, DIM_OP, request)];
	uint8_t *size = &p->at[space_dim(traffic, DIM_SIZE, request)];
	uint32_t type = get(p, traffic, DIM_TYPE, 0);
	bool atomic = *op == OP_ADD || *op == OP_SWAP;

	if (type == MLX5DVL_UC && (atomic || *op == OP_READ))
		*op = OP_WRITE;
	if (type == MLX5DVL_UD && *op != OP_SEND_IMM)
		*op = OP_SEND;
	if (type == MLX5DVL_RC && atomic) /* these have no effect */
		*size = p->at[space_dim(traffic, DIM_PLACES, request)] = 0;
	if (type != MLX5DVL_UD)
		return;
	while (get(p, traffic, DIM_SIZE, request) > get(p, traffic, DIM_MTU, 0))
		--*size;
}

void point_settle(struct point *p)
{
	for (unsigned traffic = 0; traffic < 2; traffic++) {
		uint8_t *batch = &p->at[space_dim(traffic, DIM_SEND_BATCH, 0)];
		uint8_t *regions = &p->at[space_dim(traffic, DIM_REGIONS, 0)];

		while (get(p, traffic, DIM_SEND_BATCH, 0) > get(p, traffic, DIM_TX_DEPTH, 0))
			--*batch;
		while (get(p, traffic, DIM_REGIONS, 0) > get(p, traffic, DIM_QPS, 0))
			--*regions;
		if (get(p, traffic, DIM_INJECT, 0) == INJECT_NONE)
			p->at[space_dim(traffic, DIM_INJECT_AT, 0)] = 0;
		for (unsigned r = 0; r < PATTERN_REQUESTS; r++)
			settle_request(p, traffic, r);
	}
	for (unsigned dim = 0; dim < SPACE_DIMS; dim++) {
		if (!point_uses(p, dim))
			p->at[dim] = 0;
	}
}

bool space_is_ordered(unsigned dim)
{
	return !kinds[kind_of(dim)].words;
}

/* By kind: the kinds that decide which values are valid; 0 (DIM_PROCESSES decides nothing): none. */
static const uint8_t parents[DIM_KINDS][3] = {
	[DIM_REGIONS] = {DIM_QPS},
	[DIM_INJECT_AT] = {DIM_INJECT},
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

void point_random(struct point *p, uint64_t *rand)
{
	for (unsigned dim = 0; dim < SPACE_DIMS; dim++)
		p->at[dim] = (uint8_t)below(rand, space_values(dim));
	point_settle(p);
}

/* Changes the value of a dimension: to a neighbour, or to any other value, equally often. */
static void change(struct point *p, unsigned dim, uint64_t *rand)
{
	unsigned n = space_values(dim), at = p->at[dim];

	if (below(rand, 2))
		at = at == 0 ? 1 : at == n - 1 ? n - 2 : at + 2 * below(rand, 2) - 1;
	else
		at = (at + 1 + below(rand, n - 1)) % n;
	p->at[dim] = (uint8_t)at;
}

/* Draws values for the dimensions that have an effect in @p, but had none in @was. */
static void draw_new(struct point *p, const struct point *was, uint64_t *rand)
{
	for (unsigned dim = 0; dim < SPACE_DIMS; dim++) {
		if (point_uses(p, dim) && !point_uses(was, dim))
			p->at[dim] = (uint8_t)below(rand, space_values(dim));
	}
}

void point_mutate(struct point *p, uint64_t *rand)
{
	const struct point was = *p;

	for (int i = 0; i < MUTATE_TRIES && point_equal(p, &was); i++) {
		unsigned dim = below(rand, SPACE_DIMS);

		*p = was;
		if (!point_uses(p, dim))
			continue;
		change(p, dim, rand);
		draw_new(p, &was, rand);
		point_settle(p);
	}
}

bool point_equal(const struct point *a, const struct point *b)
{
	return !memcmp(a->at, b->at, sizeof(a->at));
}

/* An atomic has 8 bytes, in one place. */
static uint32_t bytes_of(const struct point *p, unsigned traffic, unsigned request)
{
	uint32_t op = get(p, traffic, DIM_OP, request);

	return op == OP_ADD || op == OP_SWAP ? 8 : get(p, traffic, DIM_SIZE, request);
}

/* Writes a request like "s_2_512_513": equal places, and the last one has the remainder, too. */
static size_t put_request(const struct point *p, unsigned traffic, unsigned request, char *text,
	size_t size)
{
	uint32_t total = bytes_of(p, traffic, request);
	uint32_t places = get(p, traffic, DIM_PLACES, request), one = total / places;
	size_t n = (size_t)snprintf(text, size, "%s%s_%u", request ? "," : "",
		op_names[get(p, traffic, DIM_OP, request)], places);

	for (uint32_t i = 0; i < places && n < size; i++)
		n += (size_t)snprintf(text + n, size - n, "_%u",
			i + 1 < places ? one : total - one * (places - 1));
	return n;
}

uint32_t point_traffic(const struct point *p, unsigned traffic, struct traffic *t_p)
{
	char *text = t_p->pattern_text;
	size_t n = 0;

	if (traffic && p->at[SPACE_DIRECTION] == DIRECTION_NONE)
		return 0;
	traffic_init(t_p);
	for (enum dimension_kind kind = 0; kind < DIM_OP; kind++) {
		if (kinds[kind].field.size)
			field_set(t_p, kinds[kind].field, get(p, traffic, kind, 0));
	}
	t_p->mtu = (uint8_t)(__builtin_ctz(get(p, traffic, DIM_MTU, 0)) - 7); /* enum ibv_mtu */
	for (unsigned r = 0; r < get(p, traffic, DIM_REQUESTS, 0); r++)
		n += put_request(p, traffic, r, text + n, PATTERN_TEXT_MAX - n);
	return get(p, traffic, DIM_PROCESSES, 0);
}

/* Adds the values of the dimensions from @dim to @last to an object, which is returned. */
static json_t *add_values(json_t *o, const struct point *p, unsigned dim, unsigned last)
{
	for (; dim <= last; dim++) {
		const struct kind *k = &kinds[kind_of(dim)];

		json_object_set_new(o, k->name,
			k->words ? json_string(k->words[p->at[dim]]) :
				   json_integer(value_of(p, dim)));
	}
	return o;
}

static json_t *traffic_json(const struct point *p, unsigned traffic)
{
	const unsigned base = space_dim(traffic, DIM_PROCESSES, 0);
	json_t *requests = json_array();
	json_t *o = json_pack("{s:s s:s}", "workload_type",
		get(p, traffic, DIM_BIDIRECTIONAL, 0) ? "bidirection" : "unidirection", "direction",
		traffic ? direction_names[p->at[SPACE_DIRECTION]] : "forward");

	add_values(o, p, base + DIM_PROCESSES, base + DIM_TYPE);
	add_values(o, p, base + DIM_BURST, base + DIM_REGIONS);
	add_values(o, p, base + DIM_CONTROL, base + DIM_INLINE);
	for (unsigned r = 0; r < get(p, traffic, DIM_REQUESTS, 0); r++) {
		json_t *request = add_values(json_object(), p, space_dim(traffic, DIM_OP, r),
			space_dim(traffic, DIM_PLACES, r));

		json_object_set_new(request, "size", json_integer(bytes_of(p, traffic, r)));
		json_array_append_new(requests, request);
	}
	json_object_set_new(o, "requests", requests);
	json_object_set_new(o, "server",
		add_values(json_object(), p, base + DIM_RX_DEPTH, base + DIM_RECV_BATCH));
	json_object_set_new(o, "client",
		add_values(json_object(), p, base + DIM_TX_DEPTH, base + DIM_SEND_BATCH));
	return o;
}

json_t *point_json(const struct point *p)
{
	json_t *list = json_array();

	json_array_append_new(list, traffic_json(p, 0));
	if (p->at[SPACE_DIRECTION] != DIRECTION_NONE)
		json_array_append_new(list, traffic_json(p, 1));
	return json_pack("{s:o}", "Traffics", list);
}
