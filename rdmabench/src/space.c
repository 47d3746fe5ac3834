/* SPDX-License-Identifier: MIT */
#include "space.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/rand.h"
#include "mlx5dvl.h"

#define MUTATE_TRIES 1000

static const char *const op_names[] = {"w", "s", "r"};
static const char *const direction_names[] = {"none", "reverse", "loopback"};

/* Values are consecutive from first, or, if doubled, powers of two from first. */
static const struct kind {
	const char *name;
	uint8_t n;
	uint32_t first;
	bool doubled;
} kinds[] = {
	[DIM_PROCESSES] = {"process_num", 6, 1, false},
	[DIM_QPS] = {"qp_num", 4, 1, false},
	[DIM_MTU] = {"mtu", 3, 3, false},
	[DIM_TYPE] = {"qp_type", 3, MLX5DVL_RC, false},
	[DIM_BIDIRECTIONAL] = {"bidirectional", 2, 0, false},
	[DIM_BURST] = {"burst", 5, 0, false},
	[DIM_BUFFERS] = {"buf_num", 4, 1, false},
	[DIM_REGIONS] = {"mr_num", 4, 1, false},
	[DIM_REQUESTS] = {"requests", PATTERN_REQUESTS, 1, false},
	[DIM_CONTROL] = {"control", CONTROL_KINDS, CONTROL_NONE, false},
	[DIM_INJECT] = {"inject", INJECT_KINDS, INJECT_NONE, false},
	[DIM_INJECT_AT] = {"inject_at", 4, 0, false},
	[DIM_TX_DEPTH] = {"tx_depth", 11, 1, true},
	[DIM_SEND_BATCH] = {"send_batch", 7, 1, true},
	[DIM_RX_DEPTH] = {"rx_depth", 7, 16, true},
	[DIM_RECV_BATCH] = {"recv_batch", 7, 1, true},
	[DIM_OP] = {"op", ARRAY_SIZE(op_names), 0, false},
	[DIM_SIZE] = {"size", 13, 32, true},
	[DIM_PLACES] = {"places", PATTERN_PLACES, 1, false},
	[DIM_DIRECTION] = {"direction", ARRAY_SIZE(direction_names), 0, false},
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

	if (kind_of(dim) == DIM_BURST)
		return at ? 1u << 2 * (at - 1) : 0;
	if (kind_of(dim) == DIM_INJECT_AT)
		return 1u << 4 * at;
	return k->doubled ? k->first << at : k->first + at;
}

void space_value(unsigned dim, unsigned at, char value[SPACE_NAME])
{
	struct point p = {{0}};
	const char *const *words = NULL;

	p.at[dim] = (uint8_t)at;
	switch (kind_of(dim)) {
	case DIM_TYPE:
		words = traffic_type_names;
		break;
	case DIM_OP:
		words = op_names;
		break;
	case DIM_CONTROL:
		words = control_names;
		break;
	case DIM_INJECT:
		words = inject_names;
		break;
	case DIM_DIRECTION:
		words = direction_names;
		break;
	default:
		break;
	}
	if (words)
		snprintf(value, SPACE_NAME, "%s", words[at]);
	else
		snprintf(value, SPACE_NAME, "%u",
			kind_of(dim) == DIM_MTU ? 128u << value_of(&p, dim) : value_of(&p, dim));
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
		snprintf(why, size, "--fix: %s has no such value: give one of %s", name, values);
		return -EINVAL;
	}
	snprintf(why, size, "--fix %.40s: give a parameter and its value, as 0.qp_num=4", text);
	return -EINVAL;
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

	if (type == MLX5DVL_UC && *op == 2)
		*op = 0;
	if (type != MLX5DVL_UD)
		return;
	*op = 1;
	while (get(p, traffic, DIM_SIZE, request) > 128u << get(p, traffic, DIM_MTU, 0))
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

/* Returns another value: a neighbour, or any. */
static void change(struct point *p, unsigned dim, uint64_t *rand)
{
	unsigned n = space_values(dim), at = p->at[dim];

	if (below(rand, 2))
		at = at == 0 ? 1 : at == n - 1 ? n - 2 : at + 2 * below(rand, 2) - 1;
	else
		at = (at + 1 + below(rand, n - 1)) % n;
	p->at[dim] = (uint8_t)at;
}

