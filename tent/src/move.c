/* SPDX-License-Identifier: MIT */
/*
 * Implements the scheduler's callbacks. A rail of the scheduler is a pair of rails (struct pair),
 * and its slices are posted on the pair's link. A pair has no other state than the scheduler's
 * rail, see the diagram in sched.h:
 *
 *	FENCING     we have sent FENCE to the peer, and our posted work ends
 *	DOWN        there is no link
 *	CONNECTING  our end exists, and we have requested the peer's end
 *	PROBING     the two ends are connected, a message without data is under way
 *	UP, HALF    slices and marks are posted on the link
 *
 * A callback only begins an operation. move_progress() later reports the end of the operation with
 * functions such as sched_fenced(), which must not be called from within a function of the
 * scheduler or a link.
 */
#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "base/clock.h"
#include "engine.h"

#define FENCE_NS (5000 * NSEC_PER_MSEC) /* the time that a peer has to confirm a fence */
#define DRAIN_NS (10 * NSEC_PER_MSEC) /* the time that our end has to complete its posted work */
#define PROBE_NS (100 * NSEC_PER_MSEC)
#define FIRST_OPEN_NS                                                                              \
	(10000 * NSEC_PER_MSEC) /* longer than the transport retries of a queue pair last */

/* ---- the scheduler's callbacks ---- */

static void place_slice(const struct tent_segment *s, const struct pair *p, const struct task *k,
	const struct sched_slice *slice, struct link_move *m)
{
	uint64_t local = (uintptr_t)k->request.local + slice->offset;
	const struct buffer *b = k->buffer;
	const struct desc_buffer *r = k->remote;
	/*
	 * The program may unmap its local memory at any time, unless that is from tent_alloc(). So
	 * if the transport does not pin it, `mapped` is NULL, and the link copies with a system
	 * call, which returns an error instead of a fault.
	 */
	uint8_t *at = b->fd >= 0 || s->t->transport->mapped ? r->lent.at : NULL;

	*m = (struct link_move){
		.write = k->request.op == TENT_WRITE,
		.local = (void *)(uintptr_t)local,
		.remote = k->request.remote + slice->offset,
		.mapped = at ? at + (k->request.remote + slice->offset - r->addr) : NULL,
		.len = slice->length,
		.token = slice->token,
		.alone = slice->alone,
	};
	if (b->regions)
		m->lkey = b->regions[p->local * b->n_parts + (local - b->addr) / b->part_len].lkey;
	if (r->keys)
		m->rkey = r->keys[p->remote * r->n_parts + (m->remote - r->addr) / r->part_len];
}

static int post_mark(struct tent_segment *s, struct pair *p, const struct sched_slice *slice)
{
	struct notice_mark mark;

	notice_record(s, slice->user, slice->position, &mark);
	return p->link->ops->post_mark(p->link, &mark, slice->token);
}

static int post_slice(struct tent_segment *s, struct pair *p, const struct sched_slice *slice)
{
	struct task *k = &s->t->tasks[slice->user];
	uint32_t id = (uint32_t)slice->token;
	struct link_move m;
	int err;

	place_slice(s, p, k, slice, &m);
	err = p->link->ops->post(p->link, &m);
	if (err)
		return err;
	s->slices[id].task = (uint32_t)slice->user;
	s->slices[id].length = slice->length;
	s->slices[id].posted_at = clock_ns();
	if (slice->again && s->reported_at) {
		latrec_hist_record(s->resend_ns, s->slices[id].posted_at - s->reported_at);
		s->reported_at = 0;
	}
	return 0;
}

static int op_post(void *arg, uint32_t rail, const struct sched_slice *slice)
{
	struct tent_segment *s = arg;
	struct pair *p = &s->pairs[rail];

	assert(p->link);
	return slice->mark ? post_mark(s, p, slice) : post_slice(s, p, slice);
}

