/* SPDX-License-Identifier: MIT */
/*
 * A TCP connection from each rank to rank 0 reports events that launchers do not report reliably.
 *
 * The kernel closes the connections of a process that is killed, so rank 0 detects within
 * milliseconds which rank has died, and the others detect it if rank 0 dies. A rank that must stop
 * sends a message over the same connection, and the results that it has measured so far. TCP
 * keep-alive detects the loss of a host after 20 s.
 *
 *	lifeline_open(l, &line);		before a fence: rank 0 publishes its address
 *	lifeline_connect(line);			after the fence
 *	lifeline_look(line);			repeatedly; never waits
 *	lifeline_leave(line);			this rank ends normally
 *	lifeline_close(line);
 *
 * Rank 0 publishes a secret number with its address, and closes connections that do not send the
 * number. A rank that cannot reach rank 0 prints a message and continues without a lifeline. In a
 * job of one rank the lifeline is NULL. Only one thread may use a lifeline.
 */
#ifndef BENCHKV_LIFELINE_H
#define BENCHKV_LIFELINE_H

#include <stddef.h>
#include <stdint.h>

#include "launch.h"

struct lifeline;

#define LIFELINE_DAEMONS UINT32_MAX /* instead of the number of a run: the result of the daemons */

/* 0, or -errno. *line_p is NULL for a job of one rank. */
int lifeline_open(struct launch *l, struct lifeline **line_p);
void lifeline_connect(struct lifeline *line);

/*
 * Both functions raise the flag of stop.h if a rank has died (STOP_FAILED) or if a stop message has
 * arrived. lifeline_wait() waits for such an event or a signal, at most @timeout_ns.
 */
void lifeline_look(struct lifeline *line);
void lifeline_wait(struct lifeline *line, uint64_t timeout_ns);

/* The first rank whose connection has ended without lifeline_leave(), or -1. */
int64_t lifeline_lost(const struct lifeline *line);

/*
 * True: a stop message has arrived. The rank that stopped first has printed the reason, unless a
 * signal was the reason.
 */
bool lifeline_told(const struct lifeline *line);

/*
 * Sends a stop message: rank 0 to all other ranks, any other rank to rank 0. @stop: a signal's
 * number or STOP_FAILED, see stop.h.
 */
void lifeline_stop(struct lifeline *line, int stop);

/*
 * Not for rank 0: sends the result of a run or, if @run is LIFELINE_DAEMONS, of the daemons. 0 or
 * -errno.
 */
int lifeline_send(struct lifeline *line, uint32_t run, const void *data, size_t len);

typedef int lifeline_result_fn(void *arg, uint32_t rank, uint32_t run, const void *data,
	size_t len);

/*
 * For rank 0: calls @fn for each result of another rank, until each rank has left or died, or
 * @timeout_ns is over. After an error of @fn further results of that rank are ignored.
 */
void lifeline_gather(struct lifeline *line, uint64_t timeout_ns, lifeline_result_fn *fn, void *arg);

/* Not for rank 0: waits until rank 0 has left or died, at most @timeout_ns. */
void lifeline_await(struct lifeline *line, uint64_t timeout_ns);

void lifeline_leave(struct lifeline *line);
void lifeline_close(struct lifeline *line);

#endif
