/* SPDX-License-Identifier: MIT */
/*
 * Memory that rails do not reach, such as that of a GPU. A request is cut into chunks. Rails move a
 * chunk between slots, which are pinned memory of the host, and the GPU of each side copies between
 * the slot and the memory. Many chunks are under way, so copies and rails work at the same time.
 *
 *	a write	LOADING		our GPU copies to our slot
 *		ASKING		STAGE_TAKE: the peer reserves a slot
 *		MOVING		over rails, as a request of its own
 *		LANDING		STAGE_LAND: the peer's GPU copies from its slot
 *	a read	ASKING		STAGE_FETCH: the peer's GPU copies to a slot of the peer
 *		MOVING		then STAGE_FREE
 *		STORING		our GPU copies from our slot
 *
 * A side whose memory is reached by rails has no slot and no copies. A chunk gets our slot before
 * it requests one of the peer, and own chunks and chunks of peers have separate slots. So two
 * engines never wait for each other's slots.
 */
#include <errno.h>
#include <stdlib.h>

#include "engine.h"

enum {
	CHUNK_NEW,
	CHUNK_LOADING,
	CHUNK_ASKING,
	CHUNK_MOVING,
	CHUNK_LANDING,
	CHUNK_STORING,
	CHUNK_ENDED,
};

#define OF_LANDING (1ull << 32) /* set: a copy's token contains a slot; not set: a chunk */

static uint64_t slot_at(const struct buffer *stage, uint32_t slot)
{
	return stage->addr + slot * STAGE_SLOT_LEN;
}

static uint64_t address(const struct stage_msg *m)
{
	return (uint64_t)m->addr_high << 32 | m->addr_low;
}

/* ---- requests ---- */

/* True: rails do not reach our memory. */
static bool here(const struct task *k)
{
	return k->buffer->of_gpu && k->buffer->staged && !k->batch->t->transport->gpus;
}

/* Ends a request that has no chunk under way, if it has failed or is cut completely. */
static void end_request(struct tent *t, uint32_t id)
{
	struct task *k = &t->tasks[id];

	if (k->chunks || (!k->err && k->cut < k->request.len))
		return;
	tasks_remove(t, &k->request.segment->staged, id);
	task_arrived(k->request.segment, id, k->err);
}

static uint32_t task_of(const struct tent *t, const struct chunk *c)
{
	return t->task_ids.capacity + (uint32_t)(c - t->chunks);
}

/*
 * Starts no more chunks, and ends those that rails move. The other chunks end soon by themselves.
 */
static void stop_request(struct tent *t, uint32_t id, int err)
{
	struct task *k = &t->tasks[id];

	if (!k->err)
		k->err = err;
	k->chunks++; /* the request must not end in this loop */
	for (uint32_t i = 0; i < STAGE_CHUNKS; i++) {
		struct chunk *c = &t->chunks[i];

		if (slab_in_use(&t->chunk_ids, i) && c->parent == id && c->state == CHUNK_MOVING)
			task_stop(t, task_of(t, c), err);
	}
	k->chunks--;
	end_request(t, id);
}

void stage_or_wait(struct tent *t, uint32_t id)
{
	struct task *k = &t->tasks[id];

	if (here(k) || k->remote->staged) {
		k->state = TASK_STAGED;
		k->stop = stop_request;
		tasks_append(t, &k->request.segment->staged, id);
	} else {
		task_wait(k->request.segment, id);
	}
}

/* ---- chunks ---- */

static bool is_write(const struct tent *t, const struct chunk *c)
{
	return t->tasks[c->parent].request.op == TENT_WRITE;
}

static uint64_t own_address(const struct tent *t, const struct chunk *c)
{
	return (uintptr_t)t->tasks[c->parent].request.local + c->at;
}

static void ask(struct chunk *c, enum stage_op op)
{
	uint64_t addr = c->s->t->tasks[c->parent].request.remote + c->at;
	struct ctl_msg msg = {.type = CTL_STAGE,
		.stage = {(uint32_t)addr, (uint32_t)(addr >> 32), (uint32_t)c->len,
			(uint32_t)(c - c->s->t->chunks), c->theirs, op}};

	if (!c->s->lost)
		peer_send(c->s, &msg);
}

