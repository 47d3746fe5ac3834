/* SPDX-License-Identifier: MIT */
#include "hca/config.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fabric.h"

#define PATIENCE_NS 1000000000u
#define PATIENCE_MAX_MS 86400000u
#define IDLE_NS 1000000u
#define IDLE_MAX_US 10000000u
#define CORES_MAX 1024u

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
	static const char *const modes[] = {"trap", "poll", "step", "auto"};

	if (!s || !*s)
		return ENGINE_AUTO;
	for (int i = 0; i < 4; i++)
		if (!strcmp(s, modes[i]))
			return i;
	return -EINVAL;
}

static bool mode_ok(const char *s)
{
	return mode_of(s) >= 0;
}

/* Returns 0 if @s is neither a number of bytes, 1 at least, nor "unlimited". */
static uint64_t memlock_of(const char *s)
{
	uint64_t n = 0;
	char *end;

	if (!strcmp(s, "unlimited"))
		return UINT64_MAX;
	errno = 0;
	if (*s >= '0' && *s <= '9')
		n = strtoull(s, &end, 10);
	return !n || *end || errno ? 0 : n;
}

static bool memlock_ok(const char *s)
{
	return memlock_of(s) != 0;
}

/* Returns UINT64_MAX if @s is not a decimal number up to @max. */
static uint64_t number_of(const char *s, uint64_t max)
{
	unsigned long n;
	char *end;

	if (*s < '0' || *s > '9')
		return UINT64_MAX;
	n = strtoul(s, &end, 10);
	return *end || n > max ? UINT64_MAX : n;
}

/* Returns UINT64_MAX if @s is not a number of milliseconds, up to a day. */
static uint64_t patience_of(const char *s)
{
	uint64_t ms = number_of(s, PATIENCE_MAX_MS);

	return ms == UINT64_MAX ? ms : ms * 1000000u;
}

static bool patience_ok(const char *s)
{
	return patience_of(s) != UINT64_MAX;
}

static bool idle_ok(const char *s)
{
	return !strcmp(s, "never") || number_of(s, IDLE_MAX_US) != UINT64_MAX;
}

static bool cores_ok(const char *s)
{
	return number_of(s, CORES_MAX) - 1 < CORES_MAX;
}

static bool is_among(const char *s, const char *const *words)
{
	while (*words && strcmp(*words, s))
		words++;
	return *words;
}

int config_check(char *err, size_t errlen)
{
	static const struct {
		const char *name;
		const char *give;
		bool (*ok)(const char *value); /* NULL: the value is one of the words */
		const char *words[4];
	} variables[] = {
		{"SOFTHCA_FABRIC", FABRIC_NAME_GIVE, .ok = fabric_name_ok},
		{"SOFTHCA_MODE", "give auto, trap, poll or step", .ok = mode_ok},
		{"SOFTHCA_IDLE", "give microseconds, 0 to 10000000, or never", .ok = idle_ok},
		{"SOFTHCA_CORES", "give a number of cores, 1 to 1024", .ok = cores_ok},
		{"SOFTHCA_BF", "give 0 or 1", .words = {"0", "1"}},
		{"SOFTHCA_STRICT", "give 0, 1 or abort", .words = {"0", "1", "abort"}},
		{"SOFTHCA_DEATH", "give at_once or timers", .words = {"at_once", "timers"}},
		{"SOFTHCA_MEMLOCK", "give a number of bytes, or unlimited", .ok = memlock_ok},
		{"SOFTHCA_UAR", "give dynamic or legacy", .words = {"dynamic", "legacy"}},
		{"SOFTHCA_TRACE", "give 0 or 1", .words = {"0", "1"}},
		{"SOFTHCA_PATIENCE", "give milliseconds, 0 to 86400000", .ok = patience_ok},
	};

	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		const char *s = getenv(variables[i].name);

		if (!s || !*s ||
			(variables[i].ok ? variables[i].ok(s) : is_among(s, variables[i].words)))
			continue;
		snprintf(err, errlen, "%s=%.80s: %s", variables[i].name, s, variables[i].give);
		return -EINVAL;
	}
	return 0;
}

static void read_choice(void)
{
	const char *idle = getenv("SOFTHCA_IDLE"), *cores = getenv("SOFTHCA_CORES");

	config.idle_ns = IDLE_NS;
	if (idle && !strcmp(idle, "never"))
		config.idle_ns = IDLE_NEVER;
	else if (idle && *idle && idle_ok(idle))
		config.idle_ns = number_of(idle, IDLE_MAX_US) * 1000u;
	config.cores = cores && cores_ok(cores) ? (uint32_t)number_of(cores, CORES_MAX) : 0;
}

static void read_config(void)
{
	const char *death = getenv("SOFTHCA_DEATH"), *uar = getenv("SOFTHCA_UAR");
	const char *strict = getenv("SOFTHCA_STRICT"), *memlock = getenv("SOFTHCA_MEMLOCK");
	const char *patience = getenv("SOFTHCA_PATIENCE");
	int mode = mode_of(getenv("SOFTHCA_MODE"));

	/*
	 * The variable is invalid only if the program has changed it since the check: use the
	 * default.
	 */
	config.mode = mode < 0 ? ENGINE_AUTO : (enum engine_mode)mode;
	config.why = config.mode == ENGINE_AUTO ? WHY_CHOSEN : WHY_GIVEN;
	read_choice();
	config.strict = config_flag("SOFTHCA_STRICT");
	config.strict_aborts = strict && !strcmp(strict, "abort");
	config.slow_death = death && !strcmp(death, "timers");
	config.memlock = memlock ? memlock_of(memlock) : 0;
	config.patience_ns =
		patience && patience_ok(patience) ? patience_of(patience) : PATIENCE_NS;
	config.blueflame = config_flag("SOFTHCA_BF");
	config.legacy_uars = uar && !strcmp(uar, "legacy");
	/* Pairs with the acquire in config_get(): the fields are set. */
	atomic_store_explicit(&have_config, true, memory_order_release);
}

const struct config *config_get(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	/*
	 * Pairs with the release in read_config(). The check is quicker than pthread_once(), and
	 * this function is called several times per message.
	 */
	if (!atomic_load_explicit(&have_config, memory_order_acquire))
		pthread_once(&once, read_config);
	return &config;
}

void config_trap(enum mode_why why)
{
	if (config_get()->mode != ENGINE_AUTO)
		return;
	config.mode = ENGINE_TRAP;
	config.why = why;
}
