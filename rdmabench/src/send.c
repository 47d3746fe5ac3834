/* SPDX-License-Identifier: MIT */
/* Posts batches of requests when they are due, and records them when they complete. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "payload.h"
#include "side.h"

#define PEAK_NS (10 * NSEC_PER_MSEC)

/* Writes the payload of request k, or zeroes the buffer of a READ or an atomic. */
static void prepare(const struct flow *f, const struct pattern_request *r, uint64_t k,
	uint8_t *local)
{
	uint32_t qpn = mlx5dvl_qp_qpn(f->qp), skip = 0;

	if (r->kind == PATTERN_SEND) {
		if (r->total >= PAYLOAD_NUMBER) {
			memcpy(local, &f->numbered, PAYLOAD_NUMBER);
			skip = PAYLOAD_NUMBER;
		}
		payload_fill(local + skip, r->total - skip,
			payload_seed(qpn, PAYLOAD_SEND, f->numbered));
	} else if (r->kind == PATTERN_WRITE) {
		payload_fill(local, r->total, payload_seed(qpn, PAYLOAD_WRITE, k));
	} else {
		memset(local, 0, r->total);
	}
}

static uint64_t remote_address(const struct flow *f, const struct pattern_request *r, uint64_t slot)
{
	const struct layout *l = &f->peer->side->layout;

	switch (r->opcode) {
	case MLX5DVL_READ:
		return f->remote + l->read_at;
	case MLX5DVL_FETCH_ADD:
		return f->remote + l->atomic_at;
	case MLX5DVL_CMP_SWAP:
		return f->remote + l->atomic_at + 8;
	default:
		return f->remote + l->write_at + slot * l->stride;
	}
}

static int post_places(struct flow *f, const struct pattern_request *r, uint8_t *local,
	uint64_t remote, unsigned flags)
{
	struct mlx5dvl_sge places[PATTERN_PLACES];
	struct mlx5dvl_list l = {.opcode = r->opcode,
		.nsge = r->n,
		.sge = places,
		.raddr = remote,
		.rkey = f->rkey,
		.imm = (uint32_t)f->numbered,
		.ah = f->ah,
		.flags = flags};

	for (uint32_t i = 0; i < r->n; i++) {
		places[i] = (struct mlx5dvl_sge){local, f->mr->lkey, r->len[i]};
		local += r->len[i];
	}
	return mlx5dvl_post_list(f->qp, &l);
}

static int post_one_place(struct flow *f, const struct pattern_request *r, uint8_t *local,
	uint64_t remote, unsigned flags)
{
	uint32_t lkey = f->mr->lkey, rkey = f->rkey, len = r->total;
	uint32_t imm = (uint32_t)f->numbered;
	uint64_t *word = (uint64_t *)(void *)local, n;

	switch (r->opcode) {
	case MLX5DVL_WRITE:
		return mlx5dvl_post_write(f->qp, local, lkey, len, remote, rkey, flags, 0);
	case MLX5DVL_WRITE_IMM:
		return mlx5dvl_post_write_imm(f->qp, local, lkey, len, remote, rkey, imm, flags, 0);
	case MLX5DVL_READ:
		return mlx5dvl_post_read(f->qp, local, lkey, len, remote, rkey, flags, 0);
	case MLX5DVL_SEND:
		return mlx5dvl_post_send(f->qp, local, lkey, len, flags, 0);
	case MLX5DVL_SEND_IMM:
		return mlx5dvl_post_send_imm(f->qp, local, lkey, len, imm, flags, 0);
	case MLX5DVL_FETCH_ADD:
		f->atomics[0]++;
		return mlx5dvl_post_fetch_add(f->qp, word, lkey, remote, rkey, 1, flags, 0);
	default:
		n = f->atomics[1]++;
		return mlx5dvl_post_cmp_swap(f->qp, word, lkey, remote, rkey, n, n + 1, flags, 0);
	}
}

/* Posts request k. The send queue always has room, because t.depth requests fit into it. */
static int post_request(struct flow *f, uint64_t k, bool last)
{
	const struct side *s = f->peer->side;
	const struct pattern_request *r = &s->t.pattern.request[k % s->t.pattern.n];
	uint64_t slot = k % s->layout.slots;
	uint8_t *local = f->mem + slot * s->layout.stride;
	uint64_t remote = remote_address(f, r, slot);
	unsigned flags =
		(last ? MLX5DVL_SIGNALED : 0) | (r->total > s->t.inline_max ? MLX5DVL_BY_REF : 0);
	int err;

	if (s->t.check)
		prepare(f, r, k, local);
	if (s->t.pingpong && r->kind == PATTERN_WRITE)
		local[r->total - 1] = flow_mark(k);
	if (f->ah || r->n > 1)
		err = post_places(f, r, local, remote, flags);
	else
		err = post_one_place(f, r, local, remote, flags);
	if (!err)
		f->numbered += r->receives;
	return err;
}

