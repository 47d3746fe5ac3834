/* SPDX-License-Identifier: MIT */
/*
 * With --wait event an idle daemon sleeps on the descriptors of all objects that it polls, until
 * one of them is readable.
 */
#ifndef BENCHKV_SLEEPER_H
#define BENCHKV_SLEEPER_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#define SLEEPER_MAX 5 /* shmipc, delegrpc, copyrpc, and two of flux */

struct daemon;

struct sleeper {
	struct pollfd fd[SLEEPER_MAX];
	nfds_t n; /* 0: not with --wait event */
	bool timed_out; /* the last sleep ended by its time-out, and no calls were held back */
};

/* Must be called when the daemon has all its objects, before its thread starts. 0 or -errno. */
int sleeper_init(struct sleeper *s, struct daemon *d);

/*
 * Must be called after a loop without messages: sleeps until a message may have come, but not for
 * ever.
 */
void sleeper_sleep(struct sleeper *s, struct daemon *d);

/*
 * Must be called if timed_out is set, after the loop that followed the sleep and handled n
 * messages. Returns true if a message should have ended the sleep: if messages came, but no
 * descriptor is readable even now.
 */
bool sleeper_overslept(struct sleeper *s, uint32_t n);

#endif
