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
	struct tent_config *c;
	bool smart, have_mode;
	const char *prefix; /* of the keys, as the file has them */
	char *why;
	size_t size;
};

static int bad(const struct reader *r, const char *key, const char *give)
{
	snprintf(r->why, r->size, "%s%s: give %s", r->prefix, key, give);
	return -EINVAL;
}

static int bad_range(const struct reader *r, const char *key, double min, double max)
{
	char give[80];

	snprintf(give, sizeof(give), "a number from %.10g to %.10g", min, max);
	return bad(r, key, give);
}

typedef int read_fn(struct reader *r, const char *key, const json_t *v);

static int read_bool(const struct reader *r, const char *key, const json_t *v, bool *b_p)
{
	if (!json_is_boolean(v))
		return bad(r, key, "true or false");
	*b_p = json_is_true(v);
	return 0;
}

static int read_smart(struct reader *r, const char *key, const json_t *v)
{
	return read_bool(r, key, v, &r->smart);
}

static int read_strict(struct reader *r, const char *key, const json_t *v)
{
	return read_bool(r, key, v, &r->c->strict_numa);
}

static int read_scheduler(struct reader *r, const char *key, const json_t *v)
{
	if (!json_is_string(v) || config_mode_parse(json_string_value(v), &r->c->mode))
		return bad(r, key, MODES);
	r->have_mode = true;
	return 0;
}

static int read_file(struct reader *r, const char *key, const json_t *v, char **name_p)
{
	if (!json_is_string(v) || !json_string_length(v))
		return bad(r, key, "the name of a file, a string that is not empty");
	*name_p = strdup(json_string_value(v));
	return *name_p ? 0 : -ENOMEM;
}

static int read_rail_map(struct reader *r, const char *key, const json_t *v)
{
	return read_file(r, key, v, &r->c->rail_map);
}

static int read_topology(struct reader *r, const char *key, const json_t *v)
{
	return read_file(r, key, v, &r->c->topology);
}

static int read_priorities(struct reader *r, const char *key, const json_t *v)
{
	json_int_t n = json_integer_value(v);

	if (!json_is_integer(v) || n < 1 || n > 3)
		return bad(r, key, "a whole number from 1 to 3");
	r->c->priorities = (unsigned int)n;
	return 0;
}

/* The last penalty holds for all following tiers. */
static int read_penalties(struct reader *r, const char *key, const json_t *v)
{
	size_t n = json_array_size(v); /* 0 if it is no array */
	double x = 0;

	if (n < 1 || n > TENT_TIERS)
		return bad(r, key, "an array of 1 to 3 numbers from 0.001 to 1000000");
	for (size_t i = 0; i < TENT_TIERS; i++) {
		if (i < n) {
			const json_t *e = json_array_get(v, i);

			x = json_number_value(e);
			if (!json_is_number(e) || !(x >= 0.001 && x <= 1e6))
				return bad(r, key,
					"an array of 1 to 3 numbers from 0.001 to 1000000");
		}
		r->c->numa_penalties[i] = x;
	}
	return 0;
}

/* The keys that are a number in a range. */
static const struct number {
	const char *key;
	size_t offset;
	double min, max;
} numbers[] = {
#define NUMBER(key, min, max)                                                                      \
	{                                                                                          \
#key, offsetof(struct tent_config, key), min, max                                  \
	}
	NUMBER(bandwidth_learning_rate, 0, 1),
	NUMBER(ewma_min_bandwidth_multiplier, 1e-6, 1),
	NUMBER(ewma_max_bandwidth_multiplier, 1, 1e6),
	NUMBER(score_jitter_range, 0, 1),
	NUMBER(score_epsilon, 1e-30, 1),
	NUMBER(default_bandwidth_gbps, 0.001, 1e6),
	NUMBER(min_bandwidth_gbps, 0.001, 1e6),
	NUMBER(max_bandwidth_gbps, 0.001, 1e6),
};