/*
 * Frees the peer's slot. If a fence has timed out, bytes may still arrive in the slot now, but not
 * after the peer has handled FENCE, which it does before FREE.
 */
static void free_theirs(struct chunk *c)
{
	if (c->theirs != NO_SLOT)
		ask(c, STAGE_FREE);
	c->theirs = NO_SLOT;
}

static void end_chunk(struct tent *t, struct chunk *c)
{
	struct task *k = &t->tasks[c->parent];

	free_theirs(c);
	if (c->mine != NO_SLOT)
		slab_put(&t->out_slots, c->mine);
	slab_put(&t->chunk_ids, (uint32_t)(c - t->chunks));
	c->s->chunks--;
	c->s->again = true;
	loop_wake(t, 0); /* another segment may wait for the slot */
	if (!k->err)
		k->err = c->err;
	if (!c->err)
		k->bytes += c->len;
	k->chunks--;
	end_request(t, c->parent);
}

/* Copies between our slot and our memory. */
static void copy(struct tent *t, struct chunk *c, bool to_slot)
{
	uint64_t slot = slot_at(t->stage_out, c->mine), own = own_address(t, c);
	const struct gpu_copy copy = {.to = to_slot ? slot : own,
		.from = to_slot ? own : slot,
		.len = c->len,
		.token = (uint64_t)(c - t->chunks)};

	gpu_copies_add(t->copies, &copy);
}

static void chunk_moved(struct tent *t, uint32_t id, int err);

static int move(struct tent *t, struct chunk *c)
{
	const struct task *k = &t->tasks[c->parent];
	uint32_t id = task_of(t, c);
	struct task *move = &t->tasks[id];

	*move = (struct task){.batch = k->batch,
		.request = k->request,
		.buffer = c->mine != NO_SLOT ? t->stage_out : k->buffer,
		.remote = k->remote->staged ? c->s->desc.stage : k->remote,
		.ended = chunk_moved};
	move->request.len = c->len;
	move->request.local =
		(void *)(uintptr_t)(c->mine != NO_SLOT ? slot_at(t->stage_out, c->mine) :
							 own_address(t, c));
	move->request.remote = c->theirs != NO_SLOT ?
				       c->s->desc.stage->addr + c->theirs * STAGE_SLOT_LEN :
				       k->request.remote + c->at;
	move->place = place_of(c->s, move->buffer, move->remote);
	if (task_cut(move))
		return -ENOMEM;
	task_wait(c->s, id);
	c->s->again = true;
	return 0;
}

/* True: chunks of this request enter this state. */
static bool has_state(const struct task *k, uint32_t state)
{
	bool write = k->request.op == TENT_WRITE;

	switch (state) {
	case CHUNK_LOADING:
		return write && here(k);
	case CHUNK_STORING:
		return !write && here(k);
	case CHUNK_ASKING:
		return k->remote->staged;
	case CHUNK_LANDING:
		return write && k->remote->staged;
	default:
		return true;
	}
}

/* Enters the chunk's next state, or ends the chunk. */
static void step(struct tent *t, struct chunk *c)
{
	const struct task *k = &t->tasks[c->parent];

	if (!c->err)
		c->err = k->err;
	do {
		c->state = c->err ? CHUNK_ENDED : c->state + 1;
	} while (!has_state(k, c->state));
	switch (c->state) {
	case CHUNK_LOADING:
	case CHUNK_STORING:
		free_theirs(c);
		copy(t, c, c->state == CHUNK_LOADING);
		break;
	case CHUNK_ASKING:
		ask(c, is_write(t, c) ? STAGE_TAKE : STAGE_FETCH);
		break;
	case CHUNK_MOVING:
		c->err = move(t, c);
		if (c->err)
			end_chunk(t, c);
		break;
	case CHUNK_LANDING:
		ask(c, STAGE_LAND);
		break;
	default:
		end_chunk(t, c);
	}
}

static void chunk_moved(struct tent *t, uint32_t id, int err)
{
	struct chunk *c = &t->chunks[id - t->task_ids.capacity];

	free(t->tasks[id].cuts);
	t->tasks[id].cuts = NULL;
	t->tasks[c->parent].pairs |= t->tasks[id].pairs;
	c->err = err;
	step(t, c);
}

/*
 * Cuts a chunk off the request, unless the request has failed. False: there is no room for another
 * chunk.
 */
