/* SPDX-License-Identifier: MIT */
/* The sleep of the engine's thread: the descriptors that end it, and wake-ups by other threads. */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "engine.h"

void loop_wake(struct tent *t, uint64_t until)
{
	if (t->sleeps_until > until && eventfd_write(t->kick, 1))
		abort(); /* write() fails only on overflow */
}

void loop_help(struct tent *t)
{
	if (t->progress(t, clock_ns(), true))
		loop_wake(t, 0);
}

void loop_watch(struct tent *t, int fd)
{
	struct epoll_event e = {.events = EPOLLIN};

	/*
	 * If epoll_ctl() fails with -ENOMEM, the thread handles events of @fd when it wakes up
	 * later.
	 */
	epoll_ctl(t->epoll, EPOLL_CTL_ADD, fd, &e);
}

void loop_unwatch(struct tent *t, int fd)
{
	epoll_ctl(t->epoll, EPOLL_CTL_DEL, fd, NULL);
}

void loop_watch_link(struct tent *t, const struct link *l)
{
	for (int i = 0; i < 2; i++) {
		if (l->fds[i] >= 0)
			loop_watch(t, l->fds[i]);
	}
}

void loop_close_link(struct tent *t, struct link **l)
{
	for (int i = 0; i < 2 && *l; i++) {
		if ((*l)->fds[i] >= 0)
			loop_unwatch(t, (*l)->fds[i]);
	}
	if (*l)
		(*l)->ops->destroy(*l);
	*l = NULL;
}

void loop_sleep(struct tent *t, uint64_t until)
{
	uint64_t now = clock_ns(), count;
	struct epoll_event events[16];
	struct timespec ts, *timeout = NULL;
	int n;

	if (until != SCHED_NEVER) {
		ts = clock_timespec(until > now ? until - now : 0);
		timeout = &ts;
	}
	t->sleeps_until = until;
	live_wait(t->live, now);
	pthread_mutex_unlock(&t->lock);
	n = epoll_pwait2(t->epoll, events, 16, timeout, NULL);
	pthread_mutex_lock(&t->lock);
	t->sleeps_until = 0;
	live_wake(t->live);
	if (n > 0 && eventfd_read(t->kick, &count) && errno != EAGAIN)
		abort(); /* read() fails only if the counter is 0 */
}
