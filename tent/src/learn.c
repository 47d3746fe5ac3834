/* SPDX-License-Identifier: MIT */
/* The initiator's side of grow.c: learns of registrations of the peer. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

#define TEXT_MAX (1u << 25) /* maximum number of bytes of a peer's description */

static void ask(struct tent_segment *s)
{
	struct ctl_msg msg = {.type = CTL_MORE, .epoch = s->growth.version};

	s->growth.asked = true;
	peer_send(s, &msg);
}

void learn_told(struct tent_segment *s, uint32_t version)
{
	struct growth *g = &s->growth;

	if (version > g->told)
		g->told = version;
	if (g->told > g->version && !g->asked)
		ask(s);
}

/* Appends to the text, with room for a final 0. */
static int append(struct growth *g, const struct ctl_msg *msg)
{
	if (!g->asked || !msg->rail || msg->rail > CTL_TEXT || g->len + msg->rail > TEXT_MAX)
		return -EPROTO;
	if (g->len + msg->rail >= g->room) {
		size_t room = 2 * g->room + CTL_TEXT + 1;
		char *text = realloc(g->text, room);

		if (!text)
			return -ENOMEM;
		g->text = text;
		g->room = room;
	}
	memcpy(g->text + g->len, msg->text, msg->rail);
	g->len += msg->rail;
	g->text[g->len] = 0;
	return 0;
}

static void prepare(struct tent_segment *s, struct desc_buffer *b)
{
	places_add(s, b);
	lent_map(s, b);
}

/*
 * Moves the buffers of @more to the segment's description, and the staging buffer of @more if the
 * segment has none.
 */
static int take_all(struct tent_segment *s, struct desc *more, uint32_t version)
{
	int err = 0;

	if (more->stage && !s->desc.stage) {
		s->desc.stage = more->stage;
		more->stage = NULL;
		prepare(s, s->desc.stage);
	}
	while (more->n_buffers && !err) {
		struct desc_buffer *b = more->buffers[more->n_buffers - 1];

		if (b->id <= s->growth.version || b->id > version)
			return -EPROTO;
		err = desc_insert(&s->desc, b);
		if (err)
			break;
		more->n_buffers--;
		prepare(s, b);
	}
	return err == -ENOMEM ? err : err ? -EPROTO : 0;
}

/* Reads the complete text. It describes the registrations after g->version, up to @version. */
static int read_text(struct tent_segment *s, uint32_t version)
{
	struct growth *g = &s->growth;
	struct desc more;
	int err;

	if (version <= g->version)
		return -EPROTO;
	err = desc_read_memory(g->text, &s->desc, &more);
	if (err)
		return err == -ENOMEM ? err : -EPROTO;
	err = take_all(s, &more, version);
	desc_fini(&more);
	if (err)
		return err;
	g->version = version;
	pthread_cond_broadcast(&s->t->ended);
	return 0;
}

int learn_memory(struct tent_segment *s, const struct ctl_msg *msg)
{
	struct growth *g = &s->growth;
	int err = append(g, msg);

	if (err)
		return err;
	if (msg->status == CTL_PART)
		return 0;
	if (msg->status == CTL_PART_ASK) {
		ask(s);
		return 0;
	}
	if (!g->stale)
		err = read_text(s, msg->epoch);
	g->asked = g->stale = false;
	g->len = 0;
	if (!err)
		learn_told(s, g->told);
	return err;
}
