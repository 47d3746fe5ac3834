/* SPDX-License-Identifier: MIT */
#include "values.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"

#define RING_MIN 4096u
#define RING_MAX (1u << 30)

int value_bad(const struct parse *p, const char *give)
{
	if (p->why)
		snprintf(p->why, (size_t)p->size, "--%s '%s' is not valid: give %s", p->name,
			p->arg, give);
	return -EINVAL;
}

int value_u64(const struct parse *p, uint64_t min, uint64_t max, uint64_t *n_p)
{
	unsigned long long n;
	char *end, give[64];

	errno = 0;
	n = strtoull(p->arg, &end, 0);
	if (p->arg[0] >= '0' && p->arg[0] <= '9' && !*end && !errno && n >= min && n <= max) {
		*n_p = n;
		return 0;
	}
	snprintf(give, sizeof(give), "a whole number from %" PRIu64 " to %" PRIu64, min, max);
	return value_bad(p, give);
}

int value_u32(const struct parse *p, uint32_t min, uint32_t max, uint32_t *n_p)
{
	uint64_t n;
	int err = value_u64(p, min, max, &n);

	if (!err)
		*n_p = (uint32_t)n;
	return err;
}

int value_real(const struct parse *p, double min, double max, double *x_p)
{
	bool number = (*p->arg >= '0' && *p->arg <= '9') || *p->arg == '.';
	char *end, give[64];
	double x = strtod(p->arg, &end);

	if (number && end != p->arg && !*end && isfinite(x) && x >= min && x <= max) {
		*x_p = x;
		return 0;
	}
	snprintf(give, sizeof(give), "a number from %g to %.10g", min, max);
	return value_bad(p, give);
}

int value_microseconds(const struct parse *p, double min, double max, uint64_t *ns_p)
{
	double us;
	int err = value_real(p, min, max, &us);

	if (!err)
		*ns_p = (uint64_t)(us * (double)NSEC_PER_USEC);
	return err;
}

int value_seconds(const struct parse *p, double min, double max, uint64_t *ns_p)
{
	double s;
	int err = value_real(p, min, max, &s);

	if (!err)
		*ns_p = (uint64_t)(s * (double)NSEC_PER_SEC);
	return err;
}

int value_yes_no(const struct parse *p, bool *yes_p)
{
	bool yes = !strcmp(p->arg, "yes");

	if (!yes && strcmp(p->arg, "no"))
		return value_bad(p, "yes or no");
	*yes_p = yes;
	return 0;
}

int value_wait(const struct parse *p, bool *event_p)
{
	bool event = !strcmp(p->arg, "event");

	if (!event && strcmp(p->arg, "poll"))
		return value_bad(p, "poll or event");
	*event_p = event;
	return 0;
}

int value_distribution(const struct parse *p, double *theta_p)
{
	struct parse number = *p;
	double theta = 0;

	if (!strncmp(p->arg, "zipf:", 5)) {
		number = (struct parse){.name = p->name, .arg = p->arg + 5};
		if (value_real(&number, 1e-6, 10, &theta))
			return value_bad(p, "zipf: and a number above 0, at most 10, as zipf:0.99");
	} else if (strcmp(p->arg, "uniform")) {
		return value_bad(p, "uniform, or zipf:THETA as zipf:0.99");
	}
	*theta_p = theta;
	return 0;
}

int value_ring_size(const struct parse *p, uint32_t *size_p)
{
	struct parse number = {.name = p->name, .arg = p->arg};
	uint32_t size = 0;

	if (strcmp(p->arg, "auto") &&
		(value_u32(&number, RING_MIN, RING_MAX, &size) || !is_pow2(size)))
		return value_bad(p, "auto, or a power of two from 4096 to 1073741824");
	*size_p = size;
	return 0;
}

int value_name(const struct parse *p, const char *what, const char **s_p)
{
	if (!p->arg[0])
		return value_bad(p, what);
	*s_p = p->arg;
	return 0;
}
