/* SPDX-License-Identifier: MIT */
/*
 * Ctrl-C and its like: the signals only raise a flag, every loop looks at it, and the
 * program leaves by the way that it takes at the end of a run, so that what it made is
 * taken down by whoever made it.
 */
#ifndef BENCHKV_STOP_H
#define BENCHKV_STOP_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

extern atomic_int stop_signal;

/*
 * SIGINT, SIGTERM and SIGHUP raise the flag; a second one ends the program at once. SIGPIPE is
 * ignored: who reads what we write may end before us.
 */
void stop_catch_signals(void);

/* Raises the flag as that signal does, from any thread; nothing if it is raised already. */
void stop_raise(int sig);

/* From now on the program may take some seconds to end; then it ends with this status. */
void stop_guard(int status);

static inline bool stop_requested(void)
{
	/* Relaxed: nothing but the number itself passes from the handler to the loops. */
	return atomic_load_explicit(&stop_signal, memory_order_relaxed) != 0;
}

#endif
