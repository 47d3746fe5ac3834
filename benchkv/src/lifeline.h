/* SPDX-License-Identifier: MIT */
/*
 * A TCP connection from each rank to rank 0 reports events that launchers do not report reliably.
 *
 * The kernel closes the connections of a process that is killed, so rank 0 detects within
 * milliseconds which rank has died, and the others detect it if rank 0 dies. A rank that must stop
 * sends a message over the same connection, and the results that it has measured so far. The
 * kernel's keep-alive detects after 20 s that a host is gone.
 *
 *	lifeline_open(l, &line);		before a fence: rank 0 says where it listens
 *	lifeline_connect(line);			after it
 *	lifeline_look(line);			again and again; never waits
 *	lifeline_leave(line);			this rank ends as it should
 *	lifeline_close(line);
 *
 * Rank 0 publishes a secret number with its address, and closes connections that do not send the
 * number. A rank that cannot reach rank 0 prints a message and continues without a lifeline. In a
 * job of one rank the pointer is NULL. Only one thread may use a lifeline.
 */
#ifndef BENCHKV_LIFELINE_H
#define BENCHKV_LIFELINE_H

#include <stddef.h>
#include <stdint.h>

#include "launch.h"

struct lifeline;

#define LIFELINE_DAEMONS UINT32_MAX /* in place of a run's number: the result of the daemons */

/* 0, or -errno. *line_p is NULL for a job of one rank. */
int lifeline_open(struct launch *l, struct lifeline **line_p);
void lifeline_connect(struct lifeline *line);

/*
 * Both functions raise the flag of stop.h if a rank has died (STOP_FAILED) or if another rank
 * requests it. lifeline_wait() waits at most @timeout_ns for this, or for a signal.
 */
void lifeline_look(struct lifeline *line);
void lifeline_wait(struct lifeline *line, uint64_t timeout_ns);

/* A rank that has died without a message, or -1. */
int64_t lifeline_lost(const struct lifeline *line);

/* True: another rank has requested the stop, and has printed the reason. */
bool lifeline_told(const struct lifeline *line);

/* Sends a stop message to the other ranks. @stop: the number of stop.h. */
void lifeline_stop(struct lifeline *line, int stop);

/* Not for rank 0: sends the result of a run, or LIFELINE_DAEMONS: of the daemons. 0 or -errno. */
int lifeline_send(struct lifeline *line, uint32_t run, const void *data, size_t len);

typedef int lifeline_result_fn(void *arg, uint32_t rank, uint32_t run, const void *data,
	size_t len);

/*
 * For rank 0: passes the results of the other ranks to @fn, until each rank has left or died, or
 * the time is over. After an error of @fn further results of that rank are ignored.
 */
void lifeline_gather(struct lifeline *line, uint64_t timeout_ns, lifeline_result_fn *fn, void *arg);

/* Not for rank 0: waits until rank 0 has left, or the time is over. */
void lifeline_await(struct lifeline *line, uint64_t timeout_ns);

void lifeline_leave(struct lifeline *line);
void lifeline_close(struct lifeline *line);

#endif
