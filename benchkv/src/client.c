/* SPDX-License-Identifier: MIT */
#include "client.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/wait.h"
#include "backend.h"
#include "puts.h"
#include "stop.h"
#include "values.h"
#include "ways.h"

#define SLEEP_NS (10 * NSEC_PER_MSEC) /* longest sleep between two polls */

/*
 * take_reply() and take_reply_over_time() pass constants as @over_time and @rmw, so that the
 * compiler omits unused code.
 */
ALWAYS_INLINE void take(struct client *c, uint64_t token, const struct kv_resp *resp,
	bool over_time, bool rmw)
{
	const struct mark *m = &c->marks[token & c->check.slot_mask];
	uint64_t start_ns;

	if (rmw ? !rmw_reply(&c->rmw, token, resp, &start_ns) :
		  !check_reply(&c->check, token, resp, &start_ns))
		return;
	if (start_ns < c->measured_ns) {
		c->excluded++;
		return;
	}
	latrec_hist_record(c->latency[m->kind], c->now_ns - start_ns);
	if (c->node->o->rate > 0)
		latrec_hist_record(c->latency[RESULT_DUE], c->now_ns - m->due_ns);
	if (over_time)
		series_record(&c->series, c->now_ns,
			c->now_ns - (c->node->o->rate > 0 ? m->due_ns : start_ns));
}

static void take_reply(struct client *c, uint64_t token, const struct kv_resp *resp)
{
	take(c, token, resp, false, false);
}

static void take_reply_over_time(struct client *c, uint64_t token, const struct kv_resp *resp)
{
	take(c, token, resp, true, false);
}

/* Checks a reply in a job of read-modify-writes, or with values of more than 8 bytes. */
static void take_other_reply(struct client *c, uint64_t token, const struct kv_resp *resp)
{
	struct kv_resp checked = *resp;

	if (c->node->values)
		values_check(c->node->values, &checked);
	take(c, token, &checked, c->node->o->interval_ns, c->node->o->load.rmw);
}

static int init_checks(struct client *c, const struct history *given)
{
	const struct options *o = c->node->o;
	uint64_t ops = o->ops ? o->ops * o->runs : UINT64_MAX;
	int err = check_init(&c->check, given, &c->stream, c->node->rank, o->queue_depth);

	if (c->node->values || o->load.rmw)
		c->take = take_other_reply;
	if (err || !o->load.rmw)
		return err;
	return rmw_init(&c->rmw, &c->check, &c->node->known, ops, o->preload);
}

int client_init(struct client *c, struct node *node, uint32_t index)
{
	const struct options *o = node->o;
	uint32_t id = node->rank * o->clients + index;
	const struct history given = {.source = &node->source,
		.board = node->board.slots ? &node->board : NULL,
		.client = id,
		.writers = node->ranks * o->clients,
		.ops = o->ops,
		.preloaded = o->preload};

	*c = (struct client){.node = node,
		.index = index,
		.made = &node->made[id],
		.remote = node->ranks > 1 ? o->backend : NULL,
		.take = o->interval_ns ? take_reply_over_time : take_reply};
	c->ipc = calloc(o->daemons, sizeof(struct shmipc_client *));
	c->marks = calloc(pow2_ceil(o->queue_depth), sizeof(*c->marks));
	if (!c->ipc || !c->marks || result_latencies_create(c->latency) ||
		(o->interval_ns && series_recorder_init(&c->series, o->interval_ns,
					   series_most(o->duration_ns, o->interval_ns))))
		return -ENOMEM;
	stream_init(&c->stream, &node->source, &node->place, id);
	return init_checks(c, &given);
}

static void disconnect_all(struct client *c)
{
	for (uint32_t i = 0; c->ipc && i < c->node->o->daemons; i++)
		shmipc_client_disconnect(c->ipc[i]);
	if (c->remote && c->remote->free_client)
		c->remote->free_client(c);
}

void client_fini(struct client *c)
{
	disconnect_all(c);
	rmw_fini(&c->rmw);
	check_fini(&c->check);
	series_recorder_fini(&c->series);
	free(c->marks);
	result_latencies_destroy(c->latency);
	free((void *)c->ipc);
}

uint64_t client_ops(const struct client *c)
{
	return workload_share(c->node->o->ops, c->stream.client,
		c->node->ranks * c->node->o->clients);
}

/* ---- one turn of the loop ---- */

/*
 * The time at which operation i is due: now in a closed loop and in the audit; with --rate the
 * clients of the job take turns.
 */
