/* SPDX-License-Identifier: MIT */
/* The loop of both sides, and their exchange of results at the end. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "base/wait.h"
#include "side.h"

/* Rounds of a busy loop between two checks of the connections, which are system calls. */
#define LOOK_ROUNDS 64
#define LOOK_ROUNDS_PINGPONG 4096 /* so many that most round trips contain no check */
#define SILENCE_NS (200 * NSEC_PER_MSEC) /* if nothing arrives for so long, the rest is lost */
#define SLEEP_MS 1

static uint8_t body[WIRE_BODY_MAX];
static struct wire_tally tally; /* the message that is being sent; too large for the stack */

static void lose_peer(struct peer *p, const char *why)
{
	p->gone = true;
	side_event(p->side, "peer %s: %s", p->conn.peer, why);
}

static void send_tally(struct peer *p, enum wire_kind kind)
{
	size_t len = wire_put_tally(body, sizeof(body), &tally);
	int err = wire_send(&p->conn, kind, body, len, p->side->timeout_ns);

	if (err)
		lose_peer(p, wire_error(err));
}

static void send_done(struct peer *p)
{
	const struct side *s = p->side;

	tally = (struct wire_tally){.messages = p->messages,
		.bytes = p->bytes,
		.elapsed_ns = p->last_ns > s->start_ns ? p->last_ns - s->start_ns : 0,
		.mismatches = p->mismatches + p->wrong_results,
		.errors = p->errors,
		.first_error = p->first_error,
		.qps = s->t.qps};
	for (uint32_t i = 0; i < s->t.qps; i++)
		tally.posted[i] = p->flows[i].completed;
	p->sent_done = true;
	send_tally(p, WIRE_DONE);
}

/* Counts lost messages. With t.check on RC also compares the memory, unless a QP has failed: then
 * it is not known which of the outstanding requests have arrived. */
static void verify(struct peer *p)
{
	struct side *s = p->side;
	bool reliable = s->t.type == MLX5DVL_RC && !p->theirs.errors && !p->errors;

	for (uint32_t i = 0; i < s->t.qps; i++) {
		struct flow *f = &p->flows[i];
		uint64_t wanted = pattern_receives(&s->t.pattern, p->theirs.posted[i]);

		s->lost += wanted > f->next_number && s->t.check ? wanted - f->next_number : 0;
		s->lost += wanted > f->received && !s->t.check ? wanted - f->received : 0;
		if (s->t.check && reliable)
			p->mismatches += flow_verify(f, p->theirs.posted[i]);
	}
}

static void send_result(struct peer *p)
{
	struct side *s = p->side;
	uint64_t before = p->mismatches;

	verify(p);
	s->mismatches += p->mismatches - before;
	tally = (struct wire_tally){.mismatches = p->mismatches,
		.errors = p->errors,
		.first_error = p->first_error};
	for (uint32_t i = 0; i < s->t.qps; i++) {
		tally.messages += p->flows[i].received;
		tally.bytes += p->flows[i].received_bytes;
	}
	p->sent_result = true;
	send_tally(p, WIRE_RESULT);
}

/*
 * Returns true if all requests that the peer's DONE reports and that consume a receive have
 * arrived, or if nothing has arrived for SILENCE_NS.
 */
static bool is_drained(struct peer *p, uint64_t now_ns)
{
	const struct side *s = p->side;
	uint64_t received = 0, wanted = 0;

	for (uint32_t i = 0; i < s->t.qps; i++) {
		received += p->flows[i].received;
		wanted += pattern_receives(&s->t.pattern, p->theirs.posted[i]);
	}
	if (received >= wanted)
		return true;
	if (received != p->recv_seen) {
		p->recv_seen = received;
		p->last_recv_ns = now_ns;
	}
	return now_ns - p->last_recv_ns > SILENCE_NS;
}

static void take_message(struct peer *p, int kind, struct wire_buf *b, uint64_t now_ns)
{
	const struct side *s = p->side;

	if (kind == WIRE_DONE && !p->got_done && !wire_get_tally(b, s->t.qps, &p->theirs)) {
		p->got_done = true;
		p->last_recv_ns = now_ns;
		p->done_ns = latrec_clock_now(&s->clock);
	} else if (kind == WIRE_RESULT && p->sent_done && !p->got_result &&
		   !wire_get_tally(b, 0, &p->result)) {
		p->got_result = true;
	} else if (kind != WIRE_ALIVE) {
		lose_peer(p, wire_error(-EBADMSG));
	}
}

