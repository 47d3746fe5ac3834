/* SPDX-License-Identifier: MIT */
/*
 * A TCP connection from each rank to rank 0 carries news that launchers do not tell reliably.
 *
 * The kernel closes the connections of a process that is killed, so rank 0 knows within
 * milliseconds which rank has died, and the others know it if rank 0 dies. A rank that has to stop
 * says so by the same connection, which also carries the results that were measured until then. A
 * host that is gone is noticed by the kernel's keep-alive, after 20 s.
 *
 *	lifeline_open(l, &line);		before a fence: rank 0 says where it listens
 *	lifeline_connect(line);			after it
 *	lifeline_look(line);			again and again; never waits
 *	lifeline_leave(line);			this rank ends as it should
 *	lifeline_close(line);
 *
 * Rank 0 has put a secret number beside its address, and closes connections that do not send it. A
 * rank that cannot reach rank 0 says so and goes on without; so does a job of one rank, for which
 * the pointer is NULL. One thread uses it.
 */
#ifndef BENCHKV_LIFELINE_H
#define BENCHKV_LIFELINE_H

#include <stddef.h>
#include <stdint.h>

#include "launch.h"

struct lifeline;

#define LIFELINE_DAEMONS UINT32_MAX /* of what a result is: all that is not of a run */

/* 0, or -errno. *line_p is NULL for a job of one rank. */
int lifeline_open(struct launch *l, struct lifeline **line_p);
void lifeline_connect(struct lifeline *line);

/*
 * Raises the flag of stop.h when a rank has died (STOP_FAILED), or as another rank says.
 * lifeline_wait() waits up to that long for such news, or for a signal.
 */
void lifeline_look(struct lifeline *line);
void lifeline_wait(struct lifeline *line, uint64_t timeout_ns);

/* A rank that has died without a word, or -1. */
int64_t lifeline_lost(const struct lifeline *line);

/* Has another rank told this one to stop? That rank has printed the reason. */
bool lifeline_told(const struct lifeline *line);

/* Tells the others that the job stops: the number is that of stop.h. */
void lifeline_stop(struct lifeline *line, int stop);

/* Another rank than rank 0: sends a result, of a run or LIFELINE_DAEMONS. 0 or -errno. */
int lifeline_send(struct lifeline *line, uint32_t run, const void *data, size_t len);

typedef int lifeline_result_fn(void *arg, uint32_t rank, uint32_t run, const void *data,
	size_t len);

/*
 * Rank 0: hands over what the other ranks send until each of them has left or died, or the time is
 * over. The rest of a rank is ignored when the function returns an error.
 */
void lifeline_gather(struct lifeline *line, uint64_t timeout_ns, lifeline_result_fn *fn, void *arg);

/* Another rank than rank 0: waits until rank 0 has left, or the time is over. */
void lifeline_await(struct lifeline *line, uint64_t timeout_ns);

void lifeline_leave(struct lifeline *line);
void lifeline_close(struct lifeline *line);

#endif
