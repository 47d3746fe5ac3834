/* SPDX-License-Identifier: MIT */
/*
 * The ranks of the job, and an exchange of small data between them before other connections exist.
 * A PMIx launcher starts the job (mpirun and srun --mpi=pmix are tested). Without a launcher the
 * job is only this process.
 *
 *	launch_init(l);
 *	launch_put(l, "address", 0, mine, len);
 *	launch_fence(l, timeout_ns);			after it every rank has published its data
 *	launch_get(l, 3, "address", 0, timeout_ns, &theirs, &len);
 *	launch_fini(l);
 *
 * Only one thread may use a struct launch. Functions return 0 or -errno: -ETIMEDOUT: a rank has not
 * arrived in time; -EINTR: the program must stop (see stop.h); -EPROTO: the launcher failed.
 * Time-outs are implemented here, not by the launcher. If the launcher ends, the program prints a
 * message and stops as after SIGHUP.
 */
#ifndef BENCHKV_LAUNCH_H
#define BENCHKV_LAUNCH_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LAUNCH_NAME_MAX 128

struct launch {
	uint32_t rank, size;
	bool alone; /* there is no launcher */
	char job[LAUNCH_NAME_MAX]; /* unique on this machine: letters, digits, '.', '_' and '-' */
	char host[LAUNCH_NAME_MAX]; /* the launcher's name of this node, if it has one */
	/* Called every 20 ms while launch_fence(), launch_meet() and launch_get() wait; or NULL. */
	void (*watch)(void *arg);
	void *watch_arg;
	uint32_t fences; /* number of fences that have begun */
	uint64_t met_ns; /* when the last fence ended; 0: no fence has ended */
};

/* Returns the rank that a PMIx launcher has given to this process. -1: no launcher started it. */
int launch_environment_rank(void);

int launch_init(struct launch *l);
void launch_fini(const struct launch *l);

/*
 * Publishes data under a key, which is a name with a number. A key can be used once. Other ranks
 * can get the data after the next fence.
 */
int launch_put(struct launch *l, const char *key, uint32_t number, const void *data, size_t len);

/*
 * Waits for all ranks. After that every rank can get the data that was put before. The fence always
 * requests the exchange of data; otherwise Slurm would only wait for the ranks of the same node.
 */
int launch_fence(struct launch *l, uint64_t timeout_ns);

/*
 * Like launch_fence(). After an error, one line in @why names the reason, and after -ETIMEDOUT also
 * the first missing ranks.
 */
int launch_meet(struct launch *l, uint64_t timeout_ns, char *why, int size);

/*
 * Gets the data that @rank has published. The caller must free *data_p. -EPROTO: the launcher
 * failed, or has no such data.
 */
int launch_get(struct launch *l, uint32_t rank, const char *key, uint32_t number,
	uint64_t timeout_ns, void **data_p, size_t *len_p);

/* Copies data of a known size that @rank has published. -EPROTO: the data has another size. */
static inline int launch_get_struct(struct launch *l, uint32_t rank, const char *key,
	uint32_t number, uint64_t timeout_ns, void *to, size_t size)
{
	void *data;
	size_t len;
	int err = launch_get(l, rank, key, number, timeout_ns, &data, &len);

	if (err)
		return err;
	if (len == size)
		memcpy(to, data, size);
	free(data);
	return len == size ? 0 : -EPROTO;
}

/*
 * Ends all processes of the job with this status. Does nothing if there is no launcher.
 */
void launch_abort(const struct launch *l, int status, const char *why);

#endif