static bool is_over(const struct peer *p)
{
	return p->gone || (p->sent_done && p->got_done && p->sent_result && p->got_result);
}

/*
 * Reads from a connection once, and sends the message that is due. @done: all own requests have
 * completed.
 */
static void tend_peer(struct peer *p, bool done, uint64_t now_ns)
{
	const struct side *s = p->side;
	struct wire_buf b;
	int kind, err;

	if (is_over(p))
		return;
	kind = wire_poll(&p->conn, s->timeout_ns, &b);
	if (kind < 0) {
		lose_peer(p, wire_error(kind));
		return;
	}
	if (kind) {
		now_ns = clock_ns(); /* the message may have come after the caller read the clock */
		take_message(p, kind, &b, now_ns);
	}
	err = p->gone ? 0 : wire_alive(&p->conn, now_ns, s->timeout_ns);
	if (err)
		lose_peer(p, wire_error(err));
	if (!p->gone && done && !p->sent_done)
		send_done(p);
	if (!p->gone && p->got_done && !p->sent_result && is_drained(p, now_ns))
		send_result(p);
}

/* Reads the asynchronous events of the device. */
static void tend_device(struct side *s)
{
	static const char *const texts[] = {[MLX5DVL_EVENT_PORT_DOWN] = "the port is down",
		[MLX5DVL_EVENT_PORT_UP] = "the port is up",
		[MLX5DVL_EVENT_FATAL] = "the device is lost",
		[MLX5DVL_EVENT_OTHER] = "an asynchronous event of the device"};
	enum mlx5dvl_event event = mlx5dvl_ctx_event(s->ctx);

	if (event == MLX5DVL_EVENT_NONE)
		return;
	side_event(s, "%s", texts[event < MLX5DVL_EVENT_OTHER ? event : MLX5DVL_EVENT_OTHER]);
	for (uint32_t i = 0; i < s->n_peers && event == MLX5DVL_EVENT_FATAL; i++)
		s->peers[i]->gone = true;
}

/* Renews the bounds of the device's clock; reports a failure once. */
static void tend_hwclock(struct side *s)
{
	uint64_t jumps = s->hw.b.jumps;
	int err = hwclock_tend(&s->hw, latrec_clock_now(&s->clock));

	if (err && !s->hw_failed)
		side_event(s, "--hw-ts: the device's clock cannot be read: %s", strerror(-err));
	if (!jumps && s->hw.b.jumps)
		side_event(s, "--hw-ts: the device's clock has jumped");
	s->hw_failed = s->hw_failed || err;
}

static bool tend_peers(struct side *s, bool done)
{
	uint64_t now = clock_ns();
	bool over = true;

	tend_device(s);
	if (s->hw_ts && s->sends && !s->hw_failed)
		tend_hwclock(s);
	for (uint32_t i = 0; i < s->n_peers; i++) {
		tend_peer(s->peers[i], done, now);
		over = over && is_over(s->peers[i]);
	}
	return over;
}

/*
 * Arms a queue, unless it is still armed. A queue that has fired is armed again after its event has
 * been read.
 */
static void arm_queue(struct side *s, struct mlx5dvl_cq *cq, struct armed *a)
{
	if (a->fired && mlx5dvl_cq_event(cq)) {
		s->wakeups++;
		a->armed = false;
	}
	if (!a->armed)
		mlx5dvl_cq_arm(cq);
	*a = (struct armed){.armed = true};
}

/*
 * Arms the queues. Returns true if they are empty, so that the next completion causes an event. In
 * a ping-pong, a side reads one event for its send and one for the answer, as ibv_rc_pingpong does.
 */
static bool arm_queues(struct side *s)
{
	if (!s->by_event)
		arm_queue(s, s->scq, &s->armed[0]);
	arm_queue(s, s->rcq, &s->armed[1]);
	return (s->by_event || !mlx5dvl_cq_ready(s->scq)) && !mlx5dvl_cq_ready(s->rcq);
}

/*
 * Polls the send CQ. With by_event (one request at a time) arms the queue, and polls only after the
 * event, even if the completion is there already. So each latency includes the arming and the wait,
 * as in perftest.
 */
