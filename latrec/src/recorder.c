/* SPDX-License-Identifier: MIT */
#include "internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/sized.h"

/* State to find the worst window. */
struct latrec_windows {
	uint64_t length_ns;
	uint64_t start_ns; /* start of the open window */
	struct latrec_window worst; /* the worst window that is over; count 0: none yet */
	struct latrec_hist before; /* all samples before the open window */
};

int latrec_create(const struct latrec_attr *attr, struct latrec **r_p)
{
	struct latrec_attr a;
	struct latrec *r = calloc(1, sizeof(*r));
	struct latrec_windows *w = calloc(1, sizeof(*w));
	int err = r && w ? 0 : -ENOMEM;

	if (!err)
		err = SIZED_ATTR(&a, attr, window_ns);
	if (err) {
		free(r);
		free(w);
		return err;
	}
	w->length_ns = a.window_ns ? a.window_ns : LATREC_WINDOW_NS;
	r->intended = a.intended;
	r->windows = w;
	*r_p = r;
	return 0;
}

void latrec_destroy(struct latrec *r)
{
	if (r)
		free(r->windows);
	free(r);
}

const struct latrec_hist *latrec_service(const struct latrec *r)
{
	return &r->service;
}

const struct latrec_hist *latrec_response(const struct latrec *r)
{
	return r->intended ? &r->response : NULL;
}

void latrec_get_stats(const struct latrec *r, struct latrec_stats *stats_p, size_t size)
{
	sized_out(stats_p, size, &r->stats, sizeof(r->stats));
}

/* ---- windows ---- */

/* Returns the histogram by which windows are compared. */
static const struct latrec_hist *compared(const struct latrec *r)
{
	return r->intended ? &r->response : &r->service;
}

/* Returns the value of a rank among the samples that are in h and not in `before`. */
static uint64_t value_since(const struct latrec_hist *h, const struct latrec_hist *before,
	uint64_t rank)
{
	uint64_t seen = 0;
	uint32_t i = 0;

	while (i < LATREC_BUCKETS && (seen += h->bucket[i] - before->bucket[i]) < rank)
		i++;
	return i < LATREC_BUCKETS ? bucket_value(h, i) : latrec_hist_max(h);
}

/* Returns the open window as it is now. */
static struct latrec_window open_window(const struct latrec *r)
{
	const struct latrec_hist *h = compared(r), *before = &r->windows->before;
	struct latrec_window w = {.start_ns = r->windows->start_ns,
		.length_ns = r->windows->length_ns,
		.count = h->count - before->count};

	if (!w.count)
		return w;
	w.mean_ns = (double)(hist_sum(h) - hist_sum(before)) / (double)w.count;
	w.p99_ns = value_since(h, before, hist_rank(.99, w.count));
	w.max_ns = value_since(h, before, w.count);
	return w;
}

static bool worse(const struct latrec_window *a, const struct latrec_window *b)
{
	if (!a->count || !b->count)
		return a->count;
	if (a->p99_ns != b->p99_ns)
		return a->p99_ns > b->p99_ns;
	return a->mean_ns > b->mean_ns;
}

/* Ends the open window, if there is one, and begins the window that contains now_ns. */
COLD void latrec_window_next(struct latrec *r, uint64_t now_ns)
{
	struct latrec_windows *w = r->windows;
	struct latrec_window over = open_window(r);

	if (worse(&over, &w->worst))
		w->worst = over;
	if (r->window_end_ns)
		w->start_ns += (now_ns - w->start_ns) / w->length_ns * w->length_ns;
	else
		w->start_ns = now_ns;
	w->before = *compared(r);
	if (__builtin_add_overflow(w->start_ns, w->length_ns, &r->window_end_ns))
		r->window_end_ns = UINT64_MAX;
}

int latrec_worst_window(const struct latrec *r, struct latrec_window *window_p, size_t size)
{
	struct latrec_window open = open_window(r);
	const struct latrec_window *w =
		worse(&open, &r->windows->worst) ? &open : &r->windows->worst;

	if (!w->count)
		return -ENODATA;
	sized_out(window_p, size, w, sizeof(*w));
	return 0;
}

/* ---- unusual samples ---- */

/*
 * Handles a service time outside the range of the histogram: a new extreme value (returns 0), a
 * completion without a post (-ENOENT; the FIFO is unchanged), or a completion before its post
 * (-ERANGE).
 */
COLD int latrec_unusual(struct latrec *r, struct latrec_ep *ep, uint64_t posted_ns,
	uint64_t service_ns)
{
	if (ep && posted_ns == LATREC_NO_STAMP) {
		ep->tail = (ep->tail - LATREC_PLACE) & ep->mask;
		r->stats.unmatched++;
		return -ENOENT;
	}
	if (service_ns > INT64_MAX) {
		r->stats.backwards++;
		return -ERANGE;
	}
	latrec_hist_widen(&r->service, service_ns);
	return 0;
}

void latrec_reset(struct latrec *r)
{
	latrec_hist_clear(&r->service);
	latrec_hist_clear(&r->response);
	latrec_hist_clear(&r->windows->before);
	r->windows->worst = (struct latrec_window){.count = 0};
	r->stats = (struct latrec_stats){.refused = 0};
	r->window_end_ns = 0;
}

