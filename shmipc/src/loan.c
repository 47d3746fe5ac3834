/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "loan.h"

#define LOAN_LONG 1024 /* after a longer payload, two lines of the next one are prefetched */

/* Reads the payload of a message once, because another process may change it at any time. */
static struct loan_message message_read(const unsigned char *slot)
{
	struct loan_message m;
	/* Relaxed: cellring_look() has loaded the burst's head with acquire. */
	uint64_t word = __atomic_load_n((const uint64_t *)cellring_payload(slot), __ATOMIC_RELAXED);

	static_assert(sizeof(m) == sizeof(word), "one load");
	memcpy(&m, &word, sizeof(m));
	return m;
}

/*
 * Prefetches, for writing, the two lines of a payload that its last reader has most likely
 * accessed: the first and the last. Otherwise the writer's stores would wait for the transfer of
 * each line.
 */
static void own_ends(const unsigned char *at, uint32_t len)
{
	cellring_own(at, 1);
	cellring_own(at + len - 1, 1);
}

/* Prefetches, for reading, the same two lines of a payload. @len is not checked yet. */
static void fetch_ends(const unsigned char *at, uint32_t len, uint32_t most)
{
	uint32_t last = len - 1;

	__builtin_prefetch(at);
	if (last < most)
		__builtin_prefetch(at + last);
}

/* ---- client ---- */

int loans_client_init(const struct shmipc_layout *l, struct shmipc_client_loans **loans_p)
{
	struct shmipc_client_loans *loans;
	uint32_t n = l->attr.loans;

	if (!n)
		return 0;
	loans = calloc_lines(1, sizeof(*loans));
	if (!loans)
		return -ENOMEM;
	loans->layout = *l;
	loans->state = calloc(n, sizeof(*loans->state));
	loans->free = calloc(n, sizeof(*loans->free));
	loans->chunk = calloc(l->attr.depth, sizeof(*loans->chunk));
	if (!loans->state || !loans->free || !loans->chunk) {
		loans_client_free(loans);
		return -ENOMEM;
	}
	while (loans->n_free < n) {
		loans->free[loans->n_free] = n - 1 - loans->n_free;
		loans->n_free++;
	}
	*loans_p = loans;
	return 0;
}

void loans_client_free(struct shmipc_client_loans *loans)
{
	if (!loans)
		return;
	free(loans->state);
	free(loans->free);
	free(loans->chunk);
	free(loans);
}

static unsigned char *chunk_of(const struct shmipc_client_loans *loans, uint32_t chunk)
{
	return shmipc_place_chunk(&loans->layout, loans->place, chunk);
}

static void give_back(struct shmipc_client_loans *loans, uint32_t chunk)
{
	loans->state[chunk] = LOAN_FREE;
	loans->free[loans->n_free++] = chunk;
}

/*
 * Finds the chunk that has a request (if the state is LOAN_OUT) or a response (in other states) at
 * this address. Returns false if there is none in this state.
 */
static bool chunk_find(const struct shmipc_client_loans *loans, const void *at,
	enum loan_state state, uint32_t *chunk_p)
{
	const struct shmipc_layout *l = &loans->layout;
	uint64_t offset = (uintptr_t)at - (uintptr_t)chunk_of(loans, 0);
	uint64_t chunk = offset / l->chunk;

	if (chunk >= l->attr.loans || offset % l->chunk != (state == LOAN_OUT ? 0 : l->loan_resp) ||
		loans->state[chunk] != state)
		return false;
	*chunk_p = (uint32_t)chunk;
	return true;
}

int shmipc_client_loan(struct shmipc_client *hot, void **loan_p)
{
	struct shmipc_client_loans *loans = hot->loans;
	uint32_t chunk;

	if (!loans)
		return -EINVAL;
	if (!loans->n_free)
		return -EAGAIN;
	chunk = loans->free[--loans->n_free];
	loans->state[chunk] = LOAN_OUT;
	loans->out++;
	if (loans->n_free && loans->req_len > LOAN_LONG)
		own_ends(chunk_of(loans, loans->free[loans->n_free - 1]), loans->req_len);
	*loan_p = chunk_of(loans, chunk);
	return 0;
}

int loans_client_find(const struct shmipc_client *hot, const void *loan, uint32_t len,
	uint32_t *chunk_p)
{
	if (!hot->loans || !chunk_find(hot->loans, loan, LOAN_OUT, chunk_p))
		return -EINVAL;
	return len > hot->loans->layout.attr.loan_req_size ? -EMSGSIZE : 0;
}

void loans_client_sent(struct shmipc_client *hot, uint32_t id, uint32_t chunk, uint32_t len)
{
	hot->loans->chunk[id] = chunk;
	hot->loans->state[chunk] = LOAN_SENT;
	hot->loans->req_len = len;
	hot->loans->out--;
}