static uint32_t poll_sent(struct side *s)
{
	struct armed *a = &s->armed[0];

	if (s->by_event && !s->overslept) {
		if (!a->armed)
			mlx5dvl_cq_arm(s->scq);
		a->armed = !mlx5dvl_cq_event(s->scq);
		if (a->armed)
			return 0;
		s->wakeups++;
	}
	s->overslept = false;
	return (uint32_t)mlx5dvl_send_poll(s->scq, 64, flow_on_sent, s);
}

/*
 * Sleeps until a message arrives on a connection, or with t.sleeps until a completion, but at most
 * for a millisecond. Returns true if the connections may have messages.
 */
static bool sleep_on(struct side *s)
{
	struct pollfd p[SIDE_PEERS_MAX + 2];
	nfds_t n = 0;
	int ready;

	if (s->t.sleeps && !arm_queues(s))
		return false;
	if (s->t.sleeps) {
		p[n++] = (struct pollfd){.fd = mlx5dvl_cq_fd(s->scq), .events = POLLIN};
		p[n++] = (struct pollfd){.fd = mlx5dvl_cq_fd(s->rcq), .events = POLLIN};
	}
	for (uint32_t i = 0; i < s->n_peers; i++)
		p[n++] = (struct pollfd){.fd = is_over(s->peers[i]) ? -1 : s->peers[i]->conn.fd,
			.events = POLLIN};
	ready = poll(p, n, SLEEP_MS);
	s->overslept = !ready;
	for (int i = 0; i < 2 && s->t.sleeps && ready > 0; i++) {
		s->armed[i].fired = p[i].revents;
		ready -= p[i].revents != 0;
	}
	return ready || !s->t.sleeps || !(s->armed[0].fired || s->armed[1].fired);
}

/*
 * Posts at most one batch per flow. The caller then polls both CQs, so that completions do not
 * wait, which would increase the latency. Sets *done_p if nothing is left to send, and nothing is
 * outstanding.
 */
static uint32_t send_all(struct side *s, bool *done_p)
{
	uint64_t now = latrec_clock_now(&s->clock);
	uint32_t progress = 0;
	bool done = true;

	for (uint32_t p = 0; p < s->n_peers; p++) {
		for (uint32_t i = 0; i < s->t.qps; i++) {
			struct flow *f = &s->peers[p]->flows[i];

			if (f->peer->gone || flow_is_done(f, now))
				continue;
			progress += flow_send(f, now);
			done = false;
		}
	}
	*done_p = done;
	return progress;
}

static void count_overdue(struct side *s)
{
	for (uint32_t p = 0; p < s->n_peers && s->sends; p++) {
		for (uint32_t i = 0; i < s->t.qps; i++)
			s->overdue += flow_overdue(&s->peers[p]->flows[i]);
	}
}

void side_run(struct side *s)
{
	struct wait w = WAIT_INIT;
	bool done = false, over = false, heard = true;
	uint32_t round = 0, look = s->t.pingpong ? LOOK_ROUNDS_PINGPONG : LOOK_ROUNDS;

	s->by_event = s->t.sleeps && s->sends && !s->t.pingpong && s->t.depth == 1;
	s->start_ns = s->interval_ns = s->last_ns = latrec_clock_now(&s->clock);
	while (!over) {
		uint32_t progress = done ? 0 : send_all(s, &done);

		if (!done)
			control_tend(&s->control, &s->clock);
		progress += poll_sent(s);
		progress +=
			(uint32_t)mlx5dvl_mono_poll(s->rcq, (int)s->t.recv_batch, flow_on_recv, s);
		mlx5dvl_srq_refill(s->srq);
		if (progress)
			wait_reset(&w);
		if (++round % look && (progress || (!done && !s->t.sleeps)))
			continue;
		/*
		 * If a completion has ended a sleep, the connections are checked only every `look`
		 * rounds.
		 */
		if (heard || done || !(round % look))
			over = tend_peers(s, done);
		if (!progress && (s->t.sleeps || wait_step(&w))) {
			if (done || s->t.sleeps)
				heard = sleep_on(s);
			else
				sched_yield();
		}
	}
	side_take_injected(s);
	count_overdue(s);
}
