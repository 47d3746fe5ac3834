/* SPDX-License-Identifier: MIT */
/*
 * Ends a job early, because of a signal such as Ctrl-C or because the job cannot continue. Every
 * loop reads a flag. When the flag is raised, the program ends as after its last run: it reports
 * the measurements, and each part destroys the objects that it made.
 */
#ifndef BENCHKV_STOP_H
#define BENCHKV_STOP_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

extern atomic_int stop_signal;

#define STOP_FAILED 128 /* value of stop_signal without a signal: the job cannot continue */

/*
 * After this call SIGINT, SIGTERM and SIGHUP raise the flag. A second signal, a quarter of a second
 * or more later, ends the program immediately. SIGPIPE is ignored, because the reader of the output
 * may end before this program.
 */
void stop_catch_signals(void);

/* Sets another handler for these three signals. */
void stop_catch(void (*handler)(int));

/* For such a handler: raises the flag. Returns true for a second signal, as defined above. */
bool stop_note(int sig);

/*
 * Raises the flag with a signal's number or STOP_FAILED. If the program still runs 5 s later,
 * SIGALRM ends it. Has no effect if the flag is raised already. Any thread may call it.
 */
void stop_raise(int sig);

/*
 * Makes sure that the program ends: if it still runs after some seconds, it exits with this status.
 */
void stop_guard(int status);

static inline bool stop_requested(void)
{
	/* Relaxed: the handler passes only the number to the loops. */
	return atomic_load_explicit(&stop_signal, memory_order_relaxed) != 0;
}

/* The signal that has raised the flag; 0: none. */
static inline int stop_told(void)
{
	/* Relaxed, for the same reason as in stop_requested(). */
	int sig = atomic_load_explicit(&stop_signal, memory_order_relaxed);

	return sig == STOP_FAILED ? 0 : sig;
}

#endif
