/* SPDX-License-Identifier: MIT */
/*
 * A meeting: the exchange of greetings and results over a stream socket, by which an endpoint is
 * connected. copyrpc_tcp.h describes the messages. A meeting never waits: its user (a listener, a
 * dial, a blocking call) waits for the events of the socket and calls meet_step() again.
 */
#ifndef COPYRPC_MEET_H
#define COPYRPC_MEET_H

#include <assert.h>
#include <poll.h>

#include "copyrpc.h"
#include "internal.h"

struct greeting {
	char magic[8];
	uint16_t version, len;
	uint32_t flags;
	uint64_t owner;
	uint8_t blob[COPYRPC_INFO_SIZE];
	uint64_t node;
};
static_assert(sizeof(struct greeting) == 128 && offsetof(struct greeting, blob) == 24, "no holes");

struct result {
	char magic[8];
	uint32_t error;
	uint8_t zero[4];
};
static_assert(sizeof(struct result) == 16, "no holes");

/* Follows the greeting if an endpoint is connected again. */
struct place {
	char magic[8];
	uint64_t whom; /* owner of the other side's endpoint */
	uint64_t attempt;
	uint64_t received; /* end of the received batches, bytes */
};
static_assert(sizeof(struct place) == 32, "no holes");

struct meeting {
	int fd;
	short events; /* of poll(2), for which the meeting waits */
	struct copyrpc_ep *ep; /* NULL: not yet created (a valid greeting is required first), or
				  destroyed, or used by a newer meeting */
	struct greeting greeting;
	struct place place;
	struct result result;
	size_t greeting_got, place_got, result_got;
	uint8_t out[sizeof(struct greeting) + sizeof(struct place) + sizeof(struct result)];
	size_t out_len, sent;
	uint64_t came; /* number of the connection among those that were accepted; 0: dialed */
	bool greeted; /* the peer's greeting is valid */
	bool single; /* the dialing side wants at most one connection between the two contexts */
	bool again; /* an endpoint is being connected again */
	bool waits; /* the meeting waits until the endpoint's queue pair is drained or its first
		       meeting has ended, or the port is up; the socket has no event for that */
	int err; /* own error; the meeting ends when it was sent to the peer */
};

/* Starts the meeting of an endpoint over the socket m->fd. Returns 0 or an error of getrandom(). A
 * side that accepts needs no start: it only sets m->fd and m->events. */
int meet_begin(struct meeting *m, struct copyrpc_ep *ep);

/* Starts the next attempt to connect an endpoint again. Its queue pair must be drained. Returns 0,
 * or an error of ep_renew(). */
int meet_begin_again(struct meeting *m, struct copyrpc_ep *ep);

/*
 * Asks whether the peer still has the endpoint, which is connected and stays so. The meeting ends
 * with -ECONNREFUSED if the peer does not have it, and with another error if it does, because
 * struct place has attempt 0, which is never newer. ep->held is not set: the caller must not step
 * the meeting after the endpoint was destroyed.
 */
void meet_begin_asking(struct meeting *m, struct copyrpc_ep *ep);

/*
 * Proceeds as far as possible. Returns 0 if both ends are connected and have exchanged their
 * results, -EAGAIN if the socket is not ready or m->waits is true, or another error. @ctx and @attr
 * are for the endpoint of a side that accepts.
 */
int meet_step(struct meeting *m, struct copyrpc_ctx *ctx, const struct copyrpc_ep_attr *attr);

/*
 * True if the peer of this first meeting may have completed it, or may still do so: this side has
 * sent its result, and has not got the peer's. If the TCP connection is lost in this state, the
 * endpoint must be kept: the sides connect the same endpoints again, as after any other loss.
 */
bool meet_is_open(const struct meeting *m);

/* Marks the endpoint as up: both sides have it. The first time, fails the former endpoints that it
 * replaces. */
void meet_up(struct meeting *m);

/* The number of the context of the peer; 0: not known yet. */
uint64_t meet_node(const struct meeting *m);

/* Destroys the endpoint of a meeting that has failed. If it was never connected, its memory is
 * freed immediately, because no message can arrive. */
void meet_discard(struct copyrpc_ep *ep);

/* Ends a meeting that has failed: discards its endpoint, or lets it wait for the next attempt. */
void meet_drop(struct meeting *m);

/* Draws the random number of the context, if it has none yet. Returns 0 or -errno. */
int ctx_set_node(struct copyrpc_ctx *ctx);

#endif