/* Returns true on the side of a ping-pong that does not begin. */
static bool answers(const struct side *s)
{
	return s->t.pingpong && s->is_server;
}

/* Returns true if all messages of the peer that precede our next one have arrived. */
static bool is_our_turn(const struct flow *f)
{
	const struct side *s = f->peer->side;
	uint64_t theirs = f->posted + answers(s);

	if (!s->t.pingpong || !theirs)
		return true;
	return s->t.pattern.receives ? f->received >= theirs : flow_has_write(f, theirs - 1);
}

static uint64_t left_to_post(const struct flow *f, uint64_t now_ns)
{
	const struct side *s = f->peer->side;

	if (f->failed || f->peer->gone || !s->sends)
		return 0;
	if (answers(s) && f->peer->got_done)
		return 0; /* the client has ended, perhaps before its last request */
	if (s->t.iterations)
		return s->t.iterations - f->posted;
	if (answers(s))
		return UINT64_MAX;
	return now_ns - s->start_ns < s->t.duration_ns ? UINT64_MAX : 0;
}

bool flow_is_done(const struct flow *f, uint64_t now_ns)
{
	return f->failed || (f->posted == f->completed && !left_to_post(f, now_ns) &&
				    (answers(f->peer->side) || is_our_turn(f)));
}

/*
 * The last batch that fits into the queue is signaled, because the flow then waits for its
 * completion.
 */
static bool is_signaled(const struct flow *f, uint32_t n, uint64_t left)
{
	const struct traffic *t = &f->peer->side->t;

	return f->quiet + n >= t->moderation || left == n ||
	       f->posted - f->completed + n + t->send_batch > t->depth;
}

/* Records a latency, unless the request belongs to the warm-up. @now_ns: when it is recorded. */
static void record(struct flow *f, const struct batch *b, uint64_t done_ns, uint64_t now_ns)
{
	struct side *s = f->peer->side;
	int err;

	if (b->first < s->t.warm_up || latrec_record(s->rec, b->due_ns, b->posted_ns, done_ns) ||
		!s->stats)
		return;
	err = statsfile_add(s->stats, done_ns - b->posted_ns, now_ns);
	if (err && !s->stats_error) {
		s->stats_error = err;
		side_event(s, "%s: %s", statsfile_path(s->stats), strerror(-err));
	}
}

/* Records half of the time from the last post until now. The next post then overwrites @last. */
static void record_half(struct flow *f, const struct batch *last, uint64_t now_ns)
{
	record(f, last, last->posted_ns + (now_ns - last->posted_ns) / 2, now_ns);
}

static void post_batch(struct flow *f, uint32_t n, uint64_t left, uint64_t due)
{
	struct side *s = f->peer->side;
	struct batch *b = &f->batches[f->head % s->t.depth];
	uint64_t now = latrec_clock_now(&s->clock);
	int err = 0;

	if (s->t.pingpong && f->posted)
		record_half(f, b, now);
	*b = (struct batch){.first = f->posted, .count = n, .signaled = is_signaled(f, n, left)};
	b->posted_ns = now;
	b->due_ns = due ? due : b->posted_ns;
	for (uint32_t i = 0; i < n && !err; i++)
		err = post_request(f, b->first + i, b->signaled && i + 1 == n);
	if (err) { /* -ENOTCONN: the QP has failed, as side_on_error() has reported */
		f->failed = true;
		return;
	}
	mlx5dvl_ring(f->qp);
	f->posted += n;
	f->quiet = b->signaled ? 0 : f->quiet + n;
	f->head++;
}

/*
 * After the duration, posts a signaled request without effect, so that the last batches complete.
 */
static bool flush_quiet(struct flow *f)
{
	if (!f->quiet || f->failed)
		return false;
	f->quiet = 0;
	f->failed = mlx5dvl_post_nop(f->qp, MLX5DVL_SIGNALED, 0) != 0;
	if (!f->failed)
		mlx5dvl_ring(f->qp);
	return !f->failed;
}

/* Returns the time at which batch k is due. The flows of a peer take turns. */
static uint64_t due_ns(const struct flow *f, uint64_t k)
{
	const struct side *s = f->peer->side;
	double flows = (double)s->t.qps * s->n_peers;
	double batches = (double)k * flows + f->index;

	return s->start_ns + (uint64_t)(batches * s->t.send_batch * 1e9 / (double)s->t.rate);
}

