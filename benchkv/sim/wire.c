/* SPDX-License-Identifier: MIT */
#include "wire.h"

#include <errno.h>
#include <stdlib.h>

static int endpoint_grow(struct endpoint *e)
{
	uint32_t size = e->size ? e->size * 2 : 16;
	uint32_t *msgs = malloc(size * sizeof(*msgs));

	if (!msgs)
		return -ENOMEM;
	for (uint32_t i = e->head; i != e->tail; i++)
		msgs[i & (size - 1)] = e->msgs[i & (e->size - 1)];
	free(e->msgs);
	e->msgs = msgs;
	e->size = size;
	return 0;
}

int endpoint_append(struct endpoint *e, uint32_t message)
{
	int err = e->tail - e->head == e->size ? endpoint_grow(e) : 0;

	if (err)
		return err;
	e->msgs[e->tail++ & (e->size - 1)] = message;
	if (message & WIRE_RESPONSE)
		e->replies++;
	else
		e->calls++;
	return 0;
}

static void sift_up(struct arrival *heap, uint32_t i)
{
	struct arrival a = heap[i];

	while (i && heap[(i - 1) / 2].ns > a.ns) {
		heap[i] = heap[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	heap[i] = a;
}

static void sift_down(struct arrival *heap, uint32_t n)
{
	struct arrival a = heap[n];
	uint32_t i = 0, child;

	while ((child = 2 * i + 1) < n) {
		if (child + 1 < n && heap[child + 1].ns < heap[child].ns)
			child++;
		if (heap[child].ns >= a.ns)
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = a;
}

static int push(struct nic *nic, const struct arrival *a)
{
	if (nic->n == nic->size) {
		uint32_t size = nic->size ? nic->size * 2 : 64;
		struct arrival *heap = realloc(nic->heap, size * sizeof(*heap));

		if (!heap)
			return -ENOMEM;
		nic->heap = heap;
		nic->size = size;
	}
	nic->heap[nic->n] = *a;
	sift_up(nic->heap, nic->n++);
	return 0;
}

/* Counts what leaves: all that is gathered, or its first n. */
static uint32_t take_gathered(struct endpoint *e, uint32_t most)
{
	uint32_t n = e->tail - e->posted;

	if (n <= most) {
		e->pending += e->calls;
		e->calls = e->replies = 0;
		e->posted = e->tail;
		return n;
	}
	for (uint32_t i = 0; i < most; i++) {
		if (e->msgs[e->posted++ & (e->size - 1)] & WIRE_RESPONSE) {
			e->replies--;
		} else {
			e->calls--;
			e->pending++;
		}
	}
	return most;
}

int wire_post(const struct machine *m, struct nic *from, uint32_t rank, struct endpoint *e,
	struct nic *to, uint32_t most, uint64_t ns)
{
	uint32_t n = take_gathered(e, most);
	uint64_t begin = ns > from->send_free ? ns : from->send_free;
	double bytes = WIRE_MESSAGE_BYTES * (n + 1.0);

	e->writes++;
	from->send_free = begin + (uint64_t)(m->send_ns + bytes / m->bytes_per_ns);
	return push(to, &(struct arrival){.ns = from->send_free + (uint64_t)m->wire_ns,
				.from = rank,
				.messages = n,
				.consumed = e->received});
}

uint64_t wire_next(const struct machine *m, const struct nic *nic)
{
	uint64_t begin;

	if (!nic->n)
		return UINT64_MAX;
	begin = nic->heap[0].ns > nic->recv_free ? nic->heap[0].ns : nic->recv_free;
	return begin + (uint64_t)m->recv_ns;
}

bool wire_receive(const struct machine *m, struct nic *nic, uint64_t ns, struct arrival *a_p)
{
	uint64_t done = wire_next(m, nic);

	if (!nic->n || done > ns)
		return false;
	*a_p = nic->heap[0];
	nic->recv_free = done;
	if (--nic->n)
		sift_down(nic->heap, nic->n);
	return true;
}
