/* SPDX-License-Identifier: MIT */
#include "member/settings.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/capture.h"
#include "fabric/fabric.h"
#include "fault/fault.h"
#include "xport/chaos.h"
#include "xport/link.h"

/* Formats the reason, and returns @r. */
__attribute__((format(printf, 4, 5))) static int because(char *err, size_t errlen, int r,
	const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err, errlen, fmt, ap);
	va_end(ap);
	return r;
}

/* ------------------------------------------------------------------- adapters */

static int load_topology(struct arena *a, char *err, size_t errlen)
{
	int r = softhca_topology_from_env(&a->topo, err, errlen);

	for (uint32_t i = 0; !r && i < a->topo.nrails; i++)
		a->rails[i].link_down = a->topo.rails[i].down;
	a->made_topo = a->topo;
	return r;
}

static int other_topology(const struct arena *a, char *err, size_t errlen)
{
	struct softhca_topology t;
	int r = softhca_topology_from_env(&t, err, errlen);

	return r ? r : memcmp(&t, &a->made_topo, sizeof(t)) != 0;
}

/* ---------------------------------------------------------------- fault rules */

/* Must be called after load_topology(), because rules may name adapters of the topology. */
static int load_faults(struct arena *a, char *err, size_t errlen)
{
	int r = fault_load_env(a->faults, err, errlen);
	const char *stray;

	if (r)
		return r;
	stray = fault_stray(a->faults, &a->topo);
	if (stray)
		return because(err, errlen, -EINVAL,
			"fault rule: %s: no such adapter; name an adapter of the topology", stray);
	memcpy(a->made_faults, a->faults, sizeof(a->made_faults));
	fault_changed(a);
	return 0;
}

static int other_faults(const struct arena *a, char *err, size_t errlen)
{
	struct fault_rule *rules = calloc(FAULT_RULES, sizeof(*rules));
	int r;

	if (!rules)
		return because(err, errlen, -ENOMEM, "fault rules: %s", strerror(ENOMEM));
	r = fault_load_env(rules, err, errlen);
	if (!r)
		r = memcmp(rules, a->made_faults, sizeof(a->made_faults)) != 0;
	free(rules);
	return r;
}

/* ----------------------------------------------------------------- link model */

static int link_mode(char *err, size_t errlen)
{
	int r = link_mode_from_env();

	return r < 0 ? because(err, errlen, r, "SOFTHCA_LINK must be off, real or virtual") : r;
}

static int load_link(struct arena *a, char *err, size_t errlen)
{
	int r = link_mode(err, errlen);

	if (r < 0)
		return r;
	a->link_mode = (uint32_t)r;
	return 0;
}

static int other_link(const struct arena *a, char *err, size_t errlen)
{
	int r = link_mode(err, errlen);

	return r < 0 ? r : (uint32_t)r != a->link_mode;
}

/* ----------------------------------------------------------------- chaos mode */

static int chaos_seed(uint64_t *seed_p, char *err, size_t errlen)
{
	if (!chaos_from_env(seed_p))
		return 0;
	return because(err, errlen, -EINVAL,
		"SOFTHCA_CHAOS must be the seed, a number of at least 1");
}

static int load_chaos(struct arena *a, char *err, size_t errlen)
{
	int r = chaos_seed(&a->chaos_seed, err, errlen);

	a->chaos = !r && a->chaos_seed;
	return r;
}

static int other_chaos(const struct arena *a, char *err, size_t errlen)
{
	uint64_t seed;
	int r = chaos_seed(&seed, err, errlen);

	return r ? r : seed != a->chaos_seed;
}

/* -------------------------------------------------------------------- capture */

static int bad_capture(int r, const char *path, char *err, size_t errlen)
{
	return because(err, errlen, r, "SOFTHCA_CAPTURE=%.160s: %s", path,
		r == -ESPIPE ? "give a regular file" : strerror(-r));
}

static int load_capture(struct arena *a, char *err, size_t errlen)
{
	const char *path = getenv("SOFTHCA_CAPTURE");
	struct capture c;
	int r;

	if (!path || !*path)
		return 0;
	r = capture_create(path, &a->topo, &c);
	if (r)
		return bad_capture(r, path, err, errlen);
	strcpy(a->made_capture, c.path);
	return capture_start(a, &c, NO_SLOT, 0);
}

/*
 * Compares with the path with which the fabric was made, because the capture may have ended since,
 * and its file may have been removed.
 */
static int other_capture(const struct arena *a, char *err, size_t errlen)
{
	const char *path = getenv("SOFTHCA_CAPTURE");
	char absolute[CAPTURE_PATH];
	int r = capture_resolve(path, absolute);

	return r ? bad_capture(r, path, err, errlen) : strcmp(absolute, a->made_capture) != 0;
}

/* ------------------------------------------------------------------------ all */

#define VARIABLES 2

/*
 * A variable that is "" counts as not set. @other is called if one of the variables is set. @other
 * returns 1 if the value differs from the fabric's, 0 if it is the same, or -errno.
 */
static const struct setting {
	const char *variables[VARIABLES];
	int (*load)(struct arena *a, char *err, size_t errlen);
	int (*other)(const struct arena *a, char *err, size_t errlen);
} settings[] = {
	{{"SOFTHCA_TOPOLOGY", "SOFTHCA_RAILS"}, load_topology, other_topology},
	{{"SOFTHCA_FAULT_FILE", "SOFTHCA_FAULTS"}, load_faults, other_faults},
	{{"SOFTHCA_LINK"}, load_link, other_link},
	{{"SOFTHCA_CHAOS"}, load_chaos, other_chaos},
	{{"SOFTHCA_CAPTURE"}, load_capture, other_capture},
};
#define SETTINGS (sizeof(settings) / sizeof(settings[0]))

int settings_load(struct arena *a, char *err, size_t errlen)
{
	int r = 0;

	for (size_t i = 0; !r && i < SETTINGS; i++)
		r = settings[i].load(a, err, errlen);
	return r == -EACCES ? -EPERM : r; /* -EACCES: the fabric is another user's */
}

/* Returns the first of the setting's variables that is set, or NULL. */
static const char *variable_of(const struct setting *s)
{
	for (int i = 0; i < VARIABLES && s->variables[i]; i++) {
		const char *value = getenv(s->variables[i]);

		if (value && *value)
			return s->variables[i];
	}
	return NULL;
}

/* Explains that the variable's value differs. Only the first line of the value is printed. */
static int refuse(const char *variable, char *err, size_t errlen)
{
	const char *value = getenv(variable);
	size_t n = strcspn(value, "\n");

	return because(err, errlen, -EEXIST,
		"%s=%.*s: a running program has made the fabric with another value or without one: "
		"unset the variable, or give --fabric (SOFTHCA_FABRIC) another name",
		variable, n < 100 ? (int)n : 100, value);
}

int settings_compare(const struct arena *a, char *err, size_t errlen)
{
	for (size_t i = 0; i < SETTINGS; i++) {
		const char *variable = variable_of(&settings[i]);
		int r = variable ? settings[i].other(a, err, errlen) : 0;

		if (r)
			return r < 0 ? r : refuse(variable, err, errlen);
	}
	return 0;
}

void settings_forget(void)
{
	for (size_t i = 0; i < SETTINGS; i++)
		for (int v = 0; v < VARIABLES && settings[i].variables[v]; v++)
			unsetenv(settings[i].variables[v]);
}
