/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "why.h"

#define MODES "\"baseline\", \"smart\" or \"pull\""

static const char *const mode_names[] = {
	[TENT_BASELINE] = "baseline",
	[TENT_SMART] = "smart",
	[TENT_PULL] = "pull",
};

/* The configuration that is being read, and the buffer for an error message. */
struct reader {
	struct tent_config c;
	bool smart, have_mode;
	char head[300]; /* before each key in messages: the file, and the keys that enclose it */
	struct tent_why *why;
};

/* A key, and the field of struct reader that its value goes to. */
struct key {
	const char *name;
	int (*read)(struct reader *r, const struct key *k, const json_t *v);
	size_t offset;
	double min, max; /* of a number */
};

static void *field(struct reader *r, const struct key *k)
{
	return (char *)r + k->offset;
}

static int bad(const struct reader *r, const char *key, const char *give)
{
	return why_say(r->why, -EINVAL, "%s%s: give %s", r->head, key, give);
}

static int bad_range(const struct reader *r, const char *key, const char *what, double min,
	double max)
{
	char give[80];

	snprintf(give, sizeof(give), "%s from %.10g to %.10g", what, min, max);
	return bad(r, key, give);
}

static int read_bool(struct reader *r, const struct key *k, const json_t *v)
{
	if (!json_is_boolean(v))
		return bad(r, k->name, "true or false");
	*(bool *)field(r, k) = json_is_true(v);
	return 0;
}

static int read_mode(struct reader *r, const struct key *k, const json_t *v)
{
	if (!json_is_string(v) || config_mode_parse(json_string_value(v), &r->c.mode))
		return bad(r, k->name, MODES);
	r->have_mode = true;
	return 0;
}

static int read_file(struct reader *r, const struct key *k, const json_t *v)
{
	char *name;

	if (!json_is_string(v) || !json_string_length(v))
		return bad(r, k->name, "the name of a file, a string that is not empty");
	name = strdup(json_string_value(v));
	*(char **)field(r, k) = name;
	return name ? 0 : -ENOMEM;
}

static int read_whole(struct reader *r, const struct key *k, const json_t *v)
{
	json_int_t n = json_integer_value(v);

	if (!json_is_integer(v) || n < k->min || n > k->max)
		return bad_range(r, k->name, "a whole number", k->min, k->max);
	*(unsigned int *)field(r, k) = (unsigned int)n;
	return 0;
}

static int read_number(struct reader *r, const struct key *k, const json_t *v)
{
	double x = json_number_value(v);

	if (!json_is_number(v) || !(x >= k->min && x <= k->max))
		return bad_range(r, k->name, "a number", k->min, k->max);
	*(double *)field(r, k) = x;
	return 0;
}

/* The last penalty also applies to all following tiers. */
static int read_penalties(struct reader *r, const struct key *k, const json_t *v)
{
	size_t n = json_array_size(v); /* 0 if it is no array; then there is no element */
	const char *give = "an array of 1 to 3 numbers from 0.001 to 1000000";

	if (n > TENT_TIERS)
		return bad(r, k->name, give);
	for (size_t i = 0; i < TENT_TIERS; i++) {
		const json_t *e = json_array_get(v, i < n ? i : n - 1);
		double x = json_number_value(e);

		if (!json_is_number(e) || !(x >= k->min && x <= k->max))
			return bad(r, k->name, give);
		r->c.numa_penalties[i] = x;
	}
	return 0;
}

#define KEY(key, function, ...)                                                                    \
	{                                                                                          \
		.name = #key, .read = function, .offset = offsetof(struct reader, c.key),          \
		__VA_ARGS__                                                                        \
	}

static const struct key keys[] = {
	{.name = "enable_smart_scheduling",
		.read = read_bool,
		.offset = offsetof(struct reader, smart)},
	KEY(numa_penalties, read_penalties, 0.001, 1e6),
	{.name = "scheduler", .read = read_mode},
	KEY(strict_numa, read_bool),
	KEY(rail_map, read_file),
	KEY(topology, read_file),
	KEY(priorities, read_whole, 1, 3),
	KEY(bandwidth_learning_rate, read_number, 0, 1),
	KEY(ewma_min_bandwidth_multiplier, read_number, 1e-6, 1),
	KEY(ewma_max_bandwidth_multiplier, read_number, 1, 1e6),
	KEY(score_jitter_range, read_number, 0, 1),
	KEY(score_epsilon, read_number, 1e-30, 1),
	KEY(default_bandwidth_gbps, read_number, 0.001, 1e6),
	KEY(min_bandwidth_gbps, read_number, 0.001, 1e6),
	KEY(max_bandwidth_gbps, read_number, 0.001, 1e6),
};

static int unknown_key(const struct reader *r, const char *key)
{
	char name[48], names[500] = "";
	size_t at = 0;

	why_printable(key, name, sizeof(name));
	for (size_t i = 0; i < ARRAY_SIZE(keys) && at < sizeof(names); i++)
		at += (size_t)snprintf(names + at, sizeof(names) - at, " %s", keys[i].name);
	return why_say(r->why, -EINVAL, "%s%s: no such key; give one of%s", r->head, name, names);
}

