/* SPDX-License-Identifier: MIT */
#include "pattern.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "mlx5dvl.h"
#include "text.h"

static const struct {
	const char *name;
	uint8_t opcode, kind;
	bool receives;
} ops[] = {
	{"w", MLX5DVL_WRITE, PATTERN_WRITE, false},
	{"wi", MLX5DVL_WRITE_IMM, PATTERN_WRITE, true},
	{"r", MLX5DVL_READ, PATTERN_READ, false},
	{"s", MLX5DVL_SEND, PATTERN_SEND, true},
	{"si", MLX5DVL_SEND_IMM, PATTERN_SEND, true},
	{"a", MLX5DVL_FETCH_ADD, PATTERN_ATOMIC, false},
	{"c", MLX5DVL_CMP_SWAP, PATTERN_ATOMIC, false},
};

const char *pattern_op_name(uint8_t opcode)
{
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		if (ops[i].opcode == opcode)
			return ops[i].name;
	}
	return "?";
}

static bool read_op(const char **at, struct pattern_request *r)
{
	size_t len = strcspn(*at, "_,");

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		if (strlen(ops[i].name) == len && !memcmp(ops[i].name, *at, len)) {
			*r = (struct pattern_request){.opcode = ops[i].opcode,
				.kind = ops[i].kind,
				.receives = ops[i].receives};
			*at += len;
			return true;
		}
	}
	return false;
}

/* Reads "_N" with N from 1 to max. */
static bool read_number(const char **at, uint32_t max, uint32_t *n_p)
{
	unsigned long n;
	char *end;

	if (**at != '_' || !isdigit((unsigned char)(*at)[1]))
		return false;
	errno = 0;
	n = strtoul(*at + 1, &end, 10);
	if (errno || n < 1 || n > max)
		return false;
	*at = end;
	*n_p = (uint32_t)n;
	return true;
}

static bool read_request(const char **at, struct pattern_request *r)
{
	uint32_t n;

	if (!read_op(at, r) || !read_number(at, PATTERN_PLACES, &n))
		return false;
	r->n = (uint8_t)n;
	for (uint32_t i = 0; i < n; i++) {
		if (!read_number(at, PATTERN_LENGTH_MAX, &r->len[i]))
			return false;
		r->total += r->len[i];
	}
	return r->kind != PATTERN_ATOMIC || (n == 1 && r->total == 8);
}

static uint32_t larger(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

static void summarise(struct pattern *p, const struct pattern_request *r)
{
	p->largest = larger(p->largest, r->total);
	if (r->kind == PATTERN_SEND)
		p->largest_send = larger(p->largest_send, r->total);
	p->receives += r->receives;
	p->kinds |= 1u << r->kind;
}

int pattern_parse(const char *text, struct pattern *p_p, char *why, size_t size)
{
	struct pattern p = {0};
	const char *at = text;

	for (bool more = true; more; at++) {
		if (p.n == PATTERN_REQUESTS || !read_request(&at, &p.request[p.n]) ||
			(*at && *at != ','))
			return fail(why, size, -EINVAL,
				"'%.40s' is no pattern: give up to %d requests like w_1_65536 or "
				"s_2_4096_512, separated by commas",
				text, PATTERN_REQUESTS);
		summarise(&p, &p.request[p.n++]);
		more = *at == ',';
	}
	*p_p = p;
	return 0;
}
