/* SPDX-License-Identifier: MIT */
/* The objects of the software GPU. One lock protects all of them. */
#ifndef TENT_SOFTGPU_PRIV_H
#define TENT_SOFTGPU_PRIV_H

#include <pthread.h>
#include <stdbool.h>

#include "softgpu.h"

#define MAX_DEVICES 8
#define PAGE 4096ull

struct cu_context {
	int device;
	int error; /* not 0: a copy has failed; later calls and copies in the context fail too */
	bool primary;
};

/* Memory of the device, of this process or of another one. */
struct memory {
	struct memory *next;
	uint64_t at; /* the device pointer: mapped without any permission */
	uint64_t len; /* as requested */
	uint64_t room; /* whole pages */
	uint8_t *bytes; /* the same memory, as the software GPU accesses it */
	int fd;
	uint64_t number; /* no other memory of this host has it */
	struct cu_context *context; /* NULL: from a pool */
	int device;
	bool pool, sync_memops;
	unsigned opens; /* memory of another process: how many times it is open */
};

/* Memory of the host that the program has registered. */
struct pinned {
	struct pinned *next;
	uint64_t at, len;
};

enum op_kind { OP_COPY, OP_RECORD, OP_WAIT, OP_CALL };

/* One element of a stream's queue. */
struct op {
	struct op *next;
	enum op_kind kind;
	uint8_t *to;
	const uint8_t *from;
	uint64_t len;
	struct cu_event *event;
	uint64_t count; /* the number of the cuEventRecord call that is executed or awaited */
	cu_callback *call;
	void *arg;
};

struct cu_stream {
	struct cu_stream *next;
	struct cu_context *context;
	pthread_t thread;
	struct op *head, **tail;
	const struct op *now; /* is being executed, without the lock; NULL: none */
	bool ending;
	bool legacy; /* the default stream of its context */
};

struct cu_event {
	struct cu_context *context;
	uint64_t recorded; /* the number of cuEventRecord calls */
	uint64_t reached; /* the number of these calls that streams have executed */
};

struct gpu {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pid_t pid; /* of the process that has called cuInit */
	int devices;
	struct cu_context primary[MAX_DEVICES];
	struct memory *memory;
	struct pinned *pinned;
	struct cu_stream *streams;
	unsigned fail_after; /* copies until one fails; 0: none will */
	int fail_error;
	char fail_name[64]; /* empty: no call will fail */
	int call_error;
	bool held;
	const struct cu_stream *held_stream;
	unsigned copies;
};

extern struct gpu gpu;

/*
 * Begins a function: takes the lock, and returns 0, or the result that the function must return
 * after the lock has been released. @name: for softgpu_fail_call().
 */
int begin(const char *name);
/* Releases the lock. Returns @result. */
int finish(int result);
/* The current context of the calling thread, or NULL. */
struct cu_context *current(void);
/* Calls begin(), and checks that there is a current context without an error. */
int begin_current(const char *name);

/* The memory that contains this device pointer, or NULL. */
struct memory *memory_at(uint64_t at);
/* The registration that contains this memory of the host, or NULL. */
const struct pinned *pinned_at(uint64_t at, uint64_t len);
/*
 * Waits until no stream executes, or has in its queue, a copy from or to these bytes. The caller
 * must hold the lock; it is released while the function waits.
 */
void drain(const uint8_t *bytes, uint64_t len);
/*
 * Waits until the streams of failed contexts have dropped all of their work. The lock is released
 * meanwhile, as in drain().
 */
void drain_failed(void);

#endif
