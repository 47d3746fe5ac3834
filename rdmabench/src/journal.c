/* SPDX-License-Identifier: MIT */
#include "journal.h"

#include <errno.h>
#include <stdlib.h>

#define ERRNO_MAX 4095 /* of the kernel */

int journal_append(FILE *journal, json_t *o)
{
	if (json_dumpf(o, journal, JSON_COMPACT) || putc('\n', journal) == EOF || fflush(journal))
		return -EIO;
	return 0;
}

int journal_next(FILE *journal, json_t **o_p)
{
	long start = ftell(journal);
	char *line = NULL;
	size_t size = 0;
	ssize_t len = getline(&line, &size, journal);
	bool whole = len > 0 && line[len - 1] == '\n';

	*o_p = whole ? json_loadb(line, (size_t)len, 0, NULL) : NULL;
	free(line);
	if (whole)
		return *o_p ? 1 : -EBADMSG;
	fseek(journal, start, SEEK_SET);
	return 0;
}

static json_t *at_json(const struct point *p)
{
	json_t *list = json_array();

	for (unsigned dim = 0; dim < SPACE_DIMS; dim++)
		json_array_append_new(list, json_integer(p->at[dim]));
	return list;
}

json_t *journal_line(const struct explore_ask *ask, const struct measure *m, int err)
{
	json_t *v = json_array(), *latency = json_array();

	for (int k = 0; k < MEASURE_KEYS && !err; k++)
		json_array_append_new(v, json_real(m->v[k]));
	for (int k = STATS_MIN; k < STATS_KEYS && !err; k++)
		json_array_append_new(latency,
			m->latency.has[k] ? json_real(m->latency.v[k]) : json_null());
	return json_pack("{s:i s:o s:i s:o s:o s:I s:b s:b}", "purpose", (int)ask->purpose, "at",
		at_json(ask->point), "err", err, "v", v, "latency", latency, "samples",
		(json_int_t)(err ? 0 : m->latency.samples), "from_port", !err && m->from_port,
		"keeps_up", !err && m->keeps_up);
}

static bool read_measure(const json_t *o, struct measure *m)
{
	const json_t *v = json_object_get(o, "v"), *latency = json_object_get(o, "latency");
	const json_t *samples = json_object_get(o, "samples");

	if (json_array_size(v) != MEASURE_KEYS || json_array_size(latency) != STATS_KEYS - 1 ||
		!json_is_integer(samples))
		return false;
	*m = (struct measure){.from_port = json_is_true(json_object_get(o, "from_port")),
		.keeps_up = json_is_true(json_object_get(o, "keeps_up"))};
	for (int k = 0; k < MEASURE_KEYS; k++) {
		const json_t *x = json_array_get(v, (size_t)k);

		if (!json_is_number(x))
			return false;
		m->v[k] = json_number_value(x);
	}
	m->latency.samples = (uint64_t)json_integer_value(samples);
	for (int k = STATS_MIN; k < STATS_KEYS; k++) {
		const json_t *x = json_array_get(latency, (size_t)k - 1);

		m->latency.has[k] = json_is_number(x);
		m->latency.v[k] = json_number_value(x);
		if (!m->latency.has[k] && !json_is_null(x))
			return false;
	}
	return true;
}

int journal_read(const json_t *o, const struct explore_ask *ask, struct measure *m_p, int *err_p)
{
	json_t *at = at_json(ask->point), *error = json_object_get(o, "err");
	bool same = json_equal(at, json_object_get(o, "at")) && json_is_integer(error);
	json_int_t err = json_integer_value(error);

	json_decref(at);
	if (!same || err > 0 || err < -ERRNO_MAX || (!err && !read_measure(o, m_p)))
		return -EBADMSG;
	*err_p = (int)err;
	return 1;
}
