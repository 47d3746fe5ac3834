/* SPDX-License-Identifier: MIT */
/*
 * Registrations that a peer learns of after its import: the target's side. The initiator's side is
 * learn.c. Each registration that becomes ready increases the version of the target's memory
 * (tent_version()) by 1; the new version is its id. An importer knows the registrations up to a
 * version, and requests those that follow. The target sends only registrations that were requested,
 * so it never fills the buffer of a socket:
 *
 *	target     version grows --GREW, at most one until the next MORE-->
 *	initiator  GREW, or WELCOME with a higher version --MORE known version-->
 *	target     --MEMORY, up to WINDOW messages with bytes of a text-->
 *	initiator  if more of the text follows --MORE-->; else the memory can be used
 *
 * The text is JSON: registrations with the lowest ids above the known version, as in a description.
 * The last message contains the highest version that the text covers, so that the peer does not
 * request registrations that have ended.
 *
 * If a registration ends while parts of the text that describes it are under way, the importer
 * confirms the end at once, because it does not use the memory yet. It then drops the whole text,
 * and requests another one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

#define WINDOW 32 /* messages, which fit into the buffer of a socket */
#define TEXT_BUFFERS 16 /* registrations in a text, unless they have many keys */
#define TEXT_KEYS 64 /* a text with so many keys gets no further registration */

static void tell(struct tent *t, struct conn *c)
{
	struct ctl_msg msg = {.type = CTL_GREW, .rail = t->version};

	if (!c->known || c->told)
		return;
	c->told = true;
	conn_send(c, &msg);
}

void grow_announce(struct tent *t)
{
	for (struct conn *c = t->conns; c; c = c->next)
		tell(t, c);
}

/* The number of buffers, from by_id[first] on, that the next text describes. */
static uint32_t count(const struct tent *t, uint32_t first)
{
	uint32_t n = 0, keys = 0;

	while (first + n < t->n_by_id && n < TEXT_BUFFERS && keys < TEXT_KEYS)
		keys += t->n_ports * t->by_id[first + n++]->n_parts;
	return n;
}

/* Makes a text of the registrations that follow the version. 0 or -ENOMEM. */
static int write_text(const struct tent *t, struct conn *c, uint32_t version)
{
	uint32_t first = buffers_behind(t, version), n = count(t, first);
	struct desc d = {.n_rails = t->topo.n_rails};
	int err = describe_memory(t, &t->by_id[first], n, &d);

	if (!err)
		err = desc_write_memory(&d, &c->text);
	desc_fini(&d);
	if (err)
		return err;
	c->at = 0;
	c->len = strlen(c->text);
	c->covers = first + n < t->n_by_id ? t->by_id[first + n - 1]->id : t->version;
	return 0;
}

/* Sends the next part of the text, and frees the text after the last one. */
static void send_window(struct tent *t, struct conn *c)
{
	struct ctl_msg msgs[WINDOW] = {{0}};
	uint32_t n = 0;

	while (n < WINDOW && c->at < c->len) {
		size_t left = c->len - c->at;
		struct ctl_msg *m = &msgs[n++];

		m->type = CTL_MEMORY;
		m->rail = left < CTL_TEXT ? (uint32_t)left : CTL_TEXT;
		m->epoch = c->covers;
		memcpy(m->text, c->text + c->at, m->rail);
		c->at += m->rail;
		if (c->at < c->len)
			m->status = n < WINDOW ? CTL_PART : CTL_PART_ASK;
	}
	conn_send_all(c, msgs, n);
	if (c->at < c->len)
		return;
	free(c->text);
	c->text = NULL;
	if (c->covers < t->version)
		tell(t, c);
}

int grow_asked(struct tent *t, struct conn *c, uint32_t version)
{
	int err = 0;

	if (!c->text) {
		if (version >= t->version)
			return -EPROTO;
		c->told = false;
		err = write_text(t, c, version);
	}
	if (!err)
		send_window(t, c);
	return err;
}
