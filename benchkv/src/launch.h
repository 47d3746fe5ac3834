/* SPDX-License-Identifier: MIT */
/*
 * The ranks of the job, and a way to tell them small things before there is any other. A PMIx
 * launcher starts it (mpirun and srun --mpi=pmix are tested); without one the job is this process
 * alone.
 *
 *	launch_init(&l);
 *	launch_put(l, "address", mine, len);
 *	launch_fence(l, timeout_ns);			everybody has put
 *	launch_get(l, 3, "address", timeout_ns, &theirs, &len);
 *	launch_fini(l);
 *
 * One thread uses it. Functions return 0 or -errno: -ETIMEDOUT when a rank has not come
 * in time, -EINTR when the program was told to stop, -EPROTO when the launcher failed.
 * Time-outs are kept on this side; a launcher need not know them. When the launcher ends,
 * the program is told to stop, as by SIGHUP, and says so.
 */
#ifndef BENCHKV_LAUNCH_H
#define BENCHKV_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct launch;

/* Was this process started by a PMIx launcher, and as which rank? -1: it was not. */
int launch_environment_rank(void);

int launch_init(struct launch **l_p);
void launch_fini(struct launch *l);

uint32_t launch_rank(const struct launch *l);
uint32_t launch_size(const struct launch *l);
bool launch_alone(const struct launch *l); /* no launcher */

/* A name that no other job on this machine has; letters, digits, '.', '_' and '-'. */
const char *launch_job(const struct launch *l);

/* The launcher's name of this node, which may differ from the name that the node has for itself. */
const char *launch_host(const struct launch *l);

/* Says something under a key, once. Others can get it after the next fence. */
int launch_put(struct launch *l, const char *key, const void *data, size_t len);

/*
 * All ranks meet, and what was put before is everybody's. Not even a meeting for its own
 * sake is without the exchange of data: Slurm takes that for one within each node.
 */
int launch_fence(struct launch *l, uint64_t timeout_ns);

/* Called every 20 ms while these functions wait. */
typedef void launch_watch_fn(void *arg);
void launch_watch(struct launch *l, launch_watch_fn *fn, void *arg);

/* A fence; if it fails, why[] says in one line why, and which ranks have not come. */
int launch_meet(struct launch *l, uint64_t timeout_ns, char *why, int size);

/* Gets what that rank has put; *data_p is the caller's, to be freed. */
int launch_get(struct launch *l, uint32_t rank, const char *key, uint64_t timeout_ns, void **data_p,
	size_t *len_p);

/* Ends all processes of the job with this status, also those that never came. */
void launch_abort(struct launch *l, int status, const char *why);

#endif