static bool begin_chunk(struct tent *t, uint32_t id)
{
	struct task *k = &t->tasks[id];
	uint64_t left = k->request.len - k->cut;
	uint32_t n, mine = NO_SLOT;

	if (k->err) { /* its last chunk under way ends it */
		tasks_remove(t, &k->request.segment->staged, id);
		return true;
	}
	n = slab_get(&t->chunk_ids);
	if (n != SLAB_NONE && here(k))
		mine = slab_get(&t->out_slots);
	if (n == SLAB_NONE || (here(k) && mine == SLAB_NONE)) {
		if (n != SLAB_NONE)
			slab_put(&t->chunk_ids, n);
		return false;
	}
	t->chunks[n] = (struct chunk){.s = k->request.segment,
		.parent = id,
		.at = k->cut,
		.len = left < STAGE_SLOT_LEN ? left : STAGE_SLOT_LEN,
		.mine = mine,
		.theirs = NO_SLOT};
	k->cut += t->chunks[n].len;
	k->chunks++;
	k->request.segment->chunks++;
	if (k->cut == k->request.len)
		tasks_remove(t, &k->request.segment->staged, id);
	step(t, &t->chunks[n]);
	return true;
}

void stage_start(struct tent_segment *s)
{
	while (s->staged.head != NO_TASK && s->chunks < STAGE_SLOTS &&
		begin_chunk(s->t, s->staged.head))
		;
}

/* ---- the peer's replies ---- */

static bool waits(const struct chunk *c)
{
	return c->state == CHUNK_ASKING || c->state == CHUNK_LANDING;
}

int stage_answered(struct tent_segment *s, const struct ctl_msg *msg)
{
	const struct stage_msg *m = &msg->stage;
	struct tent *t = s->t;
	struct chunk *c = &t->chunks[m->chunk % STAGE_CHUNKS];

	if (m->chunk >= STAGE_CHUNKS || c->s != s || !waits(c))
		return -EPROTO;
	c->err = -(int)msg->status;
	if (c->state == CHUNK_LANDING)
		c->theirs = NO_SLOT;
	else if (!c->err && (m->slot + 1ull) * STAGE_SLOT_LEN > s->desc.stage->len)
		return -EPROTO;
	else if (!c->err)
		c->theirs = m->slot;
	step(t, c);
	return 0;
}

void stage_lost(struct tent_segment *s)
{
	struct tent *t = s->t;

	for (uint32_t i = 0; i < STAGE_CHUNKS && s->chunks; i++) {
		struct chunk *c = &t->chunks[i];

		if (c->s != s || !waits(c))
			continue;
		c->err = s->lost;
		step(t, c);
	}
	for (uint32_t id = s->staged.head, next; id != NO_TASK; id = next) {
		next = t->tasks[id].next;
		stop_request(t, id, s->lost);
	}
}

/* ---- the target's side ---- */

static void reply(struct conn *c, uint32_t chunk, uint32_t slot, int err)
{
	struct ctl_msg msg = {.type = CTL_STAGED,
		.status = (uint16_t)-err,
		.stage = {.chunk = chunk, .slot = slot}};

	conn_send(c, &msg);
}

static void free_slot(struct tent *t, uint32_t slot)
{
	struct landing *l = &t->landings[slot];

	l->conn->slots--;
	l->conn = NULL;
}

/*
 * Copies between a slot and the memory that @m names. 0; -EACCES: that memory is not registered, or
 * rails reach it.
 */
static int copy_for_peer(struct tent *t, uint32_t slot, const struct stage_msg *m, bool to_slot)
{
	struct landing *l = &t->landings[slot];
	uint64_t addr = address(m), at = slot_at(t->stage_in, slot);
	struct gpu_copy copy = {.to = to_slot ? at : addr,
		.from = to_slot ? addr : at,
		.len = m->len,
		.token = OF_LANDING | slot};

	l->buffer = buffer_find(t, addr, m->len);
	if (!l->buffer || !l->buffer->staged)
		return -EACCES;
	l->buffer->copies++;
	l->copying = true;
	l->fetched = to_slot;
	gpu_copies_add(t->copies, &copy);
	return 0;
}

/* The connection that has waited longest for a slot, of those that may have one more; or NULL. */
static struct conn *next_conn(const struct tent *t)
{
	struct conn *next = NULL;

