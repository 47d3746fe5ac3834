/* SPDX-License-Identifier: MIT */
#include "pattern.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "mlx5dvl.h"

static const struct {
	const char *name;
	uint8_t opcode;
} ops[] = {
	{"w", MLX5DVL_WRITE},
	{"wi", MLX5DVL_WRITE_IMM},
	{"r", MLX5DVL_READ},
	{"s", MLX5DVL_SEND},
	{"si", MLX5DVL_SEND_IMM},
	{"a", MLX5DVL_FETCH_ADD},
	{"c", MLX5DVL_CMP_SWAP},
};

const char *pattern_op_name(uint8_t opcode)
{
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		if (ops[i].opcode == opcode)
			return ops[i].name;
	}
	return "?";
}

static bool is_atomic(uint8_t opcode)
{
	return opcode == MLX5DVL_FETCH_ADD || opcode == MLX5DVL_CMP_SWAP;
}

static bool read_op(const char **at, uint8_t *opcode_p)
{
	size_t len = strcspn(*at, "_,");

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		if (strlen(ops[i].name) == len && !memcmp(ops[i].name, *at, len)) {
			*opcode_p = ops[i].opcode;
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

	if (!read_op(at, &r->opcode) || !read_number(at, PATTERN_PLACES, &n))
		return false;
	r->n = (uint8_t)n;
	r->total = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (!read_number(at, PATTERN_LENGTH_MAX, &r->len[i]))
			return false;
		r->total += r->len[i];
	}
	return !is_atomic(r->opcode) || (n == 1 && r->total == 8);
}

static uint32_t larger(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

static void summarise(struct pattern *p, const struct pattern_request *r)
{
	bool send = r->opcode == MLX5DVL_SEND || r->opcode == MLX5DVL_SEND_IMM;

	p->largest = larger(p->largest, r->total);
	if (send)
		p->largest_send = larger(p->largest_send, r->total);
	p->sends += send;
	p->receives += send || r->opcode == MLX5DVL_WRITE_IMM;
	p->atomics |= is_atomic(r->opcode);
	p->reads |= r->opcode == MLX5DVL_READ;
	p->writes |= r->opcode == MLX5DVL_WRITE || r->opcode == MLX5DVL_WRITE_IMM;
}

int pattern_parse(const char *text, struct pattern *p_p, char *why, size_t size)
{
	struct pattern p = {0};
	const char *at = text;

	for (bool more = true; more; at++) {
		if (p.n == PATTERN_REQUESTS || !read_request(&at, &p.request[p.n]) ||
			(*at && *at != ',')) {
			snprintf(why, size,
				"'%.40s' is no pattern: give up to %d requests like w_1_65536 or "
				"s_2_4096_512, with commas between",
				text, PATTERN_REQUESTS);
			return -EINVAL;
		}
		summarise(&p, &p.request[p.n++]);
		more = *at == ',';
	}
	*p_p = p;
	return 0;
}
