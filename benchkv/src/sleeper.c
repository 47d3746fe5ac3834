/* SPDX-License-Identifier: MIT */
#include "sleeper.h"

#include "daemon.h"

#define LOOK_MS 100 /* longest sleep before the stop flag is read */
#define HELD_MS 1 /* the same while --control or --stagger holds calls back */

static int add(struct sleeper *s, int fd)
{
	if (fd < 0)
		return fd;
	s->fd[s->n++] = (struct pollfd){.fd = fd, .events = POLLIN};
	return 0;
}

int sleeper_init(struct sleeper *s, struct daemon *d)
{
	int err = add(s, shmipc_server_fd(d->ipc));

	if (!err && d->ring)
		err = add(s, delegrpc_server_fd(d->ring));
	if (!err && d->net.ctx)
		err = add(s, copyrpc_ctx_fd(d->net.ctx));
	if (!err && d->flux)
		err = add(s, flux_fd(d->flux));
	if (!err && d->relay)
		err = add(s, flux_fd(d->relay));
	return err;
}

/* Arms all objects. True: no object has messages, so the daemon may sleep. */
static bool arm(struct daemon *d)
{
	bool idle = shmipc_server_arm(d->ipc) <= 0;

	if (d->ring)
		idle &= delegrpc_server_arm(d->ring) <= 0;
	if (d->net.ctx)
		idle &= copyrpc_ctx_arm(d->net.ctx) <= 0;
	if (d->flux)
		idle &= flux_arm(d->flux) <= 0;
	if (d->relay)
		idle &= flux_arm(d->relay) <= 0;
	return idle;
}

void sleeper_sleep(struct sleeper *s, struct daemon *d)
{
	bool held = d->net.held_back || d->net.staggers;
	int timeout = held ? HELD_MS : LOOK_MS;
	int due = d->net.ctx ? copyrpc_ctx_timeout(d->net.ctx) : -1;

	if (due >= 0 && due < timeout)
		timeout = due;
	s->timed_out = arm(d) && !poll(s->fd, s->n, timeout) && !held;
}

bool sleeper_overslept(struct sleeper *s, uint32_t n)
{
	s->timed_out = false;
	return n && !poll(s->fd, s->n, 0);
}