	for (struct conn *c = t->conns; c; c = c->next) {
		if (c->ask_head == c->ask_tail || c->slots == STAGE_OF_CONN)
			continue;
		if (!next || c->asks[c->ask_head % STAGE_SLOTS].order <
				     next->asks[next->ask_head % STAGE_SLOTS].order)
			next = c;
	}
	return next;
}

/* Gives a free slot to the connection. */
static void give(struct tent *t, struct conn *c, uint32_t slot)
{
	const struct stage_msg *m = &c->asks[c->ask_head++ % STAGE_SLOTS].msg;
	int err = 0;

	t->landings[slot].conn = c;
	t->landings[slot].chunk = m->chunk;
	c->slots++;
	if (m->op == STAGE_FETCH)
		err = copy_for_peer(t, slot, m, true);
	if (err || m->op == STAGE_TAKE)
		reply(c, m->chunk, slot, err);
	if (err)
		free_slot(t, slot);
}

static void give_slots(struct tent *t)
{
	for (uint32_t slot = 0; slot < STAGE_SLOTS; slot++) {
		struct landing *l = &t->landings[slot];
		struct conn *c;

		while (!l->conn && !l->copying && (c = next_conn(t)))
			give(t, c, slot);
	}
}

static void landed(struct tent *t, uint32_t slot, int status)
{
	struct landing *l = &t->landings[slot];

	l->copying = false;
	if (!--l->buffer->copies)
		pthread_cond_broadcast(&t->ended);
	if (l->conn) {
		reply(l->conn, l->chunk, slot, status);
		if (!l->fetched || status)
			free_slot(t, slot);
	}
	give_slots(t);
}

/* True: the peer has the slot, and may use it now. */
static bool has_slot(const struct tent *t, const struct conn *c, uint32_t slot)
{
	return slot < STAGE_SLOTS && t->landings[slot].conn == c && !t->landings[slot].copying;
}

static int land(struct tent *t, struct conn *c, const struct stage_msg *m)
{
	int err;

	if (!has_slot(t, c, m->slot))
		return -EPROTO;
	t->landings[m->slot].chunk = m->chunk;
	err = copy_for_peer(t, m->slot, m, false);
	if (!err)
		return 0;
	reply(c, m->chunk, m->slot, err);
	free_slot(t, m->slot);
	give_slots(t);
	return 0;
}

int stage_asked(struct tent *t, struct conn *c, const struct ctl_msg *msg)
{
	const struct stage_msg *m = &msg->stage;

	if (!t->stage_in || !m->len || m->len > STAGE_SLOT_LEN)
		return -EPROTO;
	switch (m->op) {
	case STAGE_TAKE:
	case STAGE_FETCH:
		if (c->ask_tail - c->ask_head == STAGE_SLOTS)
			return -EPROTO;
		c->asks[c->ask_tail++ % STAGE_SLOTS] = (struct stage_ask){*m, t->n_asks++};
		break;
	case STAGE_LAND:
		return land(t, c, m);
	case STAGE_FREE:
		if (!has_slot(t, c, m->slot))
			return -EPROTO;
		free_slot(t, m->slot);
		break;
	default:
		return -EPROTO;
	}
	give_slots(t);
	return 0;
}

void stage_left(struct tent *t, const struct conn *c)
{
	for (uint32_t slot = 0; slot < STAGE_SLOTS; slot++) {
		if (t->landings[slot].conn == c)
			free_slot(t, slot);
	}
	if (t->copies)
		give_slots(t);
}

/* ---- copies ---- */

static void on_copied(void *arg, uint64_t token, int status)
{
	struct tent *t = arg;

	if (token & OF_LANDING) {
		landed(t, (uint32_t)token, status);
		return;
	}
	t->chunks[token].err = status;
	step(t, &t->chunks[token]);
}

bool stage_progress(struct tent *t)
{
	return t->copies && gpu_copies_take(t->copies, on_copied, t);
}

void stage_fini(struct tent *t)
{
	gpu_copies_free(t->copies);
	t->copies = NULL;
	for (uint32_t i = 0; i < STAGE_CHUNKS && t->tasks; i++)
		free(t->tasks[t->task_ids.capacity + i].cuts);
}