static void op_fence(void *arg, uint32_t rail, uint32_t epoch)
{
	struct tent_segment *s = arg;
	struct pair *p = &s->pairs[rail];
	struct ctl_msg msg = {.type = CTL_FENCE, .pair = rail, .epoch = epoch};

	assert(p->link);
	p->answered = false;
	p->failed_at = clock_ns();
	p->deadline = p->failed_at + FENCE_NS;
	if (!s->reported_at)
		s->reported_at = p->failed_at;
	blame_suspect(s, rail);
	peer_send(s, &msg); /* sent first, because the slices wait for the reply */
	if (p->link->ops->stop)
		p->link->ops->stop(p->link);
}

static int op_open(void *arg, uint32_t rail, uint32_t epoch)
{
	struct tent_segment *s = arg;
	struct pair *p = &s->pairs[rail];
	struct ctl_msg msg = {.type = CTL_CONNECT, .pair = rail, .rail = p->remote, .epoch = epoch};

	assert(!p->link);
	p->answered = false;
	p->status = peer_connect(s, p->local, &msg, &p->link);
	if (!p->status) {
		s->arms |= p->link->ops->arm || p->link->fds[0] < 0;
		s->flushes |= p->link->ops->flush != NULL;
	}
	return p->status;
}

static void close_old(struct tent_segment *s, struct pair *p)
{
	s->n_closed -= p->closed != NULL;
	loop_close_link(s->t, &p->closed);
}

static void op_close(void *arg, uint32_t rail)
{
	struct tent_segment *s = arg;
	struct pair *p = &s->pairs[rail];

	assert(p->link);
	close_old(s, p);
	/*
	 * Destroying a link takes long. An idle one is kept until the slices have gone to other
	 * rails.
	 */
	if (!p->link->posted) {
		p->closed = p->link;
		p->link = NULL;
		s->n_closed++;
	}
	loop_close_link(s->t, &p->link);
}

static const struct rail_ops ops = {
	.post = op_post,
	.fence = op_fence,
	.open = op_open,
	.close = op_close,
	.done = task_moved,
	.marked = notice_marked,
};

/* ---- completions of links ---- */

struct report {
	struct tent_segment *s;
	uint32_t pair;
	uint64_t now;
};

/* A slice or a mark has ended. Only slices count as bytes of the request. */
static void posted_done(const struct report *r, uint64_t token, int status)
{
	struct tent_segment *s = r->s;
	uint32_t id = (uint32_t)token, task = s->slices[id].task;
	struct pair *p = &s->pairs[r->pair];
	const struct transport *tr = s->t->ports[p->local]->transport;
	/* If a GPU has failed, the request would fail on every rail. */
	bool refused = (status == -EFAULT && tr->spares) || (status == -EIO && tr->gpus);
	int kind = refused ? sched_refused(s->sched, r->now, token, status) :
			     sched_completed(s->sched, r->now, token, status);

	if (kind == -ESTALE)
		return;
	if (status == -EACCES)
		blame_known(s, r->pair, TENT_FAULT_REFUSED);
	if (status || kind == SCHED_MARK)
		return;
	s->t->tasks[task].pairs |= 1ull << r->pair;
	s->t->tasks[task].bytes += s->slices[id].length;
	latrec_hist_record(p->slice_ns, r->now - s->slices[id].posted_at);
}

static void probe_done(const struct report *r, uint32_t epoch, int status)
{
	struct pair *p = &r->s->pairs[r->pair];

	if (sched_rail_state(r->s->sched, r->pair) != RAIL_PROBING ||
		sched_rail_epoch(r->s->sched, r->pair) != epoch)
		return;
	p->answered = true;
	p->status = status;
}

static void link_done(void *arg, uint64_t token, int status)
{
	const struct report *r = arg;

	if (token & TOKEN_PROBE)
		probe_done(r, (uint32_t)(token >> 32), status);
	else
		posted_done(r, token, status);
}

static void end_probe(struct tent_segment *s, uint32_t pair, uint64_t now)
{
	const struct pair *p = &s->pairs[pair];

	if (sched_rail_state(s->sched, pair) == RAIL_PROBING && p->answered)
		sched_probed(s->sched, now, pair, sched_rail_epoch(s->sched, pair), p->status);
}

/* ---- messages of the peer ---- */