int latrec_merge(struct latrec *to, const struct latrec *from)
{
	struct latrec_window w;
	int err;

	if (to->intended != from->intended)
		return -EINVAL;
	err = latrec_hist_merge(&to->service, &from->service);
	if (err)
		return err;
	if (!latrec_worst_window(from, &w, sizeof(w)) && worse(&w, &to->windows->worst))
		to->windows->worst = w;
	/* There are as many as service times, so they fit as well. */
	latrec_hist_merge(&to->response, &from->response);
	latrec_hist_merge(&to->windows->before, compared(from));
	to->stats.refused += from->stats.refused;
	to->stats.unmatched += from->stats.unmatched;
	to->stats.backwards += from->stats.backwards;
	to->stats.dropped += from->stats.dropped;
	return 0;
}

/* ---- endpoints ---- */

int latrec_ep_create(struct latrec *r, uint32_t depth, struct latrec_ep **ep_p)
{
	uint64_t places = pow2_ceil(depth);
	struct latrec_ep *ep;

	if (!depth || depth > LATREC_MAX_DEPTH)
		return -EINVAL;
	ep = malloc(sizeof(*ep) + places * sizeof(struct latrec_stamp));
	if (!ep)
		return -ENOMEM;
	*ep = (struct latrec_ep){.rec = r, .mask = places * LATREC_PLACE - 1};
	for (uint64_t i = 0; i < places; i++)
		latrec_ep_stamp(ep, i * LATREC_PLACE)->posted_ns = LATREC_NO_STAMP;
	*ep_p = ep;
	return 0;
}

void latrec_ep_destroy(struct latrec_ep *ep)
{
	free(ep);
}

COLD int latrec_ep_full(struct latrec_ep *ep)
{
	ep->rec->stats.refused++;
	return -EAGAIN;
}

uint32_t latrec_ep_pending(const struct latrec_ep *ep)
{
	uint64_t bytes = (ep->head - ep->tail) & ep->mask;
	const struct latrec_stamp *oldest =
		(const struct latrec_stamp *)(const void *)((const char *)(ep + 1) + ep->tail);

	if (!bytes && oldest->posted_ns != LATREC_NO_STAMP)
		bytes = ep->mask + 1;
	return (uint32_t)(bytes / LATREC_PLACE);
}

int latrec_ep_unpost(struct latrec_ep *ep)
{
	if (!latrec_ep_pending(ep))
		return -ENOENT;
	ep->head = (ep->head - LATREC_PLACE) & ep->mask;
	latrec_ep_stamp(ep, ep->head)->posted_ns = LATREC_NO_STAMP;
	return 0;
}

int latrec_ep_drop(struct latrec_ep *ep)
{
	if (!latrec_ep_pending(ep))
		return -ENOENT;
	latrec_ep_stamp(ep, ep->tail)->posted_ns = LATREC_NO_STAMP;
	ep->tail = (ep->tail + LATREC_PLACE) & ep->mask;
	ep->rec->stats.dropped++;
	return 0;
}

/* ---- for people ---- */

static void print_row(const char *what, const struct latrec_hist *h, FILE *out)
{
	static const double quantiles[] = {.5, .9, .99, .999, .9999};

	fprintf(out, "%-19s %12" PRIu64 " %9.3f %9.3f", what, h->count,
		(double)latrec_hist_min(h) / 1e3, latrec_hist_mean(h) / 1e3);
	for (size_t i = 0; i < ARRAY_SIZE(quantiles); i++)
		fprintf(out, " %9.3f", (double)latrec_hist_quantile(h, quantiles[i]) / 1e3);
	fprintf(out, " %9.3f\n", (double)latrec_hist_max(h) / 1e3);
}

static void print_window(const struct latrec *r, FILE *out)
{
	struct latrec_window w;

	if (latrec_worst_window(r, &w, sizeof(w)))
		return;
	fprintf(out,
		"worst window of %g ms, at %.6f s: %" PRIu64
		" samples, mean %.3f us, p99 %.3f us, max %.3f us\n",
		(double)w.length_ns / 1e6, (double)w.start_ns / 1e9, w.count, w.mean_ns / 1e3,
		(double)w.p99_ns / 1e3, (double)w.max_ns / 1e3);
}

int latrec_print(const struct latrec *r, const char *clock, FILE *out)
{
	const struct latrec_stats *s = &r->stats;

	errno = 0;
	fprintf(out, "%-19s %12s %9s %9s %9s %9s %9s %9s %9s %9s\n", "latency [us]", "samples",
		"min", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max");
	print_row("post to completion", &r->service, out);
	if (r->intended)
		print_row("due to completion", &r->response, out);
	print_window(r, out);
	if (s->refused || s->unmatched || s->backwards || s->dropped)
		fprintf(out,
			"not recorded: %" PRIu64 " posts refused, %" PRIu64
			" completions unmatched, %" PRIu64
			" completions before their post, %" PRIu64 " operations dropped\n",
			s->refused, s->unmatched, s->backwards, s->dropped);
	fprintf(out, "percentiles by nearest rank, at most 0.79 %% above the sample; clock: %s\n",
		clock);
	return stream_status(out);
}
