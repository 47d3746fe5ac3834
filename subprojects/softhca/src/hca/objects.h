/* SPDX-License-Identifier: MIT */
/*
 * The object tables of the arena. The caller of each function must hold the fabric's mutex, unless
 * documented otherwise; a lane is enough for functions that only read.
 *
 * A handle that a program sees is the object's index. A QP number consists of a generation and the
 * index, a memory key of the index and a generation, so that an old number does not name the next
 * object with the same index.
 */
#ifndef SOFTHCA_HCA_OBJECTS_H
#define SOFTHCA_HCA_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/fabric.h"

/* Where the entries of a kind are in the arena, and the range of their indexes. */
struct obj_table {
	size_t offset;
	size_t stride;
	uint32_t first;
	uint32_t max;
	uint32_t word; /* index of its first word in arena()->taken */
};

extern const struct obj_table obj_tables[OBJ_KINDS];

static inline struct obj *obj_at(enum obj_kind kind, uint32_t index)
{
	const struct obj_table *t = &obj_tables[kind];

	return (struct obj *)((char *)arena() + t->offset + t->stride * index);
}

/*
 * Takes a free entry, in which everything but the struct obj is zero. obj_publish() makes it
 * visible. Returns the index; -ENOMEM: the table or /dev/shm is full; or another error of
 * reserve_object(), such as -EMFILE.
 */
int obj_alloc(enum obj_kind kind, uint32_t ctx);
void obj_publish(enum obj_kind kind, uint32_t index);

/*
 * Makes the entry free. obj_free() (xport/free.h) calls this after it has released everything that
 * depends on the object.
 */
void obj_retract(enum obj_kind kind, uint32_t index);

/* Returns the entry @index if it belongs to context @ctx of this process, else NULL. */
void *obj_of_ctx(enum obj_kind kind, uint32_t index, uint32_t ctx);

/* Returns the existing QP with this number, or NULL. */
static inline struct qp *qp_by_number(uint32_t qpn)
{
	uint32_t i = qpn & (MAX_QPS - 1);
	struct qp *qp;

	if (i < FIRST_QP_INDEX || i >= arena()->high[OBJ_QP])
		return NULL;
	qp = &arena()->qps[i];
	return qp->obj.used && qp->qpn == qpn ? qp : NULL;
}

/* Returns the existing memory region with this key, or NULL. */
static inline struct mr *mr_by_key(uint32_t key)
{
	uint32_t i = key >> 8;
	struct mr *mr;

	if (i < FIRST_MR_INDEX || i >= arena()->high[OBJ_MR])
		return NULL;
	mr = &arena()->mrs[i];
	return mr->obj.used && mr->key == key ? mr : NULL;
}

/* Recomputes the reference counts of all objects of the process of @slot. */
void objects_recount(uint32_t slot);

static inline struct ctx *ctx_at(uint32_t i)
{
	return &arena()->ctxs[i];
}

static inline struct cq *cq_at(uint32_t i)
{
	return &arena()->cqs[i];
}

static inline uint32_t qp_index(const struct qp *qp)
{
	return (uint32_t)(qp - arena()->qps);
}

/* Identifies the WQE at sq_done among the last 2^32. It is never 0, although sq_done wraps. */
static inline uint64_t qp_message(const struct qp *qp)
{
	return (uint64_t)qp->sq_done + 1;
}

static inline uint32_t cq_index(const struct cq *cq)
{
	return (uint32_t)(cq - arena()->cqs);
}

static inline uint32_t qp_rail(const struct qp *qp)
{
	return qp->rail;
}

/*
 * Returns the P_Key of the packets that the QP sends. The P_Key of the packets that it receives
 * must match.
 */
static inline uint16_t qp_pkey(const struct qp *qp)
{
	return arena()->topo.rails[qp_rail(qp)].pkeys[qp->attr.pkey_index];
}

/* Returns the size of the pages of a range, in bytes; an adapter locks these pages. */
static inline uint64_t mr_locks(uint64_t start, uint64_t length)
{
	return ((start & 4095) + length + 4095) & ~4095ull;
}

/*
 * Returns the bytes that the adapter has locked for a memory region. Pages of dma-bufs are not
 * counted.
 */
static inline uint64_t mr_locked(const struct mr *mr)
{
	return mr->mapped ? 0 : mr_locks(mr->start, mr->length);
}

static inline struct softhca_counters *counters_of(uint32_t slot)
{
	return &arena()->procs[slot].counters;
}

/*
 * Adds to a counter of this process. Threads with different lanes, or without a lane, may call this
 * at the same time. Relaxed: the counters are independent.
 */
static inline void counter_add(uint64_t *counter, uint64_t n)
{
	__atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

#endif
