/* SPDX-License-Identifier: MIT */
/* The log of decisions: equal decisions are counted, its size is limited, all reasons have text. */
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "control.h"
#include "decision.h"

/* The log of the current case, and its text. */
static struct decisions d;
static char *text;

static void begin(uint64_t now_ns)
{
	decisions_fini(&d);
	CHECK_EQ(decisions_init(&d, now_ns), 0);
}

static void write_text(void)
{
	size_t len = 0;
	AT_END(end_file) FILE *out;

	free(text);
	out = open_memstream(&text, &len);
	CHECK(out);
	decisions_write(&d, 3, out);
}

TEST(counts_what_repeats)
{
	struct decision x = {.what = DECISION_FLUSH,
		.reason = BECAUSE_WINDOW,
		.rank = 7,
		.seen = {2, 0, 1500, 4}};

	begin(1000);
	decisions_add(&d, &x);
	d.now_ns = 2500;
	decisions_add(&d, &x);
	x.decided = 1;
	x.reason = BECAUSE_URGENT;
	decisions_add(&d, &x);
	x.rank = DECISION_NO_RANK;
	x.what = DECISION_POLL;
	x.decided = 5;
	x.reason = BECAUSE_POLLS;
	decisions_add(&d, &x);
	write_text();
	CHECK(!strcmp(text, "3,0.000,2,flush,7,calls=2 replies=0 age_ns=1500 unconsumed=4,wait,"
			    "the window is full\n"
			    "3,1.500,1,flush,7,calls=2 replies=0 age_ns=1500 unconsumed=4,go,"
			    "of those that wait it has the most calls and age\n"
			    "3,1.500,1,poll,,polls=2 last=0 responses=1500 cqes=4 u=0,5,"
			    "as many polls as the budget have been made\n"));
}

/* The log has 2^18 rows. Further decisions are only counted, even if they equal the last one. */
TEST(has_a_bound)
{
	struct decision x = {.what = DECISION_POLL,
		.reason = BECAUSE_POLLS,
		.rank = DECISION_NO_RANK};

	begin(0);
	for (uint32_t i = 0; i < (1u << 18) + 10; i++) {
		x.decided = i;
		decisions_add(&d, &x);
	}
	x.decided = (1u << 18) - 1;
	decisions_add(&d, &x);
	CHECK_EQ(d.n, 1u << 18);
	CHECK_EQ(d.rows[d.n - 1].times, 1);
	d.now_ns = 1000000;
	write_text();
	CHECK(strstr(text, "\n3,1000.000,11,left out,,,,there was no room for more\n"));
}

TEST(every_reason_has_words)
{
	begin(0);
	for (uint32_t why = 0; why < BECAUSES; why++) {
		const struct decision x = {.what = DECISION_POLL, .reason = why};

		decisions_add(&d, &x);
	}
	write_text();
	CHECK(!strstr(text, "(null)"));
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		uint32_t commas = 0;

		for (const char *s = line; *s; s++)
			commas += *s == ',';
		CHECK_EQ(commas, 7);
	}
}

static const char *explained(const char *control, double t, double s, double c, bool few)
{
	static char why[256];
	const struct control_origin origin = {"measured by rank 0", {t, s, c}, few ? 9 : 46};
	struct control_spec spec;

	CHECK_EQ(control_parse(control, &spec), 0);
	if (t > 0 && spec.derive)
		control_derive(&spec, &(struct control_times){t, s, c});
	control_share(&spec, few ? 9 : 46);
	control_explain(&spec, &origin, why, sizeof(why));
	return why;
}

TEST(explains_the_control)
{
	CHECK(!strcmp(explained("auto:3,4", 0, 0, 0, true), "as given"));
	CHECK(!strcmp(explained("hold:3", 4900, 570, 68, true), "as given"));
	CHECK(!strcmp(explained("auto", 0, 0, 0, false), "measured by rank 0"));
	CHECK(!strcmp(explained("auto", 0, 0, 0, true),
		"measured by rank 0; K at most 5 for 9 calls under way (1.5 x their root but at least 5)"));
	CHECK(!strcmp(explained("auto", 4900, 570, 68, false),
		"K = 1.15 x 4900 ns / 570 ns = 9.9 within 2 to 12; "
		"B = 570 ns / 68 ns = 8.4 but at least 8; measured by rank 0"));
	CHECK(!strcmp(explained("auto", 20600, 570, 68, true),
		"K = 0.5 x 20600 ns / 570 ns = 18.1 within 12 to 128; "
		"B = 570 ns / 68 ns = 8.4 but at least 8; measured by rank 0"));
	CHECK(!strcmp(explained("auto", 13100, 570, 68, true),
		"K = 1.15 x 13100 ns / 570 ns = 26.4 within 2 to 12; "
		"B = 570 ns / 68 ns = 8.4 but at least 8; measured by rank 0; "
		"K at most 11 for 9 calls under way (1.5 x their root but at least 11)"));
	CHECK(!strcmp(explained("auto", 4900, 570, 68, true),
		"K = 1.15 x 4900 ns / 570 ns = 9.9 within 2 to 12; "
		"B = 570 ns / 68 ns = 8.4 but at least 8; measured by rank 0; "
		"K at most 5 for 9 calls under way (1.5 x their root but at least 5)"));
}
