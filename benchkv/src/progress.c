/* SPDX-License-Identifier: MIT */
#include "progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "node.h"

#define EVERY_NS (200 * NSEC_PER_MSEC)

void progress_init(struct progress *p, const struct node *n)
{
	*p = (struct progress){.node = n, .wanted = !n->rank && isatty(STDERR_FILENO)};
}

void progress_begin(struct progress *p, uint32_t run)
{
	p->run = run;
	p->start_ns = p->shown_ns = clock_ns();
	p->shown_done = 0;
}

void progress_tick(void *arg)
{
	struct progress *p = arg;
	uint64_t now = clock_ns(), done;
	char what[40] = "audit";

	if (!p->wanted || now - p->shown_ns < EVERY_NS)
		return;
	done = node_done(p->node);
	if (p->run < p->node->o->runs)
		snprintf(what, sizeof(what), "run %u of %u", p->run + 1, p->node->o->runs);
	fprintf(stderr, "\r%s: %.1f s, %" PRIu64 " operations of rank 0, %.0f per second\033[K",
		what, (double)(now - p->start_ns) / (double)NSEC_PER_SEC, done,
		done < p->shown_done ? 0 :
				       (double)(done - p->shown_done) * (double)NSEC_PER_SEC /
					       (double)(now - p->shown_ns));
	fflush(stderr);
	p->shown_ns = now;
	p->shown_done = done;
}

void progress_end(struct progress *p)
{
	if (p->wanted)
		fputs("\r\033[K", stderr);
}
