/* SPDX-License-Identifier: MIT */
#include "spacefile.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mlx5dvl.h"
#include "text.h"

#define CHANGE_MAX 400 /* bytes of a change */
#define SPACES " \t\r\v\f"

/* ---- changes ---- */

/* Inserts a value in its order, unless it is there. Returns false if there is no room. */
static bool insert(struct space *s, unsigned dim, uint32_t value)
{
	uint32_t *list = s->value[dim];
	unsigned n = s->n[dim], at = 0;

	while (at < n && list[at] < value)
		at++;
	if (at < n && list[at] == value)
		return true;
	if (n == SPACE_VALUES)
		return false;
	memmove(list + at + 1, list + at, (n - at) * sizeof(*list));
	list[at] = value;
	s->n[dim]++;
	return true;
}

static int change_one(struct space *s, unsigned dim, const char *values, char *why, size_t size)
{
	char copy[CHANGE_MAX], *rest = copy, *text, name[SPACE_NAME];
	int err = 0;

	snprintf(copy, sizeof(copy), "%s", values);
	s->given[dim] = true;
	while (!err && (text = strsep(&rest, ","))) {
		uint32_t value = 0;

		err = space_parse(dim, trim(text, SPACES), &value, why, size);
		if (err || insert(s, dim, value))
			continue;
		space_name(dim, name);
		err = fail(why, size, -EINVAL, "%s has too many values: give at most %d", name,
			SPACE_VALUES);
	}
	return err;
}

int space_change(struct space *s, const char *text, char *why, size_t size)
{
	char copy[CHANGE_MAX], name[SPACE_NAME], *values, *pattern, *plus;
	bool add, known = false;
	int err = 0;

	if (snprintf(copy, sizeof(copy), "%s", text) >= CHANGE_MAX)
		return fail(why, size, -EINVAL, "that is too long: give up to %d letters",
			CHANGE_MAX - 1);
	values = strchr(copy, '=');
	if (!values)
		return fail(why, size, -EINVAL,
			"'%.40s' is not valid: give a parameter and its values, as 0.qp_num=4,16",
			trim(copy, SPACES));
	*values++ = 0;
	plus = strchr(copy, '+');
	add = plus && !plus[1];
	if (add)
		*plus = 0;
	pattern = trim(copy, SPACES);
	for (unsigned dim = 0; dim < SPACE_DIMS && !err; dim++) {
		space_name(dim, name);
		if (fnmatch(pattern, name, 0))
			continue;
		known = true;
		s->n[dim] = add ? s->n[dim] : 0;
		err = change_one(s, dim, values, why, size);
	}
	return known ? err :
		       fail(why, size, -EINVAL,
			       "there is no parameter '%.40s': give one as 0.qp_num, 1.request3.size "
			       "or *.mtu; rdmabench(1) has the names",
			       pattern);
}

/* ---- files ---- */

static int read_line(struct space *s, char *line, size_t len, char *why, size_t size)
{
	if (strlen(line) != len)
		return fail(why, size, -EINVAL, "a byte is 0: give text");
	line[strcspn(line, "#\n")] = 0;
	return line[strspn(line, SPACES)] ? space_change(s, line, why, size) : 0;
}

int space_read(struct space *s, const char *path, char *why, size_t size)
{
	FILE *f = fopen(path, "re");
	char *line = NULL, what[200];
	size_t room = 0;
	ssize_t len;
	int err = 0;

	if (!f)
		return fail(why, size, -EINVAL, "%.120s: %s: give a file that can be read", path,
			strerror(errno));
	for (unsigned n = 1; !err && (len = getline(&line, &room, f)) >= 0; n++) {
		err = read_line(s, line, (size_t)len, what, sizeof(what));
		if (err)
			fail(why, size, err, "%.120s:%u: %s", path, n, what);
	}
	if (!err && ferror(f))
		err = fail(why, size, -EINVAL, "%.120s: %s: give a file that can be read", path,
			strerror(errno));
	free(line);
	fclose(f);
	return err;
}

/* ---- values that no point can have ---- */

static uint32_t least(const struct space *s, unsigned dim)
{
	return s->value[dim][0];
}

void space_leave_out(struct space *s, unsigned dim, unsigned at)
{
	uint32_t *list = s->value[dim];

	memmove(list + at, list + at + 1, (--s->n[dim] - at) * sizeof(*list));
}

/* Leaves out the values below those of another parameter. */
static int prune_below(struct space *s, unsigned dim, unsigned of, char *why, size_t size)
{
	char name[SPACE_NAME], other[SPACE_NAME];

	while (s->n[dim] && least(s, dim) < least(s, of))
		space_leave_out(s, dim, 0);
	if (s->n[dim])
		return 0;
	space_name(dim, name);
	space_name(of, other);
	return fail(why, size, -EINVAL,
		"every %s is less than every %s: give a larger %s, or a smaller %s", name, other,
		strrchr(name, '.') + 1, strrchr(other, '.') + 1);
}

