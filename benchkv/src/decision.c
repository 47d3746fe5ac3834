/* SPDX-License-Identifier: MIT */
#include "decision.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* By kind of decision: its name, the names of the observations, and of the decisions 0 and 1. */
static const struct {
	const char *name, *values[DECISION_VALUES], *no, *yes;
} kinds[] = {
	[DECISION_POLL] = {"poll", {"polls", "last", "responses", "cqes", "u"}, NULL, NULL},
	[DECISION_FLUSH] = {"flush", {"calls", "replies", "age_ns", "unconsumed"}, "wait", "go"},
	[DECISION_HOLD] = {"hold", {"held", "age_ns", "outstanding", "hold_ns", "full"}, "keep",
		"release"},
	[DECISION_BUDGET] = {"budget", {"b", "e", "loop_us", "rtt_us", "u", "step_up", "u_max"},
		NULL, NULL},
	[DECISION_IDENTIFY] = {"identify", {"b0", "e0", "r0_us", "b1", "e1", "step_up", "u_max"},
		NULL, NULL},
	[DECISION_BATCHING] = {"batching",
		{"ended", "area_ns", "peers_ended", "peers_area_ns", "latency_off_ns",
			"latency_on_ns", "batching"},
		"off", "on"},
};

static const char *const reasons[BECAUSES] = {
	[BECAUSE_RESPONSES] = "as many responses as the budget have come",
	[BECAUSE_POLLS] = "as many polls as the budget have been made",
	[BECAUSE_THRESHOLD] = "one poll has brought as many messages as the threshold",
	[BECAUSE_COMPLETION] = "a completion has come",
	[BECAUSE_REPLIES] = "replies never wait",
	[BECAUSE_FULL] = "B calls or more never wait",
	[BECAUSE_ROOM] = "there is room in the window for all",
	[BECAUSE_OVERDUE] = "it has waited for too long",
	[BECAUSE_URGENT] = "of those that wait it has the most calls and age",
	[BECAUSE_WINDOW] = "the window is full",
	[BECAUSE_OFF] = "batching is off",
	[BECAUSE_CONSUMED] = "all calls sent there are consumed",
	[BECAUSE_UNCONSUMED] = "calls sent there are not consumed",
	[BECAUSE_RANKS] = "as many replies as ranks are held",
	[BECAUSE_TIME] = "the hold time is over",
	[BECAUSE_LAST] = "no call is under way",
	[BECAUSE_HEALTHY] = "the last replies were as many as ranks and came at once",
	[BECAUSE_MORE] = "more replies may come in time",
	[BECAUSE_SHORT] = "the loop is shorter than 0.8 round trips",
	[BECAUSE_EMPTY] = "more than 0.75 of the loops are empty",
	[BECAUSE_LONG] =
		("the loop is longer than 1.2 round trips and fewer than 0.4 of the loops are "
		 "empty"),
	[BECAUSE_COLLAPSED] =
		"fewer than 1 completion per loop and more than 0.9 of the loops empty",
	[BECAUSE_PROBE_OFF] = "identification begins without a budget",
	[BECAUSE_PROBE_ON] = "identification goes on with a budget of 8",
	[BECAUSE_IDENTIFIED] = "identification is over",
	[BECAUSE_LOWER] = "it has the lower latency",
	[BECAUSE_UNKNOWN] = "its latency is not known yet",
	[BECAUSE_OLD] = "its latency was not measured for 16 epochs",
};

int decisions_init(struct decisions *d, uint64_t now_ns)
{
	/* calloc(): rows that are not written use no memory. */
	*d = (struct decisions){.rows = calloc(DECISIONS_MAX, sizeof(*d->rows)),
		.start_ns = now_ns,
		.now_ns = now_ns};
	return d->rows ? 0 : -ENOMEM;
}

void decisions_fini(struct decisions *d)
{
	free(d->rows);
}

void decisions_add(struct decisions *d, const struct decision *x)
{
	struct decision_row *last = d->n ? &d->rows[d->n - 1] : NULL;

	if (last && !d->left_out && !memcmp(&last->decision, x, sizeof(*x)))
		last->times++;
	else if (d->n == DECISIONS_MAX)
		d->left_out++;
	else
		d->rows[d->n++] =
			(struct decision_row){.decision = *x, .time_ns = d->now_ns, .times = 1};
}

void decisions_write_names(FILE *out)
{
	errno = 0;
	fputs("daemon,time_us,times,what,rank,observed,decision,reason\n", out);
}

static void write_row(const struct decision_row *r, double us, FILE *out)
{
	const struct decision *x = &r->decision;
	const char *const *names = kinds[x->what].values;

	fprintf(out, ",%.3f,%" PRIu64 ",%s,", us, r->times, kinds[x->what].name);
	if (x->rank != DECISION_NO_RANK)
		fprintf(out, "%u", x->rank);
	for (int i = 0; i < DECISION_VALUES && names[i]; i++)
		fprintf(out, "%c%s=%.17g", i ? ' ' : ',', names[i], x->seen[i]);
	if (kinds[x->what].yes)
		fprintf(out, ",%s", x->decided ? kinds[x->what].yes : kinds[x->what].no);
	else
		fprintf(out, ",%u", x->decided);
	fprintf(out, ",%s\n", reasons[x->reason]);
}

void decisions_write(const struct decisions *d, uint32_t daemon, FILE *out)
{
	for (uint32_t i = 0; i < d->n && !ferror(out); i++) {
		fprintf(out, "%u", daemon);
		write_row(&d->rows[i], (double)(d->rows[i].time_ns - d->start_ns) / 1e3, out);
	}
	if (d->left_out)
		fprintf(out, "%u,%.3f,%" PRIu64 ",left out,,,,there was no room for more\n", daemon,
			(double)(d->now_ns - d->start_ns) / 1e3, d->left_out);
}