static uint64_t due_ns(const struct client *c, uint64_t i)
{
	const struct options *o = c->node->o;
	uint64_t turn;

	if (!(o->rate > 0) || c->check.auditing)
		return c->now_ns;
	turn = i * c->node->ranks * o->clients + c->stream.client;
	return c->start_ns + (uint64_t)((double)turn * (double)NSEC_PER_SEC / o->rate);
}

/* Sends the swaps that wait. 0 or -errno; -EAGAIN: there is no room now. */
static int send_swaps(struct client *c)
{
	struct kv_req req;
	struct op op;
	int err = 0;

	while (!err && rmw_again(&c->rmw, &op, &req)) {
		err = ways_send(c, &op, &req);
		if (!err)
			rmw_again_sent(&c->rmw);
		c->check.n.put_off += err == -EAGAIN;
	}
	return err;
}

/*
 * Requests with large values may overtake each other. True: the request, a get or a put, must not
 * be sent yet. Swaps need no such check: a swap that fails because of the order is tried again.
 */
ALWAYS_INLINE bool may_cross(const struct client *c, const struct kv_req *req)
{
	return unlikely(c->node->values) && check_crosses(&c->check, req);
}

/*
 * Sends operations from *next on, until the depth or @last is reached, the next operation is not
 * due, or there is no room. 0 or -errno. The callers pass a constant as @rmw.
 */
ALWAYS_INLINE int refill(struct client *c, uint64_t *next, uint64_t last, bool rmw)
{
	uint32_t depth = c->node->o->queue_depth;

	while (*next < last && check_open_count(&c->check) < depth) {
		uint64_t due = due_ns(c, *next);
		const struct op *op;
		struct kv_req req;
		int err;

		if (due > c->now_ns)
			return 0;
		op = rmw ? rmw_open(&c->rmw, *next, c->now_ns, &req) :
			   check_open(&c->check, *next, c->now_ns, &req);
		err = !rmw && may_cross(c, &req) ? -EAGAIN : ways_send(c, op, &req);
		if (err) {
			check_cancel(&c->check, &req);
			return err == -EAGAIN ? 0 : err;
		}
		c->marks[req.seq & c->check.slot_mask] = (struct mark){.due_ns = due,
			.kind = (op->rank == c->node->rank ? 0 : RESULT_REMOTE) |
				((rmw ? op->put : req.type == KV_PUT) ? RESULT_PUT : 0)};
		check_sent(&c->check, &req);
		(*next)++;
	}
	return 0;
}

/* Sends the waiting swaps, then operations as refill() does. */
static int refill_rmw(struct client *c, uint64_t *next, uint64_t last)
{
	int err = send_swaps(c);

	if (err)
		return err == -EAGAIN ? 0 : err;
	return refill(c, next, last, true);
}

/*
 * Sleeps for SLEEP_NS or, if operation `next` is due earlier, for half of the time until then; only
 * yields if that time is short. If replies can come on only one path, a reply there ends the sleep.
 * With several paths, or if the path wakes no client, the sleep is short, and the caller polls
 * again.
 */
static void rest(struct client *c, uint64_t next)
{
	uint32_t ways = ways_awaited(c);
	uint64_t now = clock_ns(), due = due_ns(c, next);
	bool open = check_open_count(&c->check) < c->node->o->queue_depth && due > c->now_ns;
	uint64_t idle = !open ? SLEEP_NS : due > now ? due - now : 0;
	uint64_t sleep_ns = idle < SLEEP_NS ? idle / 2 : SLEEP_NS;

	if (idle < 2 * c->node->nap_ns)
		sched_yield();
	else if (ways != 1 || !ways_wait(c, sleep_ns))
		clock_nap(ways || !open ? c->node->nap_ns : sleep_ns);
}

/* Counts the operations from @next on that were due before the end but were not made. */
static uint64_t count_missed(const struct client *c, uint64_t next, uint64_t end_ns)
{
	const struct options *o = c->node->o;
	double turns = (double)(end_ns - c->start_ns) * o->rate / (double)NSEC_PER_SEC;
	double due = ceil((turns - c->stream.client) / (c->node->ranks * o->clients));

	return o->rate > 0 && due > (double)next ? (uint64_t)due - next : 0;
}

/*
 * Makes operations until the last one or the end of the time and waits for the replies. Also ends
 * if no reply has come for the time-out. 0 or -errno; *next_p: the number of operations made.
 */
