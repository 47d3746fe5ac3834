/* SPDX-License-Identifier: MIT */
/*
 * The values of options: each function returns 0 and the value, or -EINVAL, and p->why says in one
 * line what to give.
 */
#ifndef BENCHKV_VALUES_H
#define BENCHKV_VALUES_H

#include <stdbool.h>
#include <stdint.h>

/* Where parsing is: the option's name and argument, and where to say what is wrong, if so. */
struct parse {
	const char *name, *arg;
	char *why;
	int size;
};

/* -EINVAL: give that instead. */
int value_bad(const struct parse *p, const char *give);

int value_u64(const struct parse *p, uint64_t min, uint64_t max, uint64_t *n_p);
int value_u32(const struct parse *p, uint32_t min, uint32_t max, uint32_t *n_p);
int value_real(const struct parse *p, double min, double max, double *x_p);
int value_seconds(const struct parse *p, double min, double max, uint64_t *ns_p);
int value_microseconds(const struct parse *p, double min, double max, uint64_t *ns_p);
int value_yes_no(const struct parse *p, bool *yes_p);
int value_wait(const struct parse *p, bool *event_p);
int value_distribution(const struct parse *p, double *theta_p);
int value_ring_size(const struct parse *p, uint32_t *size_p);
/* Any text but the empty one. */
int value_name(const struct parse *p, const char *what, const char **s_p);

#endif
