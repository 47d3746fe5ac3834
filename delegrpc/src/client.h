/* SPDX-License-Identifier: MIT */
/* The complete state of a client. */
#ifndef DELEGRPC_CLIENT_H
#define DELEGRPC_CLIENT_H

#include "internal.h"

struct client {
	struct delegrpc_client hot; /* the first member */
	struct delegrpc_layout layout;
	struct delegrpc_control *control;
	unsigned char *requests;
	uint32_t ring_shift;
	uint32_t id;
	/*
	 * True: a publication must first call has_room(), because the ring can be full, or may
	 * still have requests of our predecessor, the former client of this id. False: the ring
	 * always has room.
	 */
	bool watch;
	bool watched; /* the server reports that clients come, leave or die: attr.events */
	bool admitted; /* our predecessor's requests have been given back */
	uint64_t start; /* value of head when we connected */
	uint64_t limit; /* a batch may be reserved if at most this many positions are in use */
	uint64_t tail; /* last value of control->tail that was read */
	uint64_t last; /* the position after our last reservation */
	uint64_t late, bad, flushes, full;
	uint64_t dropped; /* calls that were staged when delegrpc_client_abort() ended them */
	/* See post.c. */
	uint64_t posted; /* posts published */
	uint64_t asked_at; /* value of accepted_of() at the last posts_ask() */
	bool asked; /* posts_ask() has been called: see posts_asked() */
	uint32_t first_post, last_post; /* ids of the oldest and newest post, if there are any */
	uint32_t unsent_post; /* id of the first staged post, if there are any */
	struct waiter w; /* the last member: see client_replace() */
};

static inline struct client *client_of(struct delegrpc_client *client)
{
	return container_of(client, struct client, hot);
}

/* Gives an id to the post that is being staged. */
void posts_add(struct client *c);

/* Frees the ids of the posts that have been consumed. Returns true if there were any. */
bool posts_take_back(struct client *c);

/*
 * The client asks for room for a post: if posts are in flight, a later wait also ends when the
 * server has received the oldest one.
 */
void posts_ask(struct client *c);

/* Must be called after the staged posts have been published, in the batch that begins at pos. */
void posts_sent(struct client *c, uint64_t pos);

/*
 * Returns true if the client has asked for room, with posts in flight, and has staged no call or
 * post since.
 */
bool posts_asked(const struct client *c);

/* Returns true, once, if posts_asked() and the server has received the oldest post. */
bool posts_room(struct client *c);

#endif