ALWAYS_INLINE int turns(struct client *c, uint64_t last, uint64_t end_ns, uint64_t *next_p,
	bool rmw)
{
	struct wait w = WAIT_INIT;
	uint64_t seen_ns = c->now_ns;

	while (!stop_requested()) {
		int err, n;

		c->now_ns = clock_ns(); /* for the replies and the requests of this turn */
		n = ways_take(c);
		if (c->now_ns >= end_ns && last > *next_p) {
			c->missed = count_missed(c, *next_p, end_ns);
			last = *next_p;
		}
		if (n < 0)
			return n;
		err = rmw ? refill_rmw(c, next_p, last) : refill(c, next_p, last, false);
		if (err)
			return err;
		if (!check_open_count(&c->check) && *next_p >= last)
			return 0;
		if (n || !check_open_count(&c->check))
			seen_ns = c->now_ns;
		if (n) {
			/* Relaxed: no other data depends on it, see node_done(). */
			atomic_store_explicit(&c->done, c->check.n.verified, memory_order_relaxed);
			wait_reset(&w);
		} else if (c->now_ns - seen_ns > c->node->o->timeout_ns) {
			return 0; /* open requests count as lost */
		} else if (wait_step(&w)) {
			rest(c, *next_p);
		}
	}
	return -EINTR;
}

static int work(struct client *c, uint64_t last, uint64_t end_ns, uint64_t *next_p)
{
	return c->node->o->load.rmw ? turns(c, last, end_ns, next_p, true) :
				      turns(c, last, end_ns, next_p, false);
}

/* Sets the thread's name, which top(1) shows, to the client's number and the run. */
static void show_run(const struct client *c, uint32_t run)
{
	char name[24]; /* the kernel keeps 15 characters */

	if (run < c->node->o->runs)
		snprintf(name, sizeof(name), "client%u/%u", c->index, run);
	else
		snprintf(name, sizeof(name), "client%u/audit", c->index);
	name[15] = 0;
	pthread_setname_np(pthread_self(), name);
}

static void run_once(struct client *c, uint32_t run)
{
	const struct options *o = c->node->o;
	uint64_t n = 0, end;

	for (int i = 0; i < RESULT_LATENCIES; i++)
		latrec_hist_clear(c->latency[i]);
	c->excluded = c->missed = 0;
	check_restart(&c->check, run);
	rmw_restart(&c->rmw);
	c->now_ns = c->start_ns = clock_ns();
	c->measured_ns = c->start_ns + o->warmup_ns;
	series_restart(&c->series, c->measured_ns);
	c->error = work(c, o->ops ? client_ops(c) : UINT64_MAX,
		o->ops ? UINT64_MAX : c->measured_ns + o->duration_ns, &n);
	check_finish(&c->check, c->error);
	end = clock_ns();
	c->elapsed_ns = end > c->measured_ns ? end - c->measured_ns : 0;
	if (n > c->made->most)
		c->made->most = n;
	c->made->last = n;
	c->made->doubtful = c->check.doubtful;
}

/*
 * Reads the keys of the audit. Without read-modify-writes also counts them, by puts_count(). Must
 * be called after the last run, when no client of any rank makes puts.
 */
static void audit(struct client *c)
{
	struct checker *check = &c->check;
	const struct history_made *made = c->node->made;
	bool rmw = c->node->o->load.rmw;
	uint64_t n = 0;
	int err = 0;

	c->start_ns = c->now_ns = c->measured_ns = clock_ns();
	if (rmw) {
		rmw_audit(&c->rmw);
		c->keys_put = check->n_due;
	} else {
		err = check_audit(check, c->node->o->runs, made);
	}
	if (!err)
		err = work(c, check->n_due, UINT64_MAX, &n);
	check_finish(check, err);
	if (!err && !rmw)
		err = puts_count(&c->node->source, check->next,
			check_window(made[check->next].last), made[check->next].last, &c->keys_put);
	c->error = err;
	c->elapsed_ns = clock_ns() - c->start_ns;
}

void *client_main(void *arg)
{
	struct client *c = arg;

	topo_pin_self(c->node->topo, c->node->o->daemons + c->index);
	if (c->remote && c->remote->greet)
		c->error = c->remote->greet(c);
	for (uint32_t run = 0; gate_pass(&c->node->gate, run, c->error); run++) {
		show_run(c, run);
		if (run < c->node->o->runs)
			run_once(c, run);
		else
			audit(c);
	}
	return NULL;
}
