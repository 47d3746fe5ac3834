/* SPDX-License-Identifier: MIT */
/*
 * A loan is a chunk of shared memory in which a request or a response is written and read in place.
 * The pool of a client is in its area of the region: attr.loans chunks, each with room for a
 * request and for the response to it. A chunk has one owner at a time:
 *
 *	the client	until it commits the chunk with a call
 *	the server	until it answers that call
 *	the client	until it has released the response
 *
 * Each side records in private memory which chunks it owns, so the pool holds nothing but payloads.
 * The message in the ring has the number of the chunk and the length of the payload. LOAN_BIT is
 * set in its id.
 */
#ifndef SHMIPC_LOAN_H
#define SHMIPC_LOAN_H

#include "layout.h"

#define LOAN_BIT (1u << 23)
static_assert(SHMIPC_MAX_DEPTH <= LOAN_BIT && LOAN_BIT < 1u << CELLRING_ID_BITS,
	"no call's id has LOAN_BIT");

/*
 * The payload of a message whose id has LOAN_BIT. A response is in the chunk of its request, and
 * `chunk` is not used.
 */
struct loan_message {
	uint32_t chunk, len;
};

/*
 * Returns such a payload as one word. If its fields were stored one by one, the load that copies
 * both would wait until these stores, and all stores before them, including those to the loan, have
 * left the store buffer.
 */
static inline uint64_t loan_word(uint32_t chunk, uint32_t len)
{
	struct loan_message m = {chunk, len};
	uint64_t word;

	memcpy(&word, &m, sizeof(word));
	__asm__("" : "+r"(word));
	return word;
}

enum loan_state {
	LOAN_FREE,
	LOAN_OUT, /* the user writes the request */
	LOAN_SENT, /* the server owns the chunk, or the response function is reading the response */
	LOAN_HELD, /* the user reads the response */
};

struct shmipc_client_loans {
	struct shmipc_layout layout;
	struct shmipc_place *place;
	uint8_t *state; /* by chunk: enum loan_state */
	uint32_t *free; /* stack of the free chunks */
	uint32_t *chunk; /* by id of a call: its chunk */
	uint32_t n_free;
	uint32_t req_len; /* of the last request that was committed */
	uint32_t out; /* chunks that the user owns */
	const void *shown; /* the response that the running response function got, or NULL */
	bool held; /* the response function has called shmipc_client_hold() */
	const void *fetched; /* end of the last burst whose loans were prefetched */
};

struct shmipc_server_loans {
	struct shmipc_layout layout;
	struct shmipc_header *header;
	uint32_t *chunk; /* by index * depth + id: the chunk of the call */
	uint32_t *id; /* by index * loans + chunk: the last call that had this chunk */
	uint8_t *
		keep; /* by index * depth + id: the client has gone, but the request is not answered */
	uint32_t *kept; /* by index: the number of these requests */
	uint32_t resp_len; /* of the last response that was committed */
	const void *fetched; /* end of the last burst whose loans were prefetched */
};

/*
 * The init functions allocate memory if the region has loans, and return 0 or -ENOMEM. The caller
 * must free *loans_p also after -ENOMEM.
 */
int loans_client_init(const struct shmipc_layout *l, struct shmipc_client_loans **loans_p);
int loans_server_init(const struct shmipc_layout *l, struct shmipc_server_loans **loans_p);
void loans_client_free(struct shmipc_client_loans *loans);
void loans_server_free(struct shmipc_server_loans *loans);

/*
 * If the next message is a valid response to a call with a loan, consumes it, calls @fn with it and
 * returns true. Otherwise returns false and changes nothing.
 */
bool loans_client_take(struct shmipc_client *hot, uint64_t head, shmipc_response_fn *fn, void *arg);
/* Finds the chunk of a loan to commit. Returns 0, or an error of shmipc_client_commit(). */
int loans_client_find(const struct shmipc_client *hot, const void *loan, uint32_t len,
	uint32_t *chunk_p);
/* Records that @len bytes of a chunk are sent with this call. */
void loans_client_sent(struct shmipc_client *hot, uint32_t id, uint32_t chunk, uint32_t len);
/* Frees the chunk of a call that ends without a response. */
void loans_client_end(struct shmipc_client *hot, uint32_t id);

/*
 * If the message in @slot is a valid request in a loan, records it as unanswered, writes the
 * results and returns true. Otherwise returns false and changes nothing.
 */
bool loans_server_take(struct shmipc_server *hot, struct shmipc_peer *peer,
	const unsigned char *slot, struct shmipc_req *req_p, const void **payload_p);
/* Finds the client of a request in a loan. Returns 0, or an error of shmipc_server_loan(). */
int loans_server_find(struct shmipc_server *hot, uint64_t client, uint32_t id,
	struct shmipc_peer **peer_p);
/*
 * Called when a client has gone: marks its unanswered requests in loans as kept, so that the
 * client's place is not cleaned before they are answered.
 */
void loans_server_end(struct shmipc_server *hot, const struct shmipc_peer *peer);
/*
 * Called when a request of a client that has gone is answered. Returns true if it was the last kept
 * request.
 */
bool loans_server_drop(struct shmipc_server *hot, uint32_t index, uint32_t id);
/* Forgets the kept requests of a client that has gone. */
void loans_server_forget(struct shmipc_server *hot, uint32_t index);

/* Returns true if requests of the client that had this place are kept. */
static inline bool loans_server_keep(const struct shmipc_server *hot, uint32_t index)
{
	return hot->loans && hot->loans->kept[index];
}

#endif
