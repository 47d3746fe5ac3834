/* SPDX-License-Identifier: MIT */
/*
 * A client of a job of read-modify-writes makes gets and changes. A change gets the value of a key,
 * computes the next value, which has the next version (msg.h), and stores it by KV_SWAP. If another
 * change came first, the reply contains the stored value, and the change is tried again from that
 * value. A change is one operation, from its get to the swap that succeeds.
 *
 * The versions of a key are a total order of its changes, so every reply is compared with the
 * knowledge of this rank. Errors are:
 *
 *	forgotten	nothing, although the key was preloaded; nothing, or the preloaded value,
 *			although a change of the key is known
 *	stale		a version older than one that was known when the request was made; or a
 *			swap that succeeded although its version or a later one was known then
 *	invented	a writer that does not exist; a version that the job cannot have reached;
 *			a second value of one version; a wrong value of version 0
 *
 * The clients of a rank share a table of the newest known value of each of the first keys, by
 * number (workload.h).
 *
 * In the audit each client reads a part of the first RMW_AUDITED keys, by number, so that each of
 * these keys is read once. The sum of their versions must be the number of changes that all clients
 * have made of these keys. If the sum is less, the store has lost changes; if it is more, the store
 * has carried out some changes twice. A lost change could hide one that was carried out twice. So
 * the clients also compute the same difference weighted with a hash of each key (check->views).
 */
#ifndef BENCHKV_RMW_H
#define BENCHKV_RMW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "check.h"

#define RMW_AUDITED (1u << 20)

/* By key number: the name of the newest known value; 0: none. Any thread may use the table. */
struct rmw_known {
	_Atomic uint64_t *names;
	uint32_t keys;
};

/* Initializes the table for a range of @key_range keys. 0 or -ENOMEM. */
int rmw_known_init(struct rmw_known *k, uint64_t key_range);
void rmw_known_fini(struct rmw_known *k);

/* The memory of a table. */
uint64_t rmw_known_bytes(uint64_t key_range);

/* Data of a request in flight, in addition to struct check_slot. */
struct rmw_slot {
	uint64_t floor; /* name of the newest value known when the request was made; 0: none */
	bool swap; /* the request is a swap */
};

struct rmw {
	struct checker *check;
	struct rmw_known *known;
	struct rmw_slot *slots;
	uint32_t *again; /* ring of slots whose swap must be sent; room for all slots */
	uint32_t again_first,
		again_end; /* position of the first slot in the ring, and after the last one */
	uint64_t most; /* highest version that a key can reach */
	bool preloaded;
	uint64_t changes; /* of keys that the audit reads, in all runs */
	uint64_t versions; /* sum of the versions that the audit has read */
};

/*
 * @ops: operations of all clients in all runs; UINT64_MAX: not known. The caller owns the checker
 * and the table, which must outlive *r. 0 or -ENOMEM; then rmw_fini() must be called, too.
 */
int rmw_init(struct rmw *r, struct checker *check, struct rmw_known *known, uint64_t ops,
	bool preloaded);
void rmw_fini(struct rmw *r);

/* Must be called after check_restart(). */
void rmw_restart(struct rmw *r);

/* Must be called after the last run. The caller must then open operations 0 .. n_due - 1. */
void rmw_audit(struct rmw *r);

/* Like check_open() and check_reply(). A change stays open until its swap succeeds. */
const struct op *rmw_open(struct rmw *r, uint64_t i, uint64_t now_ns, struct kv_req *req);
bool rmw_reply(struct rmw *r, uint64_t token, const struct kv_resp *resp, uint64_t *start_ns_p);

/*
 * If a swap must be sent, fills in *op_p and *req, and returns true. After the caller has sent the
 * swap, it must call rmw_again_sent(); otherwise the same swap is returned again.
 */
bool rmw_again(struct rmw *r, struct op *op_p, struct kv_req *req);
void rmw_again_sent(struct rmw *r);

#endif
