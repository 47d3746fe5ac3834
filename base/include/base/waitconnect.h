/* SPDX-License-Identifier: MIT */
/*
 * The functions with which a client of delegrpc or shmipc connects within a time limit, and again
 * after the end of its server. The layer's source file that connects clients includes this file.
 * Before the #include, it defines WAITER_LAYER, the name of the layer, and
 *
 *	struct client		with struct waiter w, struct LAYER(layout) layout, and struct
 *				LAYER(client) hot, to which the program has a pointer
 *	client_of(client)	the struct client of a LAYER(client)
 *	PREFIX			the prefix of regions' names, see base/shm.h. A region begins with a
 *				struct LAYER(header)
 *	live_client		the struct live_type of clients, see base/live.h
 *	client_init(c, want)	does the part of connect that comes after the region is mapped.
 *				Returns 0; or -errno, and the client has no place in the region
 *	place_leave(c)		frees the client's place in the region. Called while the client
 *				holds the lock on its byte, see base/shm.h
 *	client_busy(c)		true if calls have not ended
 *	client_replace(c, fresh)	moves everything but the waiter from the client fresh to c
 *	client_free(c)		frees the client's memory in this process
 */
#ifndef BASE_WAITCONNECT_H
#define BASE_WAITCONNECT_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/lines.h"
#include "base/live.h"
#include "base/waitattr.h"

static int connect_once(const char *name, const struct LAYER(attr) * want, struct client **c_p)
{
	struct client *c = calloc_lines(1, sizeof(*c));
	struct shm_access access;
	int err;

	if (!c)
		return -ENOMEM;
	c->w.wake = WAKEFD_NONE;
	err = shm_access_init(&access, want->mode, want->gid, want->set);
	if (!err)
		err = shm_attach_for(PREFIX, name, sizeof(struct LAYER(header)), &access,
			&c->w.region);
	if (err)
		goto free_client;
	err = client_init(c, want);
	if (err)
		goto close_region;
	*c_p = c;
	return 0;

close_region:
	wakefd_close(&c->w.wake);
	shm_close(&c->w.region);
free_client:
	client_free(c);
	return err;
}

/* Connects. After an error that may pass, tries again until timeout_ns nanoseconds have passed. */
static int connect_within(const char *name, const struct LAYER(attr) * want, uint64_t timeout_ns,
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

int LAYER(client_connect)(const char *name, const struct LAYER(attr) * attr,
	struct LAYER(client) * *client_p)
{
	struct LAYER(attr) want;
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

void LAYER(client_get_attr)(const struct LAYER(client) * client, struct LAYER(attr) * attr_p,
	size_t size)
{
	const struct client *c = container_of(client, struct client, hot);

	attr_out(attr_p, size, &c->layout.attr, &c->w.region);
}

/*
 * Frees the client's place. Does nothing if that has been done already, or in a forked child,
 * because the parent keeps the place.
 */
static void client_leave(struct client *c)
{
	if (c->w.region.fd < 0)
		return;
	place_leave(c);
	shm_release(&c->w.region);
	c->w.left = true;
}

void LAYER(client_disconnect)(struct LAYER(client) * client)
{
	struct client *c;

	if (!client)
		return;
	c = client_of(client);
	client_leave(c);
	live_remove(c->w.live);
	wakefd_close(&c->w.wake);
	shm_close(&c->w.region);
	client_free(c);
}

int LAYER(client_reconnect)(struct LAYER(client) * client, uint64_t timeout_ns)
{
	struct client *c = client_of(client), *fresh;
	struct LAYER(attr) want;
	int err;

	if (c->w.region.fd < 0 && !c->w.left) /* a forked child */
		return -EBADF;
	if (!c->w.err || client_busy(c))
		return -EBUSY;
	client_leave(c);
	attr_out(&want, sizeof(want), &c->layout.attr, &c->w.region);
	err = connect_within(strchr(c->w.region.path, '.') + 1, &want, timeout_ns, &fresh);
	if (err)
		return err;
	err = waiter_keeps_fd(&c->w, &fresh->w);
	if (err) {
		LAYER(client_disconnect)(&fresh->hot);
		return err;
	}
	waiter_adopt(&c->w, &fresh->w);
	client_replace(c, fresh);
	free(fresh);
	return 0;
}

#endif
