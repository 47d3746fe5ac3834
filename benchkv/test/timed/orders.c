/* SPDX-License-Identifier: MIT */
/*
 * Runs the phases of a daemon's loop in another order (ld --wrap replaces phases[]). An order is
 * written with the letters of phases.h: ABCDEFG is the order in benchkv.
 */
#include "orders.h"

#include <stdio.h>

#include "support/test.h"
#include "jobs.h"
#include "phases.h"

#define SHIPPED "ABCDEFG"
#define LATE "ABCFDEG" /* flushes before it gathers calls */

extern const struct phase __real_phases[TRACE_PHASES];
extern struct phase __wrap_phases[TRACE_PHASES];
struct phase __wrap_phases[TRACE_PHASES];

static void set_order(const char *letters)
{
	CHECK_EQ(strlen(letters), TRACE_PHASES);
	for (size_t i = 0; i < TRACE_PHASES; i++)
		__wrap_phases[i] = __real_phases[letters[i] - 'A'];
}

__attribute__((constructor)) static void begin_as_shipped(void)
{
	set_order(SHIPPED);
}

static struct run run_with(const char *order, const struct job *j)
{
	struct run run;

	set_order(order);
	jobs_run(j, &run);
	set_order(SHIPPED);
	return run;
}

TEST(orders_calls_before_their_flush)
{
	static const struct job job = {2, 1, 0, 0, false, 1, {"auto"}};
	double shipped = run_with(SHIPPED, &job).messages_per_write;
	double late = run_with(LATE, &job).messages_per_write;

	printf("%.3f messages per WRITE, %.3f in the order " LATE "\n", shipped, late);
	for (int i = 0; i < TRACE_PHASES; i++)
		CHECK_EQ(__real_phases[i].name, i);
	CHECK(shipped > 1.1 * late);
}

/* ---- the table ---- */

static const struct job columns[] = {
	{2, 1, 0, 0, false, 1, {"auto"}},
	{4, 1, 0, 0, false, 1, {"auto"}},
	{8, 1, 0, 0, false, 1, {"auto"}},
	{4, 32, 0, 0, false, 1, {"none"}},
	{8, 32, 0, 0, false, 1, {"none"}},
};

static const struct {
	const char *letters, *about;
} orders[] = {
	{SHIPPED, "the order of `phases.c`"},
	{"CDEFABG", "the network first, as published"},
	{"ABDECFG", "calls before the network"},
	{"ABDEFCG", "the network last"},
	{"DEFCABG", "calls and their flush first"},
	{LATE, "flush before calls"},
};

int orders_print(void)
{
	printf("Millions of operations per second (messages per WRITE)\n\n| order |");
	for (size_t j = 0; j < ARRAY_SIZE(columns); j++)
		printf(" %u ranks, depth %u, `%s` |", columns[j].ranks, columns[j].depth,
			columns[j].controls[0]);
	printf("\n|---|");
	for (size_t j = 0; j < ARRAY_SIZE(columns); j++)
		printf("---|");
	for (size_t i = 0; i < ARRAY_SIZE(orders); i++) {
		printf("\n| `%s`: %s |", orders[i].letters, orders[i].about);
		for (size_t j = 0; j < ARRAY_SIZE(columns); j++) {
			struct run run = run_with(orders[i].letters, &columns[j]);

			printf(" %.1f (%.2f) |", run.ops_per_s / 1e6, run.messages_per_write);
			fflush(stdout);
		}
	}
	printf("\n");
	return 0;
}