static void on_connected(struct tent_segment *s, uint32_t pair, const struct ctl_msg *msg,
	uint64_t now)
{
	struct pair *p = &s->pairs[pair];

	if (sched_rail_state(s->sched, pair) != RAIL_CONNECTING ||
		sched_rail_epoch(s->sched, pair) != msg->epoch)
		return;
	p->status = peer_connected(p->link, msg, token_probe(msg->epoch));
	sched_connected(s->sched, now, pair, msg->epoch, p->status);
}

static void on_fenced(struct tent_segment *s, uint32_t pair, const struct ctl_msg *msg)
{
	if (sched_rail_state(s->sched, pair) == RAIL_FENCING &&
		sched_rail_epoch(s->sched, pair) == msg->epoch)
		s->pairs[pair].answered = true;
}

void move_port(struct tent_segment *s, uint64_t now, bool own, uint32_t rail, bool up)
{
	for (uint32_t i = 0; i < s->n_pairs; i++) {
		if ((own ? s->pairs[i].local : s->pairs[i].remote) != rail)
			continue;
		if (up) {
			sched_rail_up(s->sched, now, i);
		} else {
			sched_rail_down(s->sched, now, i);
			blame_known(s, i, own ? TENT_FAULT_OWN_PORT : TENT_FAULT_PEER_PORT);
		}
	}
}

int move_message(struct tent_segment *s, const struct ctl_msg *msg, uint64_t now)
{
	bool of_blame = msg->pair >= TENT_MAX_RAILS;

	if (of_blame ? msg->pair >= CONN_LINKS : msg->pair >= s->n_pairs)
		return -EPROTO;
	switch (msg->type) {
	case CTL_CONNECTED:
		if (of_blame)
			blame_answer(s, msg);
		else
			on_connected(s, msg->pair, msg, now);
		return 0;
	case CTL_FENCED:
		if (!of_blame)
			on_fenced(s, msg->pair, msg);
		return 0;
	case CTL_TAKEN:
		notice_taken(s, &msg->mark);
		return 0;
	case CTL_UNREGISTER:
		lent_revoked(s, msg->rail);
		return 0;
	case CTL_GREW:
		learn_told(s, msg->rail);
		return 0;
	case CTL_MEMORY:
		return learn_memory(s, msg);
	case CTL_STAGED:
		return stage_answered(s, msg);
	case CTL_RAIL_DOWN:
	case CTL_RAIL_UP:
		move_port(s, now, false, msg->rail, msg->type == CTL_RAIL_UP);
		return 0;
	default:
		return -EPROTO;
	}
}

/* Reads some of the peer's messages: a peer that sends without end must not keep the lock. */
static bool read_messages(struct tent_segment *s, uint64_t now)
{
	struct ctl_msg msg;
	int n = 0, err = 0;

	while (!s->lost && !err && n < READ_MAX) {
		err = ctl_receive(&s->ctl, &msg);
		if (!err)
			err = move_message(s, &msg, now);
		n += !err;
	}
	if (err && err != -EAGAIN)
		peer_lost(s, -ECONNRESET);
	return n;
}

/* ---- fences ---- */

/* True: nothing is under way on our end any more, or the time for draining is over. */
static bool drained(const struct tent *t, const struct pair *p, uint64_t now)
{
	return !p->link->posted || t->ports[p->local]->dead || now >= p->failed_at + DRAIN_NS;
}

static bool end_fence(struct tent_segment *s, uint32_t pair, uint64_t now)
{
	struct pair *p = &s->pairs[pair];
	int status = p->answered ? 0 : -ETIMEDOUT;
	struct sched_stats before, after;

	if (s->lost) {
		status = s->lost;
	} else if (!p->answered && now < p->deadline) {
		return false;
	}
	if (!drained(s->t, p, now))
		return false;
	sched_stats(s->sched, &before);
	sched_fenced(s->sched, now, pair, sched_rail_epoch(s->sched, pair), status);
	sched_stats(s->sched, &after);
	if (after.resent == before.resent)
		s->reported_at = 0; /* nothing was under way */
	return true;
}

