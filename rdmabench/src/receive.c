/* SPDX-License-Identifier: MIT */
/* Counts and checks receives, and checks the memory that the peer writes to. */
#include <string.h>

#include "payload.h"
#include "side.h"

uint64_t pattern_receives(const struct pattern *p, uint64_t requests)
{
	uint64_t n = requests / p->n * p->receives;

	for (uint64_t i = 0; i < requests % p->n; i++)
		n += p->request[i].receives;
	return n;
}

/* Returns the request of the pattern that consumes receive number n. There must be one. */
static const struct pattern_request *request_of(const struct pattern *p, uint64_t n)
{
	uint64_t nth = n % p->receives;

	for (const struct pattern_request *r = p->request;; r++) {
		if (r->receives && !nth--)
			return r;
	}
}

/*
 * Returns the number of a receive: the peer's QP numbers its requests that consume a receive, from
 * 0. The immediate contains the low 32 bits of the number, or the first 8 bytes of the payload
 * contain the number. A shorter payload is assumed to have the next number.
 */
static uint64_t number_of(const struct flow *f, const struct mlx5dvl_recv *r, const uint8_t *data,
	uint32_t len)
{
	uint64_t number = f->next_number;

	if (r->opcode != MLX5DVL_RECV_SEND)
		number += (uint32_t)(r->imm - (uint32_t)f->next_number);
	else if (len >= PAYLOAD_NUMBER)
		memcpy(&number, data, PAYLOAD_NUMBER);
	return number;
}

static bool content_is_right(const struct flow *f, const struct mlx5dvl_recv *r,
	const uint8_t *data, uint32_t len, uint64_t number)
{
	const struct pattern *p = &f->peer->side->t.pattern;
	uint32_t skip = len >= PAYLOAD_NUMBER ? PAYLOAD_NUMBER : 0;
	const struct pattern_request *want;
	uint64_t told;

	if (!p->receives)
		return false;
	want = request_of(p, number);
	if (len != want->total ||
		(want->opcode == MLX5DVL_WRITE_IMM) != (r->opcode == MLX5DVL_RECV_WRITE_IMM))
		return false;
	if (want->opcode == MLX5DVL_WRITE_IMM)
		return true; /* the content is in memory: flow_verify() checks it */
	if (skip) {
		memcpy(&told, data, PAYLOAD_NUMBER);
		if (told != number)
			return false;
	}
	return payload_is(data + skip, len - skip,
		payload_seed(f->remote_qpn, PAYLOAD_SEND, number));
}

static void check_receive(struct flow *f, const struct mlx5dvl_recv *r, const uint8_t *data,
	uint32_t len)
{
	struct side *s = f->peer->side;
	uint64_t number = number_of(f, r, data, len);
	bool in_order =
		number == f->next_number || (s->t.type != MLX5DVL_RC && number > f->next_number &&
						    number - f->next_number < UINT32_MAX / 2);

	if (!in_order || !content_is_right(f, r, data, len, number)) {
		s->mismatches++;
		f->peer->mismatches++;
		f->next_number++;
		return;
	}
	s->lost += number - f->next_number;
	f->next_number = number + 1;
}

/* Compares a WRITE. In a ping-pong its last byte is the mark of flow_mark(). */
static bool write_is_right(const struct flow *f, const uint8_t *at, uint32_t len, uint64_t number)
{
	bool marked = f->peer->side->t.pingpong;

	return payload_is(at, len - marked, payload_seed(f->remote_qpn, PAYLOAD_WRITE, number)) &&
	       (!marked || at[len - 1] == flow_mark(number));
}

bool flow_has_write(const struct flow *f, uint64_t number)
{
	const struct side *s = f->peer->side;
	uint32_t len = s->t.pattern.largest;
	const uint8_t *at =
		f->mem + s->layout.write_at + number % s->layout.slots * s->layout.stride;

	/* Pairs with the device's write of the payload, of which this byte is the last. */
	if (__atomic_load_n(&at[len - 1], __ATOMIC_ACQUIRE) != flow_mark(number))
		return false;
	return !s->t.check || write_is_right(f, at, len, number);
}

void flow_on_recv(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_recv *recv)
{
	struct flow *f = mlx5dvl_qp_user(qp);
	struct side *s = f->peer->side;
	uint32_t skip = s->t.type == MLX5DVL_UD ? MLX5DVL_GRH_BYTES : 0;
	uint32_t len = recv->len < skip ? 0 : recv->len - skip;
	const uint8_t *data = recv->buf; /* NULL if receives have no memory */

	f->received++;
	f->received_bytes += len;
	s->recv_messages++;
	s->recv_bytes += len;
	if (s->t.check)
		check_receive(f, recv, data ? data + skip : NULL, len);
}

/*
 * Compares the last write to each slot. Bytes after this write, which an earlier, longer one may
 * have left, are not compared.
 */
static uint64_t verify_writes(const struct flow *f, uint64_t requests)
{
	const struct side *s = f->peer->side;
	uint64_t window = (uint64_t)s->layout.slots * s->t.pattern.n, wrong = 0;
	uint64_t first = requests > window ? requests - window : 0;
	bool seen[TRAFFIC_DEPTH_MAX] = {false};

	for (uint64_t k = requests; k-- > first;) {
		const struct pattern_request *r = &s->t.pattern.request[k % s->t.pattern.n];
		uint64_t slot = k % s->layout.slots;
		const uint8_t *at = f->mem + s->layout.write_at + slot * s->layout.stride;

		if (r->kind != PATTERN_WRITE || seen[slot])
			continue;
		seen[slot] = true;
		wrong += !write_is_right(f, at, r->total, k);
	}
	return wrong;
}

static uint64_t count_of(const struct pattern *p, uint8_t opcode, uint64_t requests)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < p->n; i++) {
		if (p->request[i].opcode == opcode)
			n += requests / p->n + (i < requests % p->n);
	}
	return n;
}

uint64_t flow_verify(const struct flow *f, uint64_t requests)
{
	const struct side *s = f->peer->side;
	uint64_t words[2], wrong;

	memcpy(words, f->mem + s->layout.atomic_at, sizeof(words));
	wrong = verify_writes(f, requests);
	wrong += words[0] != count_of(&s->t.pattern, MLX5DVL_FETCH_ADD, requests);
	wrong += words[1] != count_of(&s->t.pattern, MLX5DVL_CMP_SWAP, requests);
	return wrong;
}
