/* SPDX-License-Identifier: MIT */
/*
 * Simulated rails. A rail serves its slices in order, at its own rate or at its share of
 * its shared link; a slice completes one latency after its last byte has been sent.
 * Times are ns, rates bytes per ns.
 */
#ifndef TENT_NET_H
#define TENT_NET_H

#include <stdbool.h>
#include <stdint.h>

#define NET_RAILS 16
#define NET_GROUPS 4
#define NET_QUEUE 4096 /* maximum number of posted slices of a rail that have not ended */

enum net_fault {
	NET_WELL,
	NET_SILENT, /* neither data nor completions; no report */
	NET_FLUSH, /* everything posted completes immediately with an error */
};

/* The ways to divide a shared link. */
enum net_sharing {
	NET_FAIR, /* equally */
	NET_FIFO, /* the slice that began first gets as much as its rail can carry, then the next */
};

struct net_item {
	uint64_t token, length;
	double posted_at, began_at, done_at;
	double left; /* bytes to send, including the bytes for the cost per slice */
};

struct net_rail {
	double rate; /* at the current time */
	double line_rate; /* rate that converts the cost per slice to bytes */
	double latency, jitter; /* jitter: largest random delay of a slice, in units of `latency` */
	double cost_ns;
	uint32_t group; /* or BOUND_NO_GROUP */
	enum net_fault fault;
	double speed; /* of the slice that is being sent */
	struct net_item items[NET_QUEUE]; /* head to sent: sent, not ended; sent to tail: unsent */
	uint32_t head, sent, tail; /* never reduced modulo NET_QUEUE */
};

struct net {
	struct net_rail rails[NET_RAILS];
	uint32_t n_rails;
	double group_rates[NET_GROUPS];
	enum net_sharing sharing;
	double now;
	uint64_t random;
	/* The last byte of a slice has been sent. */
	void (*on_sent)(void *arg, uint32_t rail, const struct net_item *item);
	/* A slice has ended, with 0 or an -errno. */
	void (*on_done)(void *arg, uint32_t rail, const struct net_item *item, int status);
	void *arg;
};

/* 0, -EAGAIN: the queue is full. */
int net_post(struct net *n, uint32_t rail, uint64_t token, uint64_t length);

/* The time of the next change; INFINITY: there is none. */
double net_next(struct net *n);
/* Moves time to @at, at most net_next(), and ends the slices that end then. */
void net_advance(struct net *n, double at);

void net_set_rate(struct net *n, uint32_t rail, double rate);
void net_set_fault(struct net *n, uint32_t rail, enum net_fault fault);

/* Drops all slices on the rail. Returns how many of their bytes have reached the peer. */
uint64_t net_fence(struct net *n, uint32_t rail);
/* Bytes posted on the rail that are not completed. */
uint64_t net_outstanding(const struct net *n, uint32_t rail);

#endif
