/* SPDX-License-Identifier: MIT */
/* The loop of a daemon, and its sleeps. */
#include "daemon.h"

#include "base/clock.h"
#include "base/wait.h"
#include "phases.h"

#define SLEEP_NS (10 * NSEC_PER_MSEC) /* longest sleep before the stop flag is read */

/* Runs the phases. If @at_ns is not NULL, writes the time at which each one begins. */
static uint32_t run_phases(struct daemon *d, uint64_t *at_ns)
{
	uint32_t n = 0;

	for (size_t i = 0; i < TRACE_PHASES; i++) {
		const struct phase *p = &phases[i];

		if (!d->sees_ranks && !p->alone)
			continue;
		if (unlikely(at_ns))
			at_ns[p->name] = clock_ns();
		n += p->run(d);
	}
	return n;
}

/* ---- the loop ---- */

static uint32_t run_traced(struct daemon *d)
{
	const struct adaptive *a = &d->net.control.adaptive;
	uint64_t cqes = network_completions(&d->net);
	struct trace_sample s = {.time_ns = clock_ns()};
	uint32_t n = run_phases(d, s.phase_ns);

	s.loop_ns = clock_ns() - s.time_ns;
	s.outstanding = d->errands.free.used;
	s.waiting = d->errands.n_waiting;
	s.held = network_held(d);
	s.cqes = (uint32_t)(network_completions(&d->net) - cqes);
	s.messages = d->net.polls.messages;
	s.polls = d->net.polls.polls;
	s.u = a->u;
	s.e = (float)a->e_ema;
	s.rtt_us = (float)a->rtt_ema_us;
	s.rho = (float)adaptive_rho(a);
	s.unconsumed = d->net.ctx ? network_unconsumed(d) : 0;
	trace_add(&d->trace, &s);
	return n;
}

/* Runs a loop and times its phases. */
static uint32_t run_sampled(struct daemon *d)
{
	uint64_t at_ns[TRACE_PHASES] = {0}, end;
	uint32_t n = run_phases(d, at_ns);

	if (!n)
		return 0;
	end = clock_ns();
	d->stats.phase_loops++;
	for (int i = TRACE_PHASES - 1; i >= 0; i--) {
		if (at_ns[i]) { /* not every daemon has every phase */
			d->stats.phase_ns[i] += end - at_ns[i];
			end = at_ns[i];
		}
	}
	return n;
}

static uint32_t run_loop(struct daemon *d)
{
	uint32_t n;

	if (control_observes(&d->net.control))
		d->net.loop_ns = clock_ns();
	if (unlikely(d->net.control.log))
		d->decisions.now_ns = clock_ns();
	if (d->trace.samples && trace_due(&d->trace, clock_ns()))
		n = run_traced(d);
	else if (unlikely(d->stats.loops % PHASE_SAMPLE == 0))
		n = run_sampled(d);
	else
		n = run_phases(d, NULL);
	network_observe(d);
	return n;
}

/* Must be called after each loop, which handled @n messages. Sleeps after some idle loops. */
static void rest(struct daemon *d, uint32_t n, struct wait *w)
{
	d->stats.loops++;
	if (unlikely(d->sleeper.timed_out))
		d->stats.overslept += sleeper_overslept(&d->sleeper, n);
	if (n) {
		wait_reset(w);
		return;
	}
	d->stats.idle_loops++;
	if (!wait_step(w))
		return;
	d->stats.sleeps++;
	if (d->sleeper.n) {
		sleeper_sleep(&d->sleeper, d);
		return;
	}
	if (!d->flux && !d->sees_ranks)
		shmipc_server_wait(d->ipc, SLEEP_NS); /* is woken by a request */
	else
		clock_nap(d->node->nap_ns); /* no single wait covers all sources of messages */
}

void *daemon_main(void *arg)
{
	struct daemon *d = arg;
	struct wait w = WAIT_INIT;

	topo_pin_self(d->node->topo, d->index);
	/* Relaxed: the flag publishes no other data; pthread_join() orders later accesses. */
	while (!atomic_load_explicit(&d->node->stop_daemons, memory_order_relaxed))
		rest(d, run_loop(d), &w);
	return NULL;
}