static int read_key(struct reader *r, const char *key, const json_t *v)
{
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (!strcmp(key, keys[i].name))
			return keys[i].read(r, &keys[i], v);
	}
	return unknown_key(r, key);
}

/* Checks values that must fit together, the defaults included. */
static int check_together(const struct reader *r)
{
	const struct tent_config *c = &r->c;

	if (c->min_bandwidth_gbps > c->max_bandwidth_gbps)
		return bad_range(r, "min_bandwidth_gbps", "a number", 0.001, c->max_bandwidth_gbps);
	if (c->default_bandwidth_gbps < c->min_bandwidth_gbps ||
		c->default_bandwidth_gbps > c->max_bandwidth_gbps)
		return bad_range(r, "default_bandwidth_gbps", "a number", c->min_bandwidth_gbps,
			c->max_bandwidth_gbps);
	return 0;
}

static int read_object(struct reader *r, const json_t *object)
{
	const char *key;
	json_t *v;
	int err;

	/* The iterator of jansson is not const, although it changes nothing. */
	json_object_foreach((json_t *)object, key, v)
	{
		err = read_key(r, key, v);
		if (err)
			return err;
	}
	if (!r->have_mode)
		r->c.mode = r->smart ? TENT_MODE_DEFAULT : TENT_BASELINE;
	return check_together(r);
}

/* Returns the member @key if it is an object and the only member of @object, else NULL. */
static const json_t *only_member(const json_t *object, const char *key)
{
	const json_t *v = json_object_get(object, key);

	return json_object_size(object) == 1 && json_is_object(v) ? v : NULL;
}

static int read_document(struct reader *r, const json_t *root)
{
	const json_t *v = root;

	if (!json_is_object(root))
		return bad(r, "configuration", "a JSON object");
	if (json_object_get(root, "transports")) {
		v = only_member(root, "transports");
		if (!v)
			return bad(r, "transports", "an object, and no key beside it");
		v = only_member(v, "rdma");
		if (!v)
			return bad(r, "transports", "an object with the one key rdma, an object");
		strcat(r->head, "transports.rdma.");
	}
	return read_object(r, v);
}

void config_init(struct tent_config *c)
{
	*c = (struct tent_config){
		.mode = TENT_MODE_DEFAULT,
		.numa_penalties = {1.0, 5.0, 10.0},
		.bandwidth_learning_rate = 0.01,
		.ewma_min_bandwidth_multiplier = 0.1,
		.ewma_max_bandwidth_multiplier = 10.0,
		.score_jitter_range = 1e-9,
		.score_epsilon = 1e-12,
		.default_bandwidth_gbps = 400.0,
		.min_bandwidth_gbps = 10.0,
		.max_bandwidth_gbps = 800.0,
		.priorities = 1,
	};
}

static int parse_root(struct reader *r, const json_t *root, const json_error_t *e,
	struct tent_config *c_p)
{
	char text[JSON_ERROR_TEXT_LENGTH];
	int err;

	if (!root) {
		why_printable(e->text, text, sizeof(text));
		return why_say(r->why, -EINVAL, "%sline %d, column %d: %s; give a JSON object",
			r->head, e->line, e->column, text);
	}
	r->smart = true;
	config_init(&r->c);
	err = read_document(r, root);
	if (err)
		config_fini(&r->c);
	else
		*c_p = r->c;
	return err;
}

int config_parse(const char *text, size_t len, struct tent_config *c_p, struct tent_why *why)
{
	struct reader r = {.why = why};
	json_error_t e;
	json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
	int err = parse_root(&r, root, &e, c_p);

	json_decref(root);
	return err;
}

int config_load(const char *path, struct tent_config *c_p, struct tent_why *why)
{
	struct reader r = {.why = why};
	json_error_t e;
	FILE *f = fopen(path, "re");
	json_t *root;
	int err;

	if (!f)
		return why_say(why, -errno, "%s: %s", path, strerror(errno));
	snprintf(r.head, sizeof(r.head) - 32, "%s: ", path);
	root = json_loadf(f, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
	err = parse_root(&r, root, &e, c_p);
	json_decref(root);
	fclose(f);
	return err;
}

void config_fini(struct tent_config *c)
{
	free(c->rail_map);
	free(c->topology);
	c->rail_map = c->topology = NULL;
}

double config_bandwidth_gbps(const struct tent_config *c, double gbps)
{
	if (gbps >= c->min_bandwidth_gbps && gbps <= c->max_bandwidth_gbps)
		return gbps;
	return c->default_bandwidth_gbps;
}

double config_half_life(const struct tent_config *c)
{
	double a = c->bandwidth_learning_rate;

	if (a <= 0)
		return 0;
	return a < 1 ? log(0.5) / log(a) : INFINITY;
}

const char *config_mode_name(enum tent_mode mode)
{
	return mode_names[mode];
}

int config_mode_parse(const char *name, enum tent_mode *mode_p)
{
	for (size_t i = 0; i < ARRAY_SIZE(mode_names); i++) {
		if (!strcmp(name, mode_names[i])) {
			*mode_p = (enum tent_mode)i;
			return 0;
		}
	}
	return -EINVAL;
}