/* Leaves out numbers of QPs that are too large for all depths. */
static int prune_qps(struct space *s, unsigned traffic, char *why, size_t size)
{
	unsigned qps = space_dim(traffic, DIM_QPS, 0), depth = space_dim(traffic, DIM_TX_DEPTH, 0);

	while (s->n[qps] && least(s, depth) > traffic_depth_max(s->value[qps][s->n[qps] - 1]))
		space_leave_out(s, qps, s->n[qps] - 1);
	if (s->n[qps])
		return 0;
	return fail(why, size, -EINVAL,
		"every %u.qp_num is too large for every %u.tx_depth: give a smaller one", traffic,
		traffic);
}

static unsigned most_requests(const struct space *s, unsigned traffic)
{
	unsigned dim = space_dim(traffic, DIM_REQUESTS, 0);

	return s->value[dim][s->n[dim] - 1];
}

/*
 * Returns true if each request of the flow has an operation that this kind of QP supports, and for
 * UD a size that fits into a packet.
 */
static bool type_fits(const struct space *s, unsigned traffic, uint32_t type)
{
	for (unsigned r = 0; r < most_requests(s, traffic); r++) {
		unsigned dim = space_dim(traffic, DIM_OP, r);
		bool fits = false;

		for (unsigned at = 0; at < s->n[dim]; at++)
			fits |= space_op_fits(type, s->value[dim][at]);
		if (!fits)
			return false;
		if (type == MLX5DVL_UD && least(s, space_dim(traffic, DIM_SIZE, r)) >
						  least(s, space_dim(traffic, DIM_MTU, 0)))
			return false;
	}
	return true;
}

/* If UD is the only kind of QP, leaves out MTUs that are smaller than all sizes of a request. */
static int prune_mtus(struct space *s, unsigned traffic, char *why, size_t size)
{
	unsigned type = space_dim(traffic, DIM_TYPE, 0);
	int err = 0;

	for (unsigned r = 0; r < most_requests(s, traffic) && !err; r++) {
		if (s->n[type] == 1 && least(s, type) == MLX5DVL_UD)
			err = prune_below(s, space_dim(traffic, DIM_MTU, 0),
				space_dim(traffic, DIM_SIZE, r), why, size);
	}
	return err;
}

static int prune_types(struct space *s, unsigned traffic, char *why, size_t size)
{
	unsigned dim = space_dim(traffic, DIM_TYPE, 0);
	int err = prune_mtus(s, traffic, why, size);

	if (err)
		return err;
	for (unsigned at = s->n[dim]; at-- > 0;) {
		if (!type_fits(s, traffic, s->value[dim][at]))
			space_leave_out(s, dim, at);
	}
	if (s->n[dim])
		return 0;
	return fail(why, size, -EINVAL,
		"no %u.qp_type has these operations: give RC, or other values of op", traffic);
}

/* ---- patterns ---- */

/* Returns the length of the longest text of a request, with a comma. */
static size_t longest_request(const struct space *s, unsigned traffic, unsigned request)
{
	unsigned size = space_dim(traffic, DIM_SIZE, request);
	unsigned places = space_dim(traffic, DIM_PLACES, request);
	size_t longest = 0;

	for (unsigned i = 0; i < s->n[size]; i++) {
		for (unsigned k = 0; k < s->n[places]; k++) {
			uint32_t n = s->value[places][k];
			/* The last place is the longest, because it also has the remainder (at most
			 * n - 1). */
			uint32_t last = s->value[size][i] / n + n - 1;
			size_t len = strlen("wi_4,") + n * (size_t)snprintf(NULL, 0, "_%u", last);

			longest = len > longest ? len : longest;
		}
	}
	return longest;
}

static int check_length(const struct space *s, unsigned traffic, char *why, size_t size)
{
	size_t len = 0;

	for (unsigned r = 0; r < most_requests(s, traffic); r++)
		len += longest_request(s, traffic, r);
	if (len <= PATTERN_TEXT_MAX)
		return 0;
	return fail(why, size, -EINVAL,
		"the requests of flow %u are too long as text: give fewer, smaller sizes or fewer "
		"places",
		traffic);
}

int space_prune(struct space *s, char *why, size_t size)
{
	int err = 0;

	for (unsigned traffic = 0; traffic < 2 && !err; traffic++) {
		err = prune_below(s, space_dim(traffic, DIM_TX_DEPTH, 0),
			space_dim(traffic, DIM_SEND_BATCH, 0), why, size);
		if (!err)
			err = prune_qps(s, traffic, why, size);
		if (!err)
			err = prune_below(s, space_dim(traffic, DIM_QPS, 0),
				space_dim(traffic, DIM_REGIONS, 0), why, size);
		if (!err)
			err = prune_types(s, traffic, why, size);
		if (!err)
			err = check_length(s, traffic, why, size);
	}
	return err;
}

/* ---- the header of a search ---- */

json_t *space_json(const struct space *s)
{
	json_t *list = json_array();

	for (unsigned dim = 0; dim < SPACE_DIMS; dim++) {
		char text[CHANGE_MAX], name[SPACE_NAME], value[SPACE_NAME];
		size_t n;

		if (!s->given[dim])
			continue;
		space_name(dim, name);
		n = (size_t)snprintf(text, sizeof(text), "%s", name);
		for (unsigned at = 0; at < s->n[dim]; at++) {
			space_value(s, dim, at, value);
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%c%s", at ? ',' : '=',
				value);
		}
		json_array_append_new(list, json_string(text));
	}
	return list;
}
