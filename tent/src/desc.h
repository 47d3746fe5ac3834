/* SPDX-License-Identifier: MIT */
/*
 * The description of a segment, as JSON: the address at which the peer's engine listens, its rails,
 * and its memory. Each buffer has a tier per rail (0: the rail is near the memory), and a key per
 * rail and part. desc_read() checks everything.
 */
#ifndef TENT_DESC_H
#define TENT_DESC_H

#include <sys/socket.h>

#include "base/boot.h"
#include "config.h"
#include "cuda.h"
#include "pairing.h"

#define DESC_VERSION 6
#define DESC_KEY_LEN 16
#define DESC_HOST_LEN 256
#define DESC_MAX_BUFFERS 16384
#define DESC_MAX_PARTS 65536 /* of one buffer */

/* The importer's data about memory of the peer, see lent.c. They are not part of the text. */
struct lent {
	uint32_t moving; /* tasks that have not moved all of their bytes */
	uint8_t *at; /* address of the memory in this process; NULL: it is not mapped here */
	uint32_t set; /* number of the set of buffers with the same tiers, see places.h */
	struct desc_buffer *next; /* in the list of the buffers that the peer has unregistered */
};

/* Memory of the peer; parts are of part_len bytes, the last one may be shorter. */
struct desc_buffer {
	uint64_t addr, len, part_len;
	uint32_t n_parts;
	uint32_t id; /* of the registration */
	int32_t fd; /* of the memory, in process pid; -1: the memory has no descriptor */
	bool shared; /* memory of a GPU that a process of the same host can open */
	struct cu_ipc handle; /* of the allocation that contains the memory */
	uint64_t offset; /* in the allocation */
	bool staged; /* rails do not reach the memory; it is copied through the stage */
	char location[TENT_NAME_LEN];
	uint8_t tiers[TENT_MAX_RAILS]; /* of the peer's rails for this memory */
	uint32_t *keys; /* keys[rail * n_parts + part]; NULL: the transport has no regions */
	struct lent lent;
};

struct transport;

struct desc {
	struct sockaddr_storage at; /* where the peer was reached; not part of the text */
	const struct transport *transport; /* of its first rail */
	char host[DESC_HOST_LEN];
	uint16_t port;
	uint8_t key[DESC_KEY_LEN]; /* holders of the key may connect */
	char boot[BOOT_LEN]; /* of the host's kernel, see base/boot.h */
	int32_t pid;
	uint32_t epoch; /* number of registrations that had ended when the description was made */
	uint64_t proof; /* the address of the key in the memory of process pid, see ask() of
			   shm.c */
	uint32_t n_rails;
	struct rail_id rails[TENT_MAX_RAILS];
	uint32_t n_buffers;
	struct desc_buffer **buffers; /* in the order of their addresses, without overlap */
	struct desc_buffer *stage; /* the peer's memory for staged buffers, see stage.c; or NULL */
};

/* 0 or -ENOMEM. The caller must free the text with free(). */
int desc_write(const struct desc *d, char **text_p);

/*
 * 0; -EINVAL; -EPROTONOSUPPORT: another version; -ENOMEM. *d_p is written on success only; the
 * caller must free it with desc_fini().
 */
int desc_read(const char *text, struct desc *d_p, struct tent_why *why);
void desc_fini(struct desc *d);
/*
 * Like desc_write() and desc_read(), but the text contains only the buffers and the stage, see
 * grow.c. @known is the full description of the same peer.
 */
int desc_write_memory(const struct desc *d, char **text_p);
int desc_read_memory(const char *text, const struct desc *known, struct desc *d_p);

/* Inserts a buffer. 0; -EEXIST: it overlaps another one; -ENOSPC, -ENOMEM. */
int desc_insert(struct desc *d, struct desc_buffer *b);
/* Removes the buffer from the array; does not free it. */
void desc_remove(struct desc *d, const struct desc_buffer *b);
/* Frees a buffer, which may be NULL. */
void desc_buffer_free(struct desc_buffer *b);

/* The buffer that holds all of [addr, addr + len), or NULL. */
struct desc_buffer *desc_find(const struct desc *d, uint64_t addr, uint64_t len);

#endif