/* Draws the dimensions that have an effect only now. */
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

/* Writes a request like "s_2_512_512": the size in equal places, and the rest in the last one. */
static size_t put_request(const struct point *p, unsigned traffic, unsigned request, char *text,
	size_t size)
{
	uint32_t total = get(p, traffic, DIM_SIZE, request);
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
	t_p->type = (uint8_t)get(p, traffic, DIM_TYPE, 0);
	t_p->mtu = (uint8_t)get(p, traffic, DIM_MTU, 0);
	t_p->bidirectional = get(p, traffic, DIM_BIDIRECTIONAL, 0);
	t_p->qps = get(p, traffic, DIM_QPS, 0);
	t_p->buffers = get(p, traffic, DIM_BUFFERS, 0);
	t_p->regions = get(p, traffic, DIM_REGIONS, 0);
	t_p->depth = get(p, traffic, DIM_TX_DEPTH, 0);
	t_p->send_batch = get(p, traffic, DIM_SEND_BATCH, 0);
	t_p->rx_depth = get(p, traffic, DIM_RX_DEPTH, 0);
	t_p->recv_batch = get(p, traffic, DIM_RECV_BATCH, 0);
	t_p->burst = get(p, traffic, DIM_BURST, 0);
	t_p->control = (uint8_t)get(p, traffic, DIM_CONTROL, 0);
	t_p->inject = (uint8_t)get(p, traffic, DIM_INJECT, 0);
	t_p->inject_at = get(p, traffic, DIM_INJECT_AT, 0);
	for (unsigned r = 0; r < get(p, traffic, DIM_REQUESTS, 0); r++)
		n += put_request(p, traffic, r, text + n, PATTERN_TEXT_MAX - n);
	return get(p, traffic, DIM_PROCESSES, 0);
}

static json_t *requests_json(const struct point *p, unsigned traffic)
{
	json_t *list = json_array();

	for (unsigned r = 0; r < get(p, traffic, DIM_REQUESTS, 0); r++)
		json_array_append_new(list,
			json_pack("{s:s s:i s:i}", "op", op_names[get(p, traffic, DIM_OP, r)],
				"size", (int)get(p, traffic, DIM_SIZE, r), "places",
				(int)get(p, traffic, DIM_PLACES, r)));
	return list;
}

static json_t *traffic_json(const struct point *p, unsigned traffic)
{
	bool both = get(p, traffic, DIM_BIDIRECTIONAL, 0);

	return json_pack(
		"{s:s s:s s:i s:i s:i s:s s:i s:i s:i s:s s:s s:i s:o s:{s:i s:i} s:{s:i s:i}}",
		"workload_type", both ? "bidirection" : "unidirection", "direction",
		traffic ? direction_names[p->at[SPACE_DIRECTION]] : "forward", "process_num",
		(int)get(p, traffic, DIM_PROCESSES, 0), "qp_num", (int)get(p, traffic, DIM_QPS, 0),
		"mtu", 128 << get(p, traffic, DIM_MTU, 0), "qp_type",
		traffic_type_names[get(p, traffic, DIM_TYPE, 0)], "burst",
		(int)get(p, traffic, DIM_BURST, 0), "buf_num", (int)get(p, traffic, DIM_BUFFERS, 0),
		"mr_num", (int)get(p, traffic, DIM_REGIONS, 0), "control",
		control_names[get(p, traffic, DIM_CONTROL, 0)], "inject",
		inject_names[get(p, traffic, DIM_INJECT, 0)], "inject_at",
		(int)get(p, traffic, DIM_INJECT_AT, 0), "requests", requests_json(p, traffic),
		"server", "rx_depth", (int)get(p, traffic, DIM_RX_DEPTH, 0), "recv_batch",
		(int)get(p, traffic, DIM_RECV_BATCH, 0), "client", "tx_depth",
		(int)get(p, traffic, DIM_TX_DEPTH, 0), "send_batch",
		(int)get(p, traffic, DIM_SEND_BATCH, 0));
}

json_t *point_json(const struct point *p)
{
	json_t *list = json_array();

	json_array_append_new(list, traffic_json(p, 0));
	if (p->at[SPACE_DIRECTION] != DIRECTION_NONE)
		json_array_append_new(list, traffic_json(p, 1));
	return json_pack("{s:o}", "Traffics", list);
}