static bool end_fences(struct tent_segment *s, uint64_t now)
{
	bool some = false;

	for (uint32_t i = 0; i < s->n_pairs && !sched_all_up(s->sched); i++) {
		if (sched_rail_state(s->sched, i) == RAIL_FENCING)
			some |= end_fence(s, i, now);
	}
	return some;
}

/* The next deadline of a fence. */
static uint64_t fence_due(const struct tent_segment *s)
{
	uint64_t due = SCHED_NEVER;

	for (uint32_t i = 0; i < s->n_pairs && !sched_all_up(s->sched); i++) {
		const struct pair *p = &s->pairs[i];
		uint64_t at = p->answered || s->lost ? p->failed_at + DRAIN_NS : p->deadline;

		if (sched_rail_state(s->sched, i) == RAIL_FENCING && at < due)
			due = at;
	}
	return due;
}

/* ---- progress ---- */

/* True: a link may still access the peer's memory, and nothing on the peer's side prevents it. */
static bool copying(const struct tent_segment *s)
{
	bool some = s->movers;

	for (uint32_t i = 0; i < s->n_pairs; i++)
		some |= sched_rail_in_use(s->sched, i) ||
			sched_rail_state(s->sched, i) == RAIL_FENCING;
	return some && !s->t->transport->bars;
}

static void fail_lost(struct tent_segment *s, uint64_t now)
{
	sched_give_up(s->sched);
	for (uint32_t i = 0; i < s->n_pairs; i++)
		sched_rail_down(s->sched, now, i);
}

static void flush(struct tent_segment *s)
{
	for (uint32_t i = 0; i < s->n_pairs && s->flushes; i++) {
		struct link *l = s->pairs[i].link;

		if (l && l->ops->flush && sched_rail_in_use(s->sched, i))
			l->ops->flush(l);
	}
}

static void start(struct tent_segment *s, uint64_t now)
{
	do {
		s->again = false;
		/* Marks are posted before tasks_start(), whose slices could leave no room for them. */
		tasks_notify(s);
		stage_start(s);
		tasks_start(s, now);
		s->wake = sched_run(s->sched, now);
	} while (s->again);
}

bool move_now(struct tent_segment *s, uint32_t id)
{
	struct task *k = &s->t->tasks[id];
	uint32_t pair = k->n_cuts ? SCHED_NO_RAIL : sched_idle_rail(s->sched, k->place);
	struct link *l = pair == SCHED_NO_RAIL ? NULL : s->pairs[pair].link;
	struct sched_moved moved = {.rail = pair,
		.location = k->place,
		.length = k->request.len,
		.user = id,
		.priority = k->request.priority};
	struct link_move m;
	int err;

	if (!l || l->posted)
		return false;
	place_slice(s, &s->pairs[pair], k, &(struct sched_slice){.length = moved.length}, &m);
	/*
	 * The task is counted in buffer.uses, lent.moving and tent_segment.open, so the memory on
	 * both sides and the segment exist until it ends.
	 */
	s->movers++;
	moved.from = clock_ns();
	err = l->ops->now(l, &m, &s->t->lock);
	moved.to = clock_ns();
	s->movers--;
	if (s->lost || s->leaving)
		loop_wake(s->t, 0); /* the peer waits for the end of the move */
	if (err)
		return false;
	sched_moved(s->sched, &moved);
	latrec_hist_record(s->pairs[pair].slice_ns, moved.to - moved.from);
	k->state = TASK_MOVING;
	k->pairs = 1ull << pair;
	k->bytes = moved.length;
	task_arrived(s, id, 0);
	return true;
}

