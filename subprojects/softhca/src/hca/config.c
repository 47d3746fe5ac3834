/* SPDX-License-Identifier: MIT */
#include "hca/config.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fabric.h"

static struct config config;
static atomic_bool have_config;

bool config_flag(const char *name)
{
	const char *s = getenv(name);

	return s && *s && strcmp(s, "0");
}

/* Returns -EINVAL for an unknown mode. */
static int mode_of(const char *s)
{
	static const char *const modes[] = {"trap", "poll", "step"};

	if (!s || !*s)
		return ENGINE_TRAP;
	for (int i = 0; i < 3; i++)
		if (!strcmp(s, modes[i]))
			return i;
	return -EINVAL;
}

static bool mode_ok(const char *s)
{
	return mode_of(s) >= 0;
}

static bool flag_ok(const char *s)
{
	return !strcmp(s, "0") || !strcmp(s, "1");
}

int config_check(char *err, size_t errlen)
{
	static const struct {
		const char *name;
		bool (*ok)(const char *value);
		const char *give;
	} variables[] = {
		{"SOFTHCA_FABRIC", fabric_name_ok, FABRIC_NAME_GIVE},
		{"SOFTHCA_MODE", mode_ok, "give trap, poll or step"},
		{"SOFTHCA_BF", flag_ok, "give 0 or 1"},
		{"SOFTHCA_STRICT", flag_ok, "give 0 or 1"},
		{"SOFTHCA_TRACE", flag_ok, "give 0 or 1"},
	};

	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		const char *s = getenv(variables[i].name);

		if (!s || !*s || variables[i].ok(s))
			continue;
		snprintf(err, errlen, "%s=%.80s: %s", variables[i].name, s, variables[i].give);
		return -EINVAL;
	}
	return 0;
}

static void read_config(void)
{
	int mode = mode_of(getenv("SOFTHCA_MODE"));

	/* The program may have changed the variable after the check: then the default. */
	config.mode = mode < 0 ? ENGINE_TRAP : (enum engine_mode)mode;
	config.strict = config_flag("SOFTHCA_STRICT");
	config.blueflame = config_flag("SOFTHCA_BF");
	/* Pairs with the acquire in config_get(): the fields are set. */
	atomic_store_explicit(&have_config, true, memory_order_release);
}

const struct config *config_get(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	/* Pairs with the release in read_config(). Called several times per message. */
	if (!atomic_load_explicit(&have_config, memory_order_acquire))
		pthread_once(&once, read_config);
	return &config;
}