/* Finds the index whose value a number is. */
static bool set(struct point *p, unsigned traffic, enum dimension_kind kind, unsigned request,
	json_int_t value)
{
	unsigned dim = space_dim(traffic, kind, request);

	for (unsigned i = 0; i < space_values(dim); i++) {
		p->at[dim] = (uint8_t)i;
		if (value_of(p, dim) == value)
			return true;
	}
	return false;
}

static bool set_number(struct point *p, unsigned traffic, enum dimension_kind kind,
	unsigned request, const json_t *o)
{
	const json_t *v = json_object_get(o, kinds[kind].name);

	return json_is_integer(v) && set(p, traffic, kind, request, json_integer_value(v));
}

static bool set_word(struct point *p, unsigned traffic, enum dimension_kind kind, unsigned request,
	const char *word, const char *const *words)
{
	for (unsigned i = 0; word && i < kinds[kind].n; i++) {
		if (!strcmp(word, words[i])) {
			p->at[space_dim(traffic, kind, request)] = (uint8_t)i;
			return true;
		}
	}
	return false;
}

static const char *word_in(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

static bool read_requests(const json_t *list, unsigned traffic, struct point *p)
{
	size_t i;
	json_t *r;

	if (!set(p, traffic, DIM_REQUESTS, 0, (json_int_t)json_array_size(list)))
		return false;
	json_array_foreach(list, i, r)
	{
		unsigned n = (unsigned)i;

		if (!set_word(p, traffic, DIM_OP, n, word_in(r, "op"), op_names) ||
			!set_number(p, traffic, DIM_SIZE, n, r) ||
			!set_number(p, traffic, DIM_PLACES, n, r))
			return false;
	}
	return true;
}

static bool read_traffic(const json_t *o, unsigned traffic, struct point *p)
{
	static const char *const workloads[] = {"unidirection", "bidirection"};
	const json_t *client = json_object_get(o, "client"), *server = json_object_get(o, "server");
	const json_t *mtu = json_object_get(o, "mtu");
	json_int_t code = 0;

	while (code < 6 && 128 << code != json_integer_value(mtu))
		code++;
	return set_word(p, traffic, DIM_BIDIRECTIONAL, 0, word_in(o, "workload_type"), workloads) &&
	       set_word(p, traffic, DIM_TYPE, 0, word_in(o, "qp_type"), traffic_type_names) &&
	       (!traffic || set_word(p, 1, DIM_DIRECTION, 0, word_in(o, "direction"),
				    direction_names)) &&
	       set_number(p, traffic, DIM_PROCESSES, 0, o) &&
	       set_number(p, traffic, DIM_QPS, 0, o) && set(p, traffic, DIM_MTU, 0, code) &&
	       set_number(p, traffic, DIM_BURST, 0, o) &&
	       set_number(p, traffic, DIM_BUFFERS, 0, o) &&
	       set_number(p, traffic, DIM_REGIONS, 0, o) &&
	       set_word(p, traffic, DIM_CONTROL, 0, word_in(o, "control"), control_names) &&
	       set_word(p, traffic, DIM_INJECT, 0, word_in(o, "inject"), inject_names) &&
	       set_number(p, traffic, DIM_INJECT_AT, 0, o) &&
	       set_number(p, traffic, DIM_TX_DEPTH, 0, client) &&
	       set_number(p, traffic, DIM_SEND_BATCH, 0, client) &&
	       set_number(p, traffic, DIM_RX_DEPTH, 0, server) &&
	       set_number(p, traffic, DIM_RECV_BATCH, 0, server) &&
	       read_requests(json_object_get(o, "requests"), traffic, p);
}

bool point_from_json(const json_t *o, struct point *p_p)
{
	const json_t *list = json_object_get(o, "Traffics");
	struct point p = {{0}}, settled;
	size_t n = json_array_size(list);

	if (n < 1 || n > 2)
		return false;
	for (unsigned i = 0; i < n; i++) {
		if (!read_traffic(json_array_get(list, i), i, &p))
			return false;
	}
	settled = p;
	point_settle(&settled);
	if (!point_equal(&p, &settled) || (n == 2) != (p.at[SPACE_DIRECTION] != DIRECTION_NONE))
		return false;
	*p_p = p;
	return true;
}