uint64_t flow_overdue(const struct flow *f)
{
	const struct side *s = f->peer->side;
	double flows = (double)s->t.qps * s->n_peers, each;
	uint64_t end = s->start_ns + s->t.duration_ns, n;

	if (!s->t.rate || s->t.iterations)
		return 0;
	each = flows * s->t.send_batch * 1e9 / (double)s->t.rate;
	n = (uint64_t)((double)s->t.duration_ns / each);
	/* The division gives an estimate; due_ns() alone decides which batches were due. */
	n = n > 2 ? n - 2 : 0;
	while (due_ns(f, n) < end)
		n++;
	return n > f->head ? n - f->head : 0;
}

static void after_batch(struct flow *f, uint64_t now_ns)
{
	const struct traffic *t = &f->peer->side->t;

	if (t->burst && ++f->burst == t->burst) {
		f->burst = 0;
		f->resume_ns = now_ns + t->burst_pause_us * NSEC_PER_USEC;
	}
}

/*
 * Ends a flow of the client if its message or the answer is lost. The server does not do this: it
 * waits for DONE.
 */
static void look_for_answer(struct flow *f, uint64_t now_ns)
{
	struct side *s = f->peer->side;

	if (answers(s) || now_ns - f->batches[0].posted_ns < s->timeout_ns)
		return;
	f->failed = true;
	side_count_error(f->peer, -ETIMEDOUT);
	side_event(s, "QP %#x: no answer to message %llu", mlx5dvl_qp_qpn(f->qp),
		(unsigned long long)f->posted);
}

bool flow_send(struct flow *f, uint64_t now_ns)
{
	const struct traffic *t = &f->peer->side->t;
	uint64_t left = left_to_post(f, now_ns), due = t->rate ? due_ns(f, f->head) : 0;
	uint32_t n = left < t->send_batch ? (uint32_t)left : t->send_batch;

	if (!is_our_turn(f)) {
		look_for_answer(f, now_ns);
		return false;
	}
	if (!n)
		return flush_quiet(f);
	if (f->posted - f->completed + n > t->depth || now_ns < f->resume_ns || now_ns < due)
		return false;
	post_batch(f, n, left, due);
	after_batch(f, now_ns);
	return !f->failed;
}

/* Compares the bytes that a READ or an atomic returned. */
static bool result_is_right(struct flow *f, const struct pattern_request *r, const uint8_t *local)
{
	uint64_t word;

	if (r->kind == PATTERN_READ)
		return payload_is(local, r->total, payload_seed(f->remote_qpn, PAYLOAD_READ, 0));
	if (r->kind != PATTERN_ATOMIC)
		return true;
	memcpy(&word, local, sizeof(word));
	return word == f->checked[r->opcode == MLX5DVL_CMP_SWAP]++;
}

static void count_batch(struct flow *f, const struct batch *b)
{
	struct peer *p = f->peer;
	struct side *s = p->side;

	for (uint64_t k = b->first; k < b->first + b->count; k++) {
		const struct pattern_request *r = &s->t.pattern.request[k % s->t.pattern.n];
		const uint8_t *local = f->mem + k % s->layout.slots * s->layout.stride;

		s->bytes += r->total;
		p->bytes += r->total;
		s->interval_bytes += r->total;
		if (s->t.check && !result_is_right(f, r, local)) {
			s->mismatches++;
			p->wrong_results++;
		}
	}
	s->messages += b->count;
	p->messages += b->count;
}

static void note_peak(struct side *s, uint64_t now_ns)
{
	double rate;

	if (now_ns - s->interval_ns < PEAK_NS)
		return;
	rate = (double)s->interval_bytes / (double)(now_ns - s->interval_ns);
	s->peak = rate > s->peak ? rate : s->peak;
	s->interval_ns = now_ns;
	s->interval_bytes = 0;
}

/*
 * Counts the batches that have completed: up to and including the next signaled one, or all if none
 * is signaled. Returns the last of them.
 */
static const struct batch *take_batches(struct flow *f)
{
	const struct batch *b;

	do {
		b = &f->batches[f->tail++ % f->peer->side->t.depth];
		f->completed += b->count;
		count_batch(f, b);
	} while (!b->signaled && f->tail != f->head);
	return b;
}

void flow_on_sent(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_sent *sent)
{
	struct flow *f = mlx5dvl_qp_user(qp);
	struct side *s = f->peer->side;
	uint64_t now = latrec_clock_now(&s->clock), done;
	const struct batch *b = take_batches(f);

	s->last_ns = f->peer->last_ns = now;
	note_peak(s, now);
	/* flush_quiet() completed an unsignaled batch, at an unknown time. */
	if (!b->signaled || s->t.pingpong)
		return;
	done = s->hw_ts ? hwclock_time(&s->hw, b->posted_ns, sent->stamp, now) : now;
	record(f, b, done, now);
}