static const struct other {
	const char *key;
	read_fn *read;
} others[] = {
	{"enable_smart_scheduling", read_smart},
	{"numa_penalties", read_penalties},
	{"scheduler", read_scheduler},
	{"strict_numa", read_strict},
	{"rail_map", read_rail_map},
	{"topology", read_topology},
	{"priorities", read_priorities},
};

static int read_number(struct reader *r, const struct number *n, const json_t *v)
{
	double x = json_number_value(v);

	if (!json_is_number(v) || !(x >= n->min && x <= n->max))
		return bad_range(r, n->key, n->min, n->max);
	memcpy((char *)r->c + n->offset, &x, sizeof(x));
	return 0;
}

static int unknown_key(const struct reader *r, const char *key)
{
	size_t at;
	char name[48];

	why_printable(key, name, sizeof(name));
	at = (size_t)snprintf(r->why, r->size, "%s%s: no such key; give one of", r->prefix, name);
	for (size_t i = 0; i < ARRAY_SIZE(others) + ARRAY_SIZE(numbers) && at < r->size; i++)
		at += (size_t)snprintf(r->why + at, r->size - at, " %s",
			i < ARRAY_SIZE(others) ? others[i].key :
						 numbers[i - ARRAY_SIZE(others)].key);
	return -EINVAL;
}

static int read_key(struct reader *r, const char *key, const json_t *v)
{
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		if (!strcmp(key, numbers[i].key))
			return read_number(r, &numbers[i], v);
	}
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		if (!strcmp(key, others[i].key))
			return others[i].read(r, key, v);
	}
	return unknown_key(r, key);
}

/* Checks values that must fit together, the defaults included. */
static int check_together(const struct reader *r)
{
	const struct tent_config *c = r->c;

	if (c->min_bandwidth_gbps > c->max_bandwidth_gbps)
		return bad_range(r, "min_bandwidth_gbps", 0.001, c->max_bandwidth_gbps);
	if (c->default_bandwidth_gbps < c->min_bandwidth_gbps ||
		c->default_bandwidth_gbps > c->max_bandwidth_gbps)
		return bad_range(r, "default_bandwidth_gbps", c->min_bandwidth_gbps,
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
		r->c->mode = r->smart ? TENT_MODE_DEFAULT : TENT_BASELINE;
	return check_together(r);
}

/* Returns the only member of an object, NULL if it has others. */
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
		r->prefix = "transports.rdma.";
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

static int parse_root(const json_t *root, const json_error_t *e, struct tent_config *c_p, char *why,
	size_t size)
{
	struct tent_config c;
	struct reader r = {.c = &c, .smart = true, .prefix = "", .why = why, .size = size};
	int err;

	if (!root) {
		char text[JSON_ERROR_TEXT_LENGTH];

		why_printable(e->text, text, sizeof(text));
		snprintf(why, size, "line %d, column %d: %s; give a JSON object", e->line,
			e->column, text);
		return -EINVAL;
	}
	config_init(&c);
	err = read_document(&r, root);
	if (err) {
		config_fini(&c);
		return err;
	}
	*c_p = c;
	return 0;
}

int config_parse(const char *text, size_t len, struct tent_config *c_p, char *why, size_t size)
{
	json_error_t e;
	json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
	int err = parse_root(root, &e, c_p, why, size);

	json_decref(root);
	return err;
}

static void name_file(const char *path, char *why, size_t size)
{
	char said[400];

	snprintf(said, sizeof(said), "%s", why);
	snprintf(why, size, "%s: %s", path, said);
}

int config_load(const char *path, struct tent_config *c_p, char *why, size_t size)
{
	json_error_t e;
	FILE *f = fopen(path, "re");
	json_t *root;
	int err;

	if (!f) {
		err = -errno;
		snprintf(why, size, "%s: %s", path, strerror(-err));
		return err;
	}
	root = json_loadf(f, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
	err = parse_root(root, &e, c_p, why, size);
	if (err)
		name_file(path, why, size);
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