int shmipc_client_hold(struct shmipc_client *hot, const void *resp)
{
	struct shmipc_client_loans *loans = hot->loans;
	uint32_t chunk;

	if (!loans || !resp || resp != loans->shown || !chunk_find(loans, resp, LOAN_SENT, &chunk))
		return -EINVAL;
	loans->state[chunk] = LOAN_HELD;
	loans->held = true;
	loans->out++;
	return 0;
}

int shmipc_client_release(struct shmipc_client *hot, const void *loan)
{
	struct shmipc_client_loans *loans = hot->loans;
	uint32_t chunk;

	if (!loans || (!chunk_find(loans, loan, LOAN_OUT, &chunk) &&
			      !chunk_find(loans, loan, LOAN_HELD, &chunk)))
		return -EINVAL;
	loans->out--;
	give_back(loans, chunk);
	return 0;
}

/* Finds a response and its length, in the loan or in the ring. Returns false if it is too long. */
static bool response_find(const struct shmipc_client *hot, uint64_t head, uint32_t chunk,
	const void **resp_p, uint32_t *len_p)
{
	const struct shmipc_client_loans *loans = hot->loans;

	if (CELLRING_ID(head) & LOAN_BIT) {
		*resp_p = chunk_of(loans, chunk) + loans->layout.loan_resp;
		*len_p = message_read(hot->resp.slot).len;
		return *len_p <= loans->layout.attr.loan_resp_size;
	}
	*resp_p = cellring_payload(hot->resp.slot);
	*len_p = CELLRING_LENGTH(head);
	return *len_p <= hot->resp_size;
}

/*
 * Prefetches the loans of all responses that have arrived together, once. Otherwise each call of
 * the response function would wait for the lines of its response. The ids in the ring are not
 * checked yet.
 */
static void responses_fetch(const struct shmipc_client *hot, struct shmipc_client_loans *loans)
{
	const struct shmipc_layout *l = &loans->layout;
	const struct cellring_cursor *c = &hot->resp;

	if (loans->fetched == c->ready)
		return;
	loans->fetched = c->ready;
	for (const unsigned char *slot = c->slot; slot != c->ready; slot += c->stride) {
		uint32_t id = CELLRING_ID(cellring_head(slot)) ^ LOAN_BIT;

		if (id < hot->depth)
			fetch_ends(chunk_of(loans, loans->chunk[id]) + l->loan_resp,
				message_read(slot).len, l->attr.loan_resp_size);
	}
}

bool loans_client_take(struct shmipc_client *hot, uint64_t head, shmipc_response_fn *fn, void *arg)
{
	struct shmipc_client_loans *loans = hot->loans;
	uint32_t id = CELLRING_ID(head) & ~LOAN_BIT, chunk, len;
	const void *resp;

	if (id >= hot->depth || hot->calls[id].state != SHMIPC_CALL_LOANED ||
		!response_find(hot, head, loans->chunk[id], &resp, &len))
		return false;
	responses_fetch(hot, loans);
	hot->calls[id].state = SHMIPC_CALL_FREE;
	hot->calls[(hot->depth + hot->answered++) & hot->calls_mask].free = id;
	cellring_next(&hot->resp);
	loans->shown = resp;
	loans->held = false;
	chunk = loans->chunk[id]; /* fn may make a call that gets this id */
	fn(arg, hot->calls[id].token, resp, len);
	loans->shown = NULL;
	if (!loans->held)
		give_back(loans, chunk);
	return true;
}

void loans_client_end(struct shmipc_client *hot, uint32_t id)
{
	give_back(hot->loans, hot->loans->chunk[id]);
}

/* ---- server ---- */

int loans_server_init(const struct shmipc_layout *l, struct shmipc_server_loans **loans_p)
{
	size_t n = l->attr.max_clients;
	struct shmipc_server_loans *loans;

	if (!l->attr.loans)
		return 0;
	loans = calloc_lines(1, sizeof(*loans));
	if (!loans)
		return -ENOMEM;
	loans->layout = *l;
	loans->chunk = calloc(n * l->attr.depth, sizeof(*loans->chunk));
	loans->id = calloc(n * l->attr.loans, sizeof(*loans->id));
	loans->keep = calloc(n, l->attr.depth);
	loans->kept = calloc(n, sizeof(*loans->kept));
	*loans_p = loans;
	return loans->chunk && loans->id && loans->keep && loans->kept ? 0 : -ENOMEM;
}

void loans_server_free(struct shmipc_server_loans *loans)
{
	if (!loans)
		return;
	free(loans->chunk);
	free(loans->id);
	free(loans->keep);
	free(loans->kept);
	free(loans);
}

static unsigned char *peer_chunk(const struct shmipc_server_loans *loans, uint32_t index,
	uint32_t chunk)
{
	return shmipc_place_chunk(&loans->layout,
		shmipc_place(&loans->layout, loans->header, index), chunk);
}

static uint32_t *peer_chunks(const struct shmipc_server_loans *loans, uint32_t index)
{
	return loans->chunk + (size_t)index * loans->layout.attr.depth;
}

