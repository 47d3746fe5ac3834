/* SPDX-License-Identifier: MIT */
#include "stop.h"

#include <unistd.h>

#include "base/clock.h"

#define ECHO_NS (250 * NSEC_PER_MSEC) /* a signal this soon after the first does not count */
#define TEARDOWN_MAX_S 5 /* maximum time until the program exits after a signal or a failure */

atomic_int stop_signal;

/* Returns true if the flag was not raised before. */
static bool raise_flag(int sig)
{
	int none = 0;

	/* Relaxed, pairs with stop_requested(). */
	return atomic_compare_exchange_strong_explicit(&stop_signal, &none, sig,
		memory_order_relaxed, memory_order_relaxed);
}

void stop_raise(int sig)
{
	if (raise_flag(sig))
		alarm(TEARDOWN_MAX_S);
}

/*
 * One Ctrl-C can arrive several times, because the launcher signals the process group, and
 * softhca-run(1) passes the signal on.
 */
bool stop_note(int sig)
{
	static atomic_ullong first_ns;
	unsigned long long now = clock_ns(), first = 0;

	raise_flag(sig);
	/* Relaxed: only this handler uses first_ns. */
	return !atomic_compare_exchange_strong_explicit(&first_ns, &first, now,
		       memory_order_relaxed, memory_order_relaxed) &&
	       now - first > ECHO_NS;
}

static void on_signal(int sig)
{
	stop_raise(sig);
	if (stop_note(sig))
		_exit(128 + sig);
}

static int guard_status;

static void on_alarm(int sig)
{
	_exit(guard_status);
}

void stop_guard(int status)
{
	struct sigaction sa = {.sa_handler = on_alarm};

	guard_status = status;
	sigaction(SIGALRM, &sa, NULL);
	alarm(TEARDOWN_MAX_S);
}

void stop_catch(void (*handler)(int))
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction sa = {.sa_handler = handler};

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaddset(&sa.sa_mask, signals[i]);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaction(signals[i], &sa, NULL);
}

void stop_catch_signals(void)
{
	stop_catch(on_signal);
	signal(SIGPIPE, SIG_IGN);
}
