/* SPDX-License-Identifier: MIT */
/*
 * Reads the objects of a running process, as described in base/live.h. All data that are read may
 * be forged, so they are copied and checked before use. The texts in these structs are printable.
 */
#ifndef SHMLS_LIVE_H
#define SHMLS_LIVE_H

#include <dirent.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/live.h"

struct live_value {
	char name[13], word[16]; /* word: "" if the value has no word */
	bool known; /* the memory could be read */
	enum live_form form;
	uint64_t value; /* LIVE_SIGNED: sign-extended */
};

struct live_object {
	char layer[12], kind[12], name[LIVE_NAME];
	uint64_t address;
	/* own_tid (struct live_thread) of the thread that waits for this object; 0: none does. */
	uint32_t tid;
	uint64_t since; /* CLOCK_MONOTONIC, ns */
	uint32_t n_values;
	struct live_value value[LIVE_FIELDS];
};

struct live_thread {
	/* The thread's id in our pid namespace, and in the innermost one that it belongs to. */
	uint32_t tid, own_tid;
	char name[16], state; /* as in /proc/PID/task/TID/status */
};

struct live_process {
	pid_t pid;
	struct live_thread main; /* the process itself */
	struct live_object *object;
	size_t n_objects;
	struct live_thread *thread;
	size_t n_threads;
	uint64_t missed; /* number of objects that have no record in a table */
	uint32_t foreign; /* version of a table that this program cannot read; 0: there is none */
	uint32_t n_reads; /* number of reads of the process's memory */
};

/*
 * Returns 0, also if the process has no objects; -ESRCH: there is no such process; -EPERM: it may
 * not be read; -E2BIG: its tables need more reads than full tables do, so they are forged; -ENOMEM;
 * another -errno of opening its files in /proc. The caller must call live_free() in each case.
 */
int live_read(pid_t pid, struct live_process *p);
void live_free(struct live_process *p);

/* For scandir(): returns 1 if the name begins with a digit, as those of processes in /proc do. */
int live_number(const struct dirent *e);

#endif
