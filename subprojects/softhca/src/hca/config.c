/* SPDX-License-Identifier: MIT */
#include "hca/config.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct config config;

bool config_flag(const char *name)
{
	const char *s = getenv(name);

	return s && *s && strcmp(s, "0");
}

static void read_config(void)
{
	static const char *const modes[] = {"trap", "poll", "step"};
	const char *s = getenv("SOFTHCA_MODE");
	bool known = !s || !*s;

	for (int i = 0; s && i < 3; i++) {
		if (strcmp(s, modes[i]))
			continue;
		config.mode = (enum engine_mode)i;
		known = true;
	}
	if (!known)
		fprintf(stderr, "softhca: SOFTHCA_MODE=%s is none of trap, poll, step: trap it is\n",
			s);
	config.strict = config_flag("SOFTHCA_STRICT");
	config.blueflame = config_flag("SOFTHCA_BF");
}

const struct config *config_get(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_config);
	return &config;
}
