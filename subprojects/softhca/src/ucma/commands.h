/* SPDX-License-Identifier: MIT */
/*
 * One function per command. @in: the command's structure, with the length of the ABI, and zeros for
 * fields that the program has not sent. At most @out_len bytes of the answer are written. The
 * caller of a function with an argument @id must hold the fabric's mutex; the callers of the other
 * functions must not hold it. The functions return 0 or -errno.
 */
#ifndef SOFTHCA_UCMA_COMMANDS_H
#define SOFTHCA_UCMA_COMMANDS_H

#include <errno.h>
#include <rdma/rdma_user_cm.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/fabric.h"

struct cm_id;

struct ucma_cmd {
	int fd;
	uint64_t fifo; /* of the event channel */
	const void *in;
	uint32_t out_len;
};

/*
 * Finds the id of a command in the channel, and takes the fabric's mutex, which ucma_leave()
 * releases. If there is no such id, and after -EIO, the mutex is not held. This is a macro for the
 * same reason as fabric_enter().
 */
#define ucma_enter(c, index, saved, id_p)                                                          \
	(fabric_enter(saved) ? -EIO : ucma_find(c, index, saved, id_p))

/* For the macro. The caller must hold the mutex, which is released if there is no such id. */
int ucma_find(const struct ucma_cmd *c, uint32_t index, const sigset_t *saved, struct cm_id **id_p);

/* Releases the mutex, and returns @r. */
int ucma_leave(const sigset_t *saved, int r);

int ucma_create_id(struct ucma_cmd *c);
int ucma_bind_ip(struct ucma_cmd *c);
int ucma_bind(struct ucma_cmd *c);
int ucma_resolve_ip(struct ucma_cmd *c);
int ucma_resolve_addr(struct ucma_cmd *c);
int ucma_connect(struct ucma_cmd *c);
int ucma_listen(struct ucma_cmd *c);
int ucma_set_option(struct ucma_cmd *c);
int ucma_migrate_id(struct ucma_cmd *c);

int ucma_destroy_id(struct ucma_cmd *c, struct cm_id *id);
int ucma_resolve_route(struct ucma_cmd *c, struct cm_id *id);
int ucma_accept(struct ucma_cmd *c, struct cm_id *id);
int ucma_reject(struct ucma_cmd *c, struct cm_id *id);
int ucma_disconnect(struct ucma_cmd *c, struct cm_id *id);
int ucma_notify(struct ucma_cmd *c, struct cm_id *id);

int ucma_query_route(struct ucma_cmd *c);
int ucma_query(struct ucma_cmd *c);
int ucma_init_qp_attr(struct ucma_cmd *c);
int ucma_get_event(struct ucma_cmd *c);

/*
 * Copies an answer of @len bytes, or its first @out_len bytes, to the program. -EFAULT: the program
 * has passed a wrong address.
 */
int ucma_answer(const struct ucma_cmd *c, uint64_t to, const void *from, size_t len);

#endif
