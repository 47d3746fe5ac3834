/* SPDX-License-Identifier: MIT */
#include "internal.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/sized.h"

/*
 * A recorder, whose last fields are those of struct latrec. `changes` is odd while the fields of
 * windows and the histograms are not consistent with each other.
 */
struct recorder {
	struct latrec_stats stats;
	uint64_t length_ns; /* of a window */
	uint64_t start_ns; /* of the open window */
	struct latrec_window worst; /* the worst window that is over; count 0: none yet */
	struct latrec_hist *before; /* all samples before the open window */
	struct wish *wanted;
	uint32_t changes;
	struct {
		uint64_t window_end_ns;
		uint64_t intended;
		struct latrec_hist *response;
		struct hist service;
	} latrec;
};

static_assert(offsetof(struct recorder, latrec.service) - offsetof(struct recorder, latrec) ==
		      offsetof(struct latrec, service),
	"as struct latrec");

static struct recorder *own(struct latrec *r)
{
	return container_of(r, struct recorder, latrec);
}

static const struct recorder *of(const struct latrec *r)
{
	return (const struct recorder *)(const void *)((const char *)r -
						       offsetof(struct recorder, latrec));
}

int latrec_create(const struct latrec_attr *attr, struct latrec **r_p)
{
	struct latrec_hist_attr hist = {.size = sizeof(hist)};
	struct latrec_attr a;
	int err = SIZED_ATTR(&a, attr, window_ns);
	struct recorder *o = err ? NULL : calloc(1, sizeof(*o));
	struct latrec *r;

	if (!o)
		return err ? err : -ENOMEM;
	r = (struct latrec *)(void *)&o->latrec;
	hist.low = a.low;
	hist.high = a.high;
	hist.precision = a.precision;
	err = hist_init(&o->latrec.service, &hist);
	if (!err)
		err = latrec_hist_create(&hist, &o->before);
	if (!err && a.intended)
		err = latrec_hist_create(&hist, &r->response);
	if (err) {
		latrec_destroy(r);
		return err;
	}
	o->length_ns = a.window_ns ? a.window_ns : LATREC_WINDOW_NS;
	r->intended = a.intended;
	*r_p = r;
	return 0;
}

void latrec_destroy(struct latrec *r)
{
	if (!r)
		return;
	hist_free(hist_own(&r->service));
	latrec_hist_destroy(r->response);
	latrec_hist_destroy(own(r)->before);
	free(own(r));
}

const struct latrec_hist *latrec_service(const struct latrec *r)
{
	return &r->service;
}

const struct latrec_hist *latrec_response(const struct latrec *r)
{
	return r->response;
}

void latrec_get_stats(const struct latrec *r, struct latrec_stats *stats_p, size_t size)
{
	sized_out(stats_p, size, &of(r)->stats, sizeof(struct latrec_stats));
}

/* ---- windows ---- */

/* Returns the histogram by which windows are compared. */
static const struct latrec_hist *compared(const struct latrec *r)
{
	return r->intended ? r->response : &r->service;
}

/* Returns the open window as it is now. */
static struct latrec_window open_window(const struct latrec *r)
{
	const struct latrec_hist *h = compared(r), *before = of(r)->before;
	struct latrec_window w = {.start_ns = of(r)->start_ns,
		.length_ns = of(r)->length_ns,
		.count = h->count - before->count};

