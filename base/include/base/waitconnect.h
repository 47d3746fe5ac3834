/* SPDX-License-Identifier: MIT */
/*
 * The functions with which a client of delegrpc or shmipc connects within a time limit, and again
 * after the end of its server. The layer's source file that connects clients includes this file.
 * Before, it defines
 *
 *	struct client		with a struct waiter w, and hot
 *	WAITER_ATTR		the name of its struct of attributes
 *	live_client		the type of its clients, see base/live.h
 *	connect_once(name, want, c_p)	connects, or returns -errno
 *	client_leave(c)		gives the client's place back, unless this is done or the process is
 *				a forked child, whose parent keeps the place
 *	client_sizes(c)		returns the attributes with which to connect again
 *	client_replace(c, fresh)	takes everything of the other client but its waiter
 *	client_free(c)		frees what the process has of the client
 */
#ifndef BASE_WAITCONNECT_H
#define BASE_WAITCONNECT_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/live.h"
#include "base/waiter.h"

/* Connects, and tries again until timeout_ns nanoseconds have passed. */
static int connect_within(const char *name, const struct WAITER_ATTR *want, uint64_t timeout_ns,
	struct client **c_p)
{
	struct waiter_deadline d = waiter_deadline(timeout_ns);
	uint64_t nap = 0;
	int err;

	do
		err = connect_once(name, want, c_p);
	while (waiter_again(err, &d, &nap));
	return err;
}

/* Returns 0 and a client as its user knows it, or -errno. */
static int client_connect(const char *name, const struct WAITER_ATTR *attr,
	__typeof__(((struct client *)NULL)->hot) **client_p)
{
	struct WAITER_ATTR want;
	struct client *c;
	int err = SIZED_ATTR(&want, attr, set);

	if (!err)
		err = connect_within(name, &want, want.connect_ms * NSEC_PER_MSEC, &c);
	if (err)
		return err;
	c->w.live = live_add(&live_client, c, name);
	*client_p = &c->hot;
	return 0;
}

static void client_disconnect(struct client *c)
{
	client_leave(c);
	live_remove(c->w.live);
	wakefd_close(&c->w.wake);
	shm_close(&c->w.region);
	client_free(c);
}

/* @pending: calls have not ended. */
static int client_reconnect(struct client *c, bool pending, uint64_t timeout_ns)
{
	struct client *fresh;
	struct WAITER_ATTR want;
	int err;

	if (c->w.region.fd < 0 && !c->w.left) /* a forked child */
		return -EBADF;
	if (!c->w.err || pending)
		return -EBUSY;
	client_leave(c);
	want = client_sizes(c);
	err = connect_within(strchr(c->w.region.path, '.') + 1, &want, timeout_ns, &fresh);
	if (err)
		return err;
	err = waiter_keeps_fd(&c->w, &fresh->w);
	if (err) {
		client_disconnect(fresh);
		return err;
	}
	waiter_adopt(&c->w, &fresh->w);
	client_replace(c, fresh);
	free(fresh);
	return 0;
}

#endif