/* Returns true if a request of this client, in this chunk, is not answered. */
static bool chunk_is_taken(const struct shmipc_server_loans *loans, const struct shmipc_peer *peer,
	uint32_t chunk)
{
	uint32_t id = loans->id[(size_t)peer->index * loans->layout.attr.loans + chunk];

	return peer->open[id] == SHMIPC_OPEN_LOANED && peer_chunks(loans, peer->index)[id] == chunk;
}

/* Prefetches, for writing, the memory for the response to the next request. */
static void own_next_response(const struct shmipc_server_loans *loans,
	const struct shmipc_peer *peer)
{
	struct loan_message m = message_read(peer->req.slot);

	if (m.chunk < loans->layout.attr.loans)
		own_ends(peer_chunk(loans, peer->index, m.chunk) + loans->layout.loan_resp,
			loans->resp_len);
}

/* Like responses_fetch(), for requests. The numbers of chunks in the ring are not checked yet. */
static void requests_fetch(struct shmipc_server_loans *loans, const struct shmipc_peer *peer,
	const unsigned char *slot)
{
	const struct shmipc_attr *a = &loans->layout.attr;
	const struct cellring_cursor *c = &peer->req;

	if (loans->fetched == c->ready || c->slot == c->ready)
		return;
	loans->fetched = c->ready;
	for (; slot != c->ready; slot += c->stride) {
		struct loan_message m = message_read(slot);

		if (CELLRING_ID(cellring_head(slot)) & LOAN_BIT && m.chunk < a->loans)
			fetch_ends(peer_chunk(loans, peer->index, m.chunk), m.len,
				a->loan_req_size);
	}
}

bool loans_server_take(struct shmipc_server *hot, struct shmipc_peer *peer,
	const unsigned char *slot, struct shmipc_req *req_p, const void **payload_p)
{
	struct shmipc_server_loans *loans = hot->loans;
	const struct shmipc_attr *a = &loans->layout.attr;
	struct loan_message m = message_read(slot);
	uint32_t id = CELLRING_ID(cellring_head(slot));

	if (!(id & LOAN_BIT))
		return false;
	id &= ~LOAN_BIT;
	if (id >= hot->depth || peer->open[id])
		return false;
	if (m.chunk >= a->loans || m.len > a->loan_req_size || chunk_is_taken(loans, peer, m.chunk))
		return false;
	requests_fetch(loans, peer, slot);
	peer->open[id] = SHMIPC_OPEN_LOANED;
	peer_chunks(loans, peer->index)[id] = m.chunk;
	loans->id[(size_t)peer->index * a->loans + m.chunk] = id;
	hot->requests++;
	if (loans->resp_len > LOAN_LONG && peer->req.slot != peer->req.ready)
		own_next_response(loans, peer);
	*req_p = (struct shmipc_req){peer->handle, id, m.len};
	*payload_p = peer_chunk(loans, peer->index, m.chunk);
	return true;
}

int loans_server_find(struct shmipc_server *hot, uint64_t client, uint32_t id,
	struct shmipc_peer **peer_p)
{
	uint32_t index = SHMIPC_CLIENT_INDEX(client);
	struct shmipc_peer *peer;

	if (!hot->loans || index >= hot->max_clients)
		return -EINVAL;
	peer = &hot->peers[index];
	if (peer->handle != client)
		return -EPIPE;
	if (id >= hot->depth || peer->open[id] != SHMIPC_OPEN_LOANED)
		return -EINVAL;
	*peer_p = peer;
	return 0;
}

int shmipc_server_loan(struct shmipc_server *hot, uint64_t client, uint32_t id, void **loan_p)
{
	struct shmipc_peer *peer;
	int err = loans_server_find(hot, client, id, &peer);

	if (!err)
		*loan_p = peer_chunk(hot->loans, peer->index,
				  peer_chunks(hot->loans, peer->index)[id]) +
			  hot->loans->layout.loan_resp;
	return err;
}

void loans_server_end(struct shmipc_server *hot, const struct shmipc_peer *peer)
{
	struct shmipc_server_loans *loans = hot->loans;
	uint8_t *keep = loans->keep + (size_t)peer->index * hot->depth;

	for (uint32_t id = 0; id < hot->depth; id++) {
		keep[id] = peer->open[id] == SHMIPC_OPEN_LOANED;
		loans->kept[peer->index] += keep[id];
	}
}

bool loans_server_drop(struct shmipc_server *hot, uint32_t index, uint32_t id)
{
	struct shmipc_server_loans *loans = hot->loans;
	uint8_t *keep = loans ? &loans->keep[(size_t)index * hot->depth + id] : NULL;

	if (!keep || !*keep)
		return false;
	*keep = 0;
	return !--loans->kept[index];
}

void loans_server_forget(struct shmipc_server *hot, uint32_t index)
{
	if (!hot->loans)
		return;
	memset(hot->loans->keep + (size_t)index * hot->depth, 0, hot->depth);
	hot->loans->kept[index] = 0;
}