	if (!w.count)
		return w;
	w.mean_ns = (double)(hist_sum(h) - hist_sum(before)) / (double)w.count;
	w.p99_ns = hist_value(hist_of(h), hist_of(before), hist_rank(.99, w.count));
	w.max_ns = hist_value(hist_of(h), hist_of(before), w.count);
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

static void set_worst(struct latrec *r, const struct latrec_window *w)
{
	words_copy(&own(r)->worst, w, sizeof(*w));
}

static void set_window(struct latrec *r, uint64_t start_ns, uint64_t end_ns)
{
	words_copy(&own(r)->start_ns, &start_ns, sizeof(start_ns));
	words_copy(&r->window_end_ns, &end_ns, sizeof(end_ns));
}

/* Ends the open window, if there is one, and begins the window that contains now_ns. */
static void window_next(struct latrec *r, uint64_t now_ns)
{
	struct recorder *o = own(r);
	struct latrec_window over = open_window(r);
	uint64_t start_ns = now_ns, end_ns;

	/* If there is no memory, the window stays open until the next sample. */
	if (hist_copy_room(o->before, compared(r)))
		return;
	if (r->window_end_ns)
		start_ns = o->start_ns + (now_ns - o->start_ns) / o->length_ns * o->length_ns;
	if (__builtin_add_overflow(start_ns, o->length_ns, &end_ns))
		end_ns = UINT64_MAX;
	change_begin(&o->changes);
	if (worse(&over, &o->worst))
		set_worst(r, &over);
	hist_copy(o->before, compared(r));
	set_window(r, start_ns, end_ns);
	change_end(&o->changes);
}

int latrec_worst_window(const struct latrec *r, struct latrec_window *window_p, size_t size)
{
	struct latrec_window open = open_window(r);
	const struct latrec_window *w = worse(&open, &of(r)->worst) ? &open : &of(r)->worst;

	if (!w->count)
		return -ENODATA;
	sized_out(window_p, size, w, sizeof(*w));
	return 0;
}

/* ---- copies by another thread ---- */

static int copy_room(struct latrec *to, const struct latrec *from)
{
	int err = hist_copy_room(&to->service, &from->service);

	if (!err && from->response)
		err = hist_copy_room(to->response, from->response);
	return err ? err : hist_copy_room(own(to)->before, compared(from));
}

/* Returns the number of values that were recorded, including those that could not be counted. */
static uint64_t recorded(const struct latrec_hist *h)
{
	return h->count + hist_of(h)->lost;
}

/*
 * Like hist_copy(). If `service` and `response` have got the same number of values, they are of the
 * same moment.
 */
static int copy(struct latrec *to, const struct latrec *from)
{
	struct recorder *t = own(to);
	const struct recorder *f = of(from);
	uint32_t changes = change_seen(&f->changes);
	int err = hist_copy(&to->service, &from->service);

	if (!err && from->response)
		err = hist_copy(to->response, from->response);
	if (!err)
		err = hist_copy(t->before, f->before);
	words_copy(&t->stats, &f->stats, sizeof(t->stats));
	words_copy(&t->worst, &f->worst, sizeof(t->worst));
	words_copy(&t->start_ns, &f->start_ns, sizeof(t->start_ns));
	words_copy(&to->window_end_ns, &from->window_end_ns, sizeof(to->window_end_ns));
	t->length_ns = f->length_ns;
	if (err)
		return err;
	if (to->response && recorded(to->response) != recorded(&to->service))
		return -EAGAIN;
	return !(changes & 1) && change_seen(&f->changes) == changes ? 0 : -EAGAIN;
}

int latrec_snapshot(struct latrec *r, struct latrec *to)
{
	int err;

	if (r->intended != to->intended || !hist_alike(&r->service, &to->service))
		return -EINVAL;
	do {
		err = copy_room(to, r);
		if (!err)
			err = copy(to, r);
		if (err == -EAGAIN)
			err = wish_ask(&own(r)->wanted, &r->service.gate, to);
	} while (err == -EAGAIN);
	return err;
}

/* ---- unusual samples ---- */

/*
 * Handles the samples that the inline code does not record: a new extreme value, a value out of the
 * range, the first sample of a window, a sample when another thread has requested a copy, a
 * completion without a post (returns -ENOENT; the FIFO is unchanged), or a completion before its
 * post (-ERANGE).
 */
COLD int latrec_priv_take(struct latrec *r, struct latrec_ep *ep, uint64_t due_ns,
	uint64_t posted_ns, uint64_t done_ns)
{
	struct wish *w = wish_take(&own(r)->wanted);

	if (w)
		wish_answer(w, copy((struct latrec *)w->to, r));
	if (ep && posted_ns == LATREC_NO_STAMP) {
		ep->tail = (ep->tail - LATREC_PLACE) & ep->mask;
		count_one(&own(r)->stats.unmatched);
		return -ENOENT;
	}
	if (done_ns - posted_ns > INT64_MAX) {
		count_one(&own(r)->stats.backwards);
		return -ERANGE;
	}
	if (done_ns >= r->window_end_ns)
		window_next(r, done_ns);
	latrec_hist_record(&r->service, done_ns - posted_ns);
	if (r->intended)
		latrec_hist_record(r->response, done_ns - due_ns);
	return 0;
}

void latrec_reset(struct latrec *r)
{
	const struct latrec_stats none = {.refused = 0};
	const struct latrec_window no_window = {.count = 0};
	struct recorder *o = own(r);

	change_begin(&o->changes);
	latrec_hist_clear(&r->service);
	if (r->response)
		latrec_hist_clear(r->response);
	latrec_hist_clear(o->before);
	set_worst(r, &no_window);
	words_copy(&o->stats, &none, sizeof(none));
	set_window(r, 0, 0);
	change_end(&o->changes);
}

static void add_stats(struct latrec_stats *to, const struct latrec_stats *from)
{
	const struct latrec_stats sum = {.refused = to->refused + from->refused,
		.unmatched = to->unmatched + from->unmatched,
		.backwards = to->backwards + from->backwards,
		.dropped = to->dropped + from->dropped};

	words_copy(to, &sum, sizeof(sum));
}

/* Allocates the memory that the histograms need, so that merging them cannot fail half-way. */
static int merge_room(struct latrec *to, const struct latrec *from)
{
	int err = 0;

	if ((to->service.count + from->service.count) >> CARRY_BITS) {
		err = hist_reserve(&to->service);
		if (!err && to->response)
			err = hist_reserve(to->response);
		if (!err)
			err = hist_reserve(own(to)->before);
	}
	return err;
}

int latrec_merge(struct latrec *to, const struct latrec *from)
{
	struct recorder *t = own(to);
	struct latrec_window w;
	int err;

	if (to->intended != from->intended)
		return -EINVAL;
	err = merge_room(to, from);
	if (err)
		return err;
	change_begin(&t->changes);
	err = latrec_hist_merge(&to->service, &from->service);
	if (!err) {
		if (!latrec_worst_window(from, &w, sizeof(w)) && worse(&w, &t->worst))
			set_worst(to, &w);
		/*
		 * These do not fail: merge_room() has allocated the memory, and the counts differ
		 * from those above only by lost values, so they do not overflow either.
		 */
		if (to->response)
			latrec_hist_merge(to->response, from->response);
		latrec_hist_merge(t->before, compared(from));
		add_stats(&t->stats, &of(from)->stats);
	}
	change_end(&t->changes);
	return err;
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

COLD int latrec_priv_ep_full(struct latrec_ep *ep)
{
	count_one(&own(ep->rec)->stats.refused);
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
	count_one(&own(ep->rec)->stats.dropped);
	return 0;
}

/* ---- printed table ---- */

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

/* Returns true if values out of the range are counted together. The value 0 alone is exact. */
static bool has_outside(const struct latrec_hist *h)
{
	const struct hist *f = hist_of(h);

	return (hist_at(f, 0) && f->low > 1) || hist_at(f, f->places - 1);
}

int latrec_print(const struct latrec *r, const char *clock, FILE *out)
{
	bool outside = has_outside(&r->service) || (r->intended && has_outside(r->response));
	const struct latrec_stats *s = &of(r)->stats;
	uint32_t half = hist_of(&r->service)->half;
	double worst = ((10000 + (1 << half) - 1) >> half) / 100.; /* rounded up */

	errno = 0;
	fprintf(out, "%-19s %12s %9s %9s %9s %9s %9s %9s %9s %9s\n", "latency [us]", "samples",
		"min", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max");
	print_row("post to completion", &r->service, out);
	if (r->intended)
		print_row("due to completion", r->response, out);
	print_window(r, out);
	if (s->refused || s->unmatched || s->backwards || s->dropped)
		fprintf(out,
			"not recorded: %" PRIu64 " posts refused, %" PRIu64
			" completions unmatched, %" PRIu64
			" completions before their post, %" PRIu64 " operations dropped\n",
			s->refused, s->unmatched, s->backwards, s->dropped);
	fprintf(out, "percentiles by nearest rank, at most %.2f %% above the sample%s; clock: %s\n",
		worst, outside ? ", for samples in the range" : "", clock);
	return stream_status(out);
}
