/* SPDX-License-Identifier: MIT */
/*
 * A lobby holds the connections of a context that are being made: listeners, the sockets that they
 * have accepted, and dials. Each of these is a watch. It has a socket, whose events an epoll
 * descriptor reports, and a time at which its next action is due. lobby_step() handles a bounded
 * number of events and never waits; copyrpc_poll() calls it, and the blocking functions call it in
 * a loop.
 */
#ifndef COPYRPC_LOBBY_H
#define COPYRPC_LOBBY_H

#include "base/tcp.h"
#include "internal.h"

struct lobby;
struct watch;

struct watch_ops {
	/* Called when the socket has an event. It may free any watch. */
	void (*ready)(struct lobby *y, struct watch *w, uint64_t now);
	/* Does the due action. It may free this watch, but no other one. */
	uint64_t (*tick)(struct lobby *y, struct watch *w, uint64_t now); /* returns when it is due
									     again */
	/* Frees this watch; for a listener also those of its guests. */
	void (*close)(struct lobby *y, struct watch *w);
};

struct watch {
	const struct watch_ops *ops;
	int fd;
	short events; /* of poll(2), for which the epoll descriptor waits; 0: not added to it */
	struct watch *next, **link_p;
};

struct lobby {
	struct ctx_side side;
	struct copyrpc_ctx *ctx;
	int epoll;
	uint64_t came; /* number of connections that were accepted */
	struct watch *watches;
	uint32_t set_ups; /* ctx->set_ups when this part of the step (lobby_may_take()) began */
	uint32_t left; /* events or actions that this part of the step may still handle */
	struct watch *postponed; /* the first watch for which lobby_may_act() returned false */
};

/* Attributes of the endpoints that will be created, with copies of the data to which they point. */
struct plan {
	struct copyrpc_ep_attr attr;
	struct copyrpc_path path;
	char name[EP_NAME_MAX];
};

/* Returns 0, -E2BIG, or -EINVAL if the context cannot have such endpoints, or @attr has `by_hand`.
 * After an error *plan is unchanged: guests of an earlier copyrpc_accept() still use it. */
int plan_copy(struct plan *plan, const struct copyrpc_ctx *ctx, const struct copyrpc_ep_attr *attr);

/* Finds the context's lobby, or creates it if there is none. Returns 0 or -errno. */
int lobby_open(struct copyrpc_ctx *ctx, struct lobby **y_p);
void lobby_enter(struct lobby *y, struct watch *w);
void lobby_leave(struct lobby *y, struct watch *w);
/* Sets the events for which the watch waits; 0: none. Returns 0 or -errno. */
int lobby_watch(struct lobby *y, struct watch *w, short events);
/* Closes the socket of a watch, if it has one. */
void lobby_close(struct lobby *y, struct watch *w);
void lobby_step(struct copyrpc_ctx *ctx);
/* Returns true if this part of the step (its events or its actions) may continue. Creating or
 * connecting a queue pair takes commands of the device, so a part ends after the first event or
 * action that has created or connected one. */
static inline bool lobby_may_take(const struct lobby *y)
{
	return y->left && y->ctx->set_ups == y->set_ups;
}
/* A tick() must call this before each action. If this returns false, the action is postponed:
 * tick() must return @now. */
bool lobby_may_act(struct lobby *y, struct watch *w);
/* Waits until lobby_step() has work, or @fd (if not negative) is readable. Returns 0 or -errno;
 * -ETIMEDOUT: the time is over. */
int lobby_wait(const struct lobby *y, int fd, uint64_t limit_ns);

/* Queues the event UP of an endpoint. If the endpoint fails later, that is an event, too. */
void lobby_up(struct copyrpc_ep *ep, uint64_t token);

#endif