bool move_progress(struct tent_segment *s, uint64_t now, bool all)
{
	bool some = all && read_messages(s, now);
	bool probing = !sched_all_up(s->sched);
	struct report r = {s, 0, now};

	for (; r.pair < s->n_pairs; r.pair++) {
		struct link *l = s->pairs[r.pair].link;

		if (l && (l->posted || all))
			some |= l->ops->poll(l, link_done, &r) > 0;
		if (probing)
			end_probe(s, r.pair, now);
	}
	if (s->lost)
		fail_lost(s, now);
	some |= end_fences(s, now);
	start(s, now);
	some |= blame_progress(s, now);
	some |= lent_answer(s);
	if (s->lost) {
		tasks_fail(s, s->lost);
		stage_lost(s);
	}
	/* The closed connection tells the peer that no thread copies any more. */
	if (s->lost && !copying(s))
		peer_close(s);
	flush(s);
	for (uint32_t i = 0; i < s->n_pairs && s->n_closed; i++)
		close_old(s, &s->pairs[i]);
	return some;
}

uint64_t move_due(const struct tent_segment *s)
{
	uint64_t due = fence_due(s);

	if (blame_due(s) < due)
		due = blame_due(s);
	return s->wake < due ? s->wake : due;
}

static bool is_unarmed(const struct link *l)
{
	return l && l->posted && (l->ops->arm || l->fds[0] < 0);
}

bool move_unarmed(const struct tent_segment *s)
{
	bool some = false;

	for (uint32_t i = 0; i < s->n_pairs && s->arms; i++)
		some |= is_unarmed(s->pairs[i].link);
	for (uint32_t i = 0; i < BLAME_ENDS && s->arms; i++)
		some |= is_unarmed(s->blame.ends[i].link);
	return some;
}

bool move_help(struct tent *t)
{
	for (struct tent_segment *s = t->segments; s; s = s->next) {
		for (uint32_t i = 0; i < s->n_pairs; i++) {
			struct link *l = s->pairs[i].link;

			/*
			 * If help() returns true, the lock was released, and the lists may have
			 * changed.
			 */
			if (l && l->posted && l->ops->help && l->ops->help(l, &t->lock))
				return true;
		}
	}
	return false;
}

void move_urge(struct tent *t)
{
	for (struct tent_segment *s = t->segments; s; s = s->next) {
		for (uint32_t i = 0; i < s->n_pairs; i++) {
			struct link *l = s->pairs[i].link;

			if (l && l->posted && l->ops->urge)
				l->ops->urge(l);
		}
	}
}

/* ---- set-up ---- */

static void describe_rails(const struct tent_segment *s, struct sched_rail_attr *rails)
{
	for (uint32_t i = 0; i < s->n_pairs; i++) {
		uint32_t local = s->pairs[i].local;

		rails[i] = (struct sched_rail_attr){
			.rate = s->t->gbps[local] / 8,
			.depth = LINK_DEPTH,
			.group = SCHED_NO_GROUP,
			.stall_min_ns = s->t->ports[local]->transport->stall_ns,
		};
	}
}

/*
 * Returns how many links' threads can work at the same time, at least 1: one for each CPU of this
 * process, except one CPU for the thread that waits for the request, because it copies as well
 * (move_help()).
 */
static uint32_t cpus(void)
{
	cpu_set_t set;
	int n = sched_getaffinity(0, sizeof(set), &set) ? 0 : CPU_COUNT(&set);

	return n > 2 ? (uint32_t)n - 1 : 1;
}

int move_create(struct tent_segment *s)
{
	struct sched_rail_attr rails[TENT_MAX_RAILS];
	uint8_t *tiers = NULL;
	int n = places_init(s, &tiers), err;
	const struct sched_attr attr = {
		.config = &s->t->config,
		.rails = rails,
		.n_rails = s->n_pairs,
		.tiers = tiers,
		.n_locations = (uint32_t)n,
		.wake_ns = s->t->ports[0]->wake_ns,
		.most_awake = s->t->ports[0]->wake_ns ? cpus() : 0,
		.max_requests = MAX_MOVING * s->t->config.priorities,
		.max_slices = MAX_SLICES,
		.probe_timeout_ns = PROBE_NS,
		.first_open_ns = FIRST_OPEN_NS,
		.no_rail_ns = s->t->no_rail_ns,
		.seed = clock_ns(),
		.ops = &ops,
		.arg = s,
	};

	if (n < 0)
		return n;
	describe_rails(s, rails);
	err = sched_create(&attr, &s->sched);
	free(tiers);
	return err;
}
