/* SPDX-License-Identifier: MIT */
/*
 * Ends a job early, on a signal such as Ctrl-C or because it cannot go on. A flag is raised, which
 * every loop reads, and the program ends as it does after a run: it reports what was measured, and
 * each part takes down what it made.
 */
#ifndef BENCHKV_STOP_H
#define BENCHKV_STOP_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

extern atomic_int stop_signal;

#define STOP_FAILED 128 /* of stop_signal, and no signal: this job cannot go on */

/*
 * SIGINT, SIGTERM and SIGHUP raise the flag; a second one, a quarter of a second or more later,
 * ends the program at once. SIGPIPE is ignored, because the reader of our output may end before us.
 */
void stop_catch_signals(void);

/*
 * Raises the flag as that signal does, or with STOP_FAILED, from any thread; nothing if it is
 * raised already.
 */
void stop_raise(int sig);

/* From now on the program may take some seconds to end; then it ends with this status. */
void stop_guard(int status);

static inline bool stop_requested(void)
{
	/* Relaxed: nothing but the number itself passes from the handler to the loops. */
	return atomic_load_explicit(&stop_signal, memory_order_relaxed) != 0;
}

/* The signal that told the program to stop; 0: none has. */
static inline int stop_told(void)
{
	/* Relaxed: as in stop_requested(). */
	int sig = atomic_load_explicit(&stop_signal, memory_order_relaxed);

	return sig == STOP_FAILED ? 0 : sig;
}

#endif
