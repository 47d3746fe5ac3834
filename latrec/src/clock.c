/* SPDX-License-Identifier: MIT */
#include "internal.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/sized.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define CALIBRATION_NS 20000000
#define READINGS 16 /* readings of which the fastest is used */
#define STEPS 16 /* steps of the counter of which the smallest is used */
#define STEP_READINGS (1 << 20) /* maximum number of readings in search of these steps */
#define SOURCES "/sys/devices/system/clocksource/clocksource0/available_clocksource"

#if defined(__aarch64__)
#define COUNTER "cntvct_el0"
#else
#define COUNTER "TSC"
#endif

uint64_t latrec_clock_raw(void)
{
	return clock_of(CLOCK_MONOTONIC_RAW);
}

/*
 * Returns true if the processor has a counter of constant rate, and an instruction that reads the
 * counter after earlier loads.
 */
static bool counter_constant(void)
{
#if defined(__x86_64__)
	const unsigned int rdtscp = 1u << 27, invariant = 1u << 8;
	unsigned int a, b, c, d;

	if (!__get_cpuid(0x80000001, &a, &b, &c, &d) || !(d & rdtscp))
		return false;
	return __get_cpuid(0x80000007, &a, &b, &c, &d) && d & invariant;
#elif defined(__aarch64__)
	return true;
#else
	return false;
#endif
}

bool clock_listed(const char *sources, const char *name)
{
	size_t len = strlen(name);

	for (const char *s = sources; *s; s += strcspn(s, " \n")) {
		s += strspn(s, " \n");
		if (strcspn(s, " \n") == len && !memcmp(s, name, len))
			return true;
	}
	return false;
}

/* Returns true if the kernel trusts the counter. On x86 the kernel stops listing a bad TSC. */
static bool counter_trusted(void)
{
#if defined(__x86_64__)
	char sources[256] = "";
	FILE *f = fopen(SOURCES, "re");
	size_t n = f ? fread(sources, 1, sizeof(sources) - 1, f) : 0;

	if (f)
		fclose(f);
	sources[n] = 0;
	return clock_listed(sources, "tsc");
#else
	return true;
#endif
}

/*
 * Returns the smallest advance between two readings, in ticks: emulated counters are coarse. 0: the
 * counter did not advance.
 */
static uint64_t counter_step(void)
{
	uint64_t last = latrec_counter(), step = 0;

	for (int seen = 0, i = 0; seen < STEPS && i < STEP_READINGS; i++) {
		uint64_t now = latrec_counter();

		if (now == last)
			continue;
		if (!step || now - last < step)
			step = now - last;
		last = now;
		seen++;
	}
	return step;
}

static struct clock_pair read_pair(uint64_t step)
{
	struct clock_pair best = {.width = UINT64_MAX};

	for (int i = 0; i < READINGS; i++) {
		uint64_t before = latrec_counter(), ns = latrec_clock_raw();
		uint64_t width = latrec_counter() - before + step;

		if (width < best.width)
			best = (struct clock_pair){before + width / 2, width, ns};
	}
	return best;
}

int clock_fit(struct latrec_clock *c, const struct clock_pair *from, const struct clock_pair *to)
{
	uint64_t ticks = to->ticks - from->ticks, ns = to->ns - from->ns;
	uint64_t off = (from->width + to->width) / 2 + 1;

	if ((int64_t)ticks <= 0 || (int64_t)ns <= 0 || off >= ticks)
		return -ERANGE;
	c->mult = (uint64_t)(((u128)ns << 32) / ticks);
	if (!c->mult)
		return -ERANGE;
	c->base_ticks = to->ticks;
	c->base_ns = to->ns;
	c->error_ppm = (uint32_t)((u128)off * 1000000 / ticks) + 1;
	return 0;
}

static int calibrate(struct latrec_clock *c)
{
	uint64_t step = counter_step();
	struct clock_pair from = read_pair(step), to;
	int err;

	clock_nap(CALIBRATION_NS);
	to = read_pair(step);
	err = step ? clock_fit(c, &from, &to) : -ERANGE;
	if (err)
		return err;
	c->step_ns = (uint32_t)latrec_ticks_ns(step, c->mult) + 1;
	snprintf(c->name, sizeof(c->name),
		COUNTER " at %.3f MHz, calibrated against CLOCK_MONOTONIC_RAW, at most %u ppm off",
		4294967296e3 / (double)c->mult, c->error_ppm);
	c->source = LATREC_CLOCK_COUNTER;
	return 0;
}

/* Returns NULL, or why the counter cannot be used. */
static const char *use_counter(struct latrec_clock *c, enum latrec_clock_source wanted)
{
	if (!counter_constant())
		return " (no counter of constant rate)";
	if (wanted == LATREC_CLOCK_AUTO && !counter_trusted())
		return " (the kernel does not trust the " COUNTER ")";
	return calibrate(c) ? " (the " COUNTER " could not be calibrated)" : NULL;
}

static void use_raw(struct latrec_clock *c, const char *why)
{
	*c = (struct latrec_clock){.source = LATREC_CLOCK_MONOTONIC_RAW};
	snprintf(c->name, sizeof(c->name), "CLOCK_MONOTONIC_RAW%s", why);
}

int latrec_clock_init(enum latrec_clock_source source, struct latrec_clock *clock_p, size_t size)
{
	struct latrec_clock c = {.mult = 0};
	const char *why = "";
	struct timespec ts;

	if (source > LATREC_CLOCK_MONOTONIC_RAW)
		return -EINVAL;
	if (clock_gettime(CLOCK_MONOTONIC_RAW, &ts))
		return -errno;
	if (source != LATREC_CLOCK_MONOTONIC_RAW)
		why = use_counter(&c, source);
	if (why && source == LATREC_CLOCK_COUNTER)
		return -ENOTSUP;
	if (why)
		use_raw(&c, why);
	sized_out(clock_p, size, &c, sizeof(c));
	return 0;
}

const char *latrec_clock_name(const struct latrec_clock *clock)
{
	return clock->name;
}
