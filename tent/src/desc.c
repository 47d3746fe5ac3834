/* SPDX-License-Identifier: MIT */
#include "desc.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "search.h"
#include "transport.h"
#include "why.h"

static void to_hex(const uint8_t *bytes, size_t n, char *text)
{
	for (size_t i = 0; i < n; i++)
		sprintf(text + 2 * i, "%02x", bytes[i]);
}

static int from_hex(const char *text, uint8_t *bytes, size_t n)
{
	if (strlen(text) != 2 * n || strspn(text, "0123456789abcdef") != 2 * n)
		return -EINVAL;
	for (size_t i = 0; i < n; i++)
		sscanf(text + 2 * i, "%2hhx", &bytes[i]);
	return 0;
}

/* ---- writing ---- */

static json_t *write_rail(const struct rail_id *r)
{
	char gid[33];

	to_hex(r->gid, sizeof(r->gid), gid);
	return json_pack("{s:s, s:s, s:s}", "name", r->name, "kind", r->kind, "gid", gid);
}

static json_t *write_keys(const struct desc_buffer *b, uint32_t n_rails)
{
	json_t *all = json_array();

	for (uint32_t r = 0; r < n_rails && b->keys; r++) {
		json_t *keys = json_array();

		for (uint32_t i = 0; i < b->n_parts; i++)
			json_array_append_new(keys, json_integer(b->keys[r * b->n_parts + i]));
		json_array_append_new(all, keys);
	}
	return all;
}

static json_t *write_tiers(const struct desc_buffer *b, uint32_t n_rails)
{
	json_t *tiers = json_array();

	for (uint32_t r = 0; r < n_rails; r++)
		json_array_append_new(tiers, json_integer(b->tiers[r]));
	return tiers;
}

/* NULL: the memory has no handle. */
static json_t *write_handle(const struct desc_buffer *b)
{
	char handle[2 * sizeof(b->handle) + 1];

	if (!b->shared)
		return NULL;
	to_hex(b->handle.bytes, sizeof(b->handle), handle);
	return json_pack("{s:s, s:I}", "handle", handle, "offset", (json_int_t)b->offset);
}

static json_t *write_buffer(const struct desc_buffer *b, uint32_t n_rails)
{
	json_t *fd = b->fd < 0 ? NULL : json_integer(b->fd);
	json_t *staged = b->staged ? json_true() : NULL;

	return json_pack("{s:I, s:I, s:I, s:I, s:s, s:o, s:o, s:o*, s:o*, s:o*}", "id",
		(json_int_t)b->id, "addr", (json_int_t)b->addr, "length", (json_int_t)b->len,
		"part", (json_int_t)b->part_len, "location", b->location, "tiers",
		write_tiers(b, n_rails), "keys", write_keys(b, n_rails), "fd", fd, "ipc",
		write_handle(b), "staged", staged);
}

static json_t *write_buffers(const struct desc *d)
{
	json_t *buffers = json_array();

	for (uint32_t i = 0; i < d->n_buffers; i++)
		json_array_append_new(buffers, write_buffer(d->buffers[i], d->n_rails));
	return buffers;
}

/* NULL: the engine has no stage. */
static json_t *write_stage(const struct desc *d)
{
	return d->stage ? write_buffer(d->stage, d->n_rails) : NULL;
}

/* Writes @root as a text, and frees @root. @root NULL: no memory was left for it. */
static int to_text(json_t *root, char **text_p)
{
	char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;

	json_decref(root);
	if (!text)
		return -ENOMEM;
	*text_p = text;
	return 0;
}

int desc_write(const struct desc *d, char **text_p)
{
	json_t *rails = json_array();
	char key[2 * DESC_KEY_LEN + 1];

	to_hex(d->key, sizeof(d->key), key);
	for (uint32_t i = 0; i < d->n_rails; i++)
		json_array_append_new(rails, write_rail(&d->rails[i]));
	return to_text(json_pack("{s:i, s:s, s:i, s:s, s:s, s:i, s:I, s:I, s:o, s:o, s:o*}", "tent",
			       DESC_VERSION, "host", d->host, "port", (int)d->port, "key", key,
			       "boot", d->boot, "pid", (int)d->pid, "epoch", (json_int_t)d->epoch,
			       "proof", (json_int_t)d->proof, "rails", rails, "buffers",
			       write_buffers(d), "stage", write_stage(d)),
		text_p);
}

int desc_write_memory(const struct desc *d, char **text_p)
{
	return to_text(json_pack("{s:o, s:o*}", "buffers", write_buffers(d), "stage",
			       write_stage(d)),
		text_p);
}

/* ---- reading ---- */

struct reader {
	struct desc *d;
	struct tent_why *why;
};

static int bad(const struct reader *r, const char *what)
{
	return why_say(r->why, -EINVAL, "segment: %s is not valid", what);
}

static int to_number(const json_t *v, uint64_t max, uint64_t *n_p)
{
	if (!json_is_integer(v) || json_integer_value(v) < 0 ||
		(uint64_t)json_integer_value(v) > max)
		return -EINVAL;
	*n_p = (uint64_t)json_integer_value(v);
	return 0;
}

static int read_number(const json_t *object, const char *key, uint64_t max, uint64_t *n_p)
{
	return to_number(json_object_get(object, key), max, n_p);
}

/* Reads a text that must be printable and not empty, and fit into @size with its final 0. */
static int read_text(const json_t *object, const char *key, char *to, size_t size)
{
	const char *text = json_string_value(json_object_get(object, key));
	size_t len = text ? strlen(text) : 0;

	if (!len || len >= size)
		return -EINVAL;
	for (size_t i = 0; i < len; i++) {
		if (text[i] <= ' ' || text[i] > '~')
			return -EINVAL;
	}
	memcpy(to, text, len + 1);
	return 0;
}

static int read_bytes(const json_t *object, const char *key, uint8_t *bytes, size_t n)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? from_hex(text, bytes, n) : -EINVAL;
}

/*
 * Returns the transport with this kind of rails, or NULL. Sets *kind_p to the transport's constant
 * string for the kind, which stays valid.
 */
static const struct transport *find_kind(const char *name, const char **kind_p)
{
	for (const struct transport *const *t = transports; *t && name; t++) {
		for (const char *const *kind = (*t)->kinds; *kind; kind++) {
			*kind_p = *kind;
			if (!strcmp(*kind, name))
				return *t;
		}
	}
	return NULL;
}

/* All rails of a description are of one transport, or of transports that can be used together. */
static int read_kind(struct desc *d, const json_t *rail, const char **kind_p)
{
	const struct transport *t =
		find_kind(json_string_value(json_object_get(rail, "kind")), kind_p);

	if (!t || (d->transport && t != d->transport && !(t->beside && d->transport->beside)))
		return -EINVAL;
	if (!d->transport)
		d->transport = t;
	return 0;
}

static int read_rails(struct reader *r, const json_t *rails)
{
	struct desc *d = r->d;

	if (!json_array_size(rails) || json_array_size(rails) > TENT_MAX_RAILS)
		return bad(r, "rails");
	for (d->n_rails = 0; d->n_rails < json_array_size(rails); d->n_rails++) {
		const json_t *v = json_array_get(rails, d->n_rails);
		struct rail_id *rail = &d->rails[d->n_rails];

		if (read_text(v, "name", rail->name, sizeof(rail->name)) ||
			read_kind(d, v, &rail->kind) ||
			read_bytes(v, "gid", rail->gid, sizeof(rail->gid)))
			return bad(r, "a rail");
		for (uint32_t i = 0; i < d->n_rails; i++) {
			if (!strcmp(d->rails[i].name, rail->name))
				return bad(r, "a rail");
		}
	}
	return 0;
}

static int read_keys(struct reader *r, const json_t *all, struct desc_buffer *b)
{
	uint32_t n_rails = r->d->n_rails;

	if (!r->d->transport->regions)
		return 0;
	b->keys = calloc((size_t)n_rails * b->n_parts, sizeof(*b->keys));
	if (!b->keys)
		return -ENOMEM;
	if (json_array_size(all) != n_rails)
		return bad(r, "keys of a buffer");
	for (uint32_t i = 0; i < n_rails; i++) {
		const json_t *keys = json_array_get(all, i);

		if (json_array_size(keys) != b->n_parts)
			return bad(r, "keys of a buffer");
		for (uint32_t p = 0; p < b->n_parts; p++) {
			uint64_t key;

			if (to_number(json_array_get(keys, p), UINT32_MAX, &key))
				return bad(r, "keys of a buffer");
			b->keys[i * b->n_parts + p] = (uint32_t)key;
		}
	}
	return 0;
}

static int read_tiers(struct reader *r, const json_t *tiers, struct desc_buffer *b)
{
	if (json_array_size(tiers) != r->d->n_rails)
		return bad(r, "tiers of a buffer");
	for (uint32_t i = 0; i < r->d->n_rails; i++) {
		uint64_t tier;

		if (to_number(json_array_get(tiers, i), TENT_TIERS - 1, &tier))
			return bad(r, "tiers of a buffer");
		b->tiers[i] = (uint8_t)tier;
	}
	return 0;
}

/* Memory that the program has allocated by itself has no descriptor. */
static int read_fd(struct reader *r, const json_t *fd, struct desc_buffer *b)
{
	uint64_t n;

	b->fd = -1;
	if (!fd)
		return 0;
	if (to_number(fd, INT32_MAX, &n))
		return bad(r, "the descriptor of a buffer");
	b->fd = (int32_t)n;
	return 0;
}

/* Only memory of a GPU has a handle. */
static int read_handle(struct reader *r, const json_t *ipc, struct desc_buffer *b)
{
	if (!ipc)
		return 0;
	if (read_bytes(ipc, "handle", b->handle.bytes, sizeof(b->handle)) ||
		read_number(ipc, "offset", INT64_MAX, &b->offset))
		return bad(r, "the handle of a buffer");
	b->shared = true;
	return 0;
}

static int read_buffer(struct reader *r, const json_t *v, struct desc_buffer *b)
{
	uint64_t parts, id;

	if (read_number(v, "id", UINT32_MAX, &id) || !id ||
		read_number(v, "addr", INT64_MAX, &b->addr) ||
		read_number(v, "length", INT64_MAX - b->addr, &b->len) ||
		read_number(v, "part", INT64_MAX, &b->part_len) || !b->len || !b->part_len ||
		read_text(v, "location", b->location, sizeof(b->location)))
		return bad(r, "a buffer");
	parts = (b->len - 1) / b->part_len + 1;
	if (parts > DESC_MAX_PARTS)
		return bad(r, "a buffer");
	b->n_parts = (uint32_t)parts;
	b->id = (uint32_t)id;
	b->staged = json_is_true(json_object_get(v, "staged"));
	if (read_tiers(r, json_object_get(v, "tiers"), b) ||
		read_fd(r, json_object_get(v, "fd"), b) ||
		read_handle(r, json_object_get(v, "ipc"), b))
		return -EINVAL;
	return read_keys(r, json_object_get(v, "keys"), b);
}

/* Allocates a buffer and reads it with read_buffer(). */
static int read_new(struct reader *r, const json_t *v, struct desc_buffer **b_p)
{
	struct desc_buffer *b = calloc(1, sizeof(*b));
	int err = b ? read_buffer(r, v, b) : -ENOMEM;

	if (err)
		desc_buffer_free(b);
	else
		*b_p = b;
	return err;
}

static int read_buffers(struct reader *r, const json_t *buffers)
{
	if (!json_is_array(buffers) || json_array_size(buffers) > DESC_MAX_BUFFERS)
		return bad(r, "buffers");
	for (size_t i = 0; i < json_array_size(buffers); i++) {
		struct desc_buffer *b;
		int err = read_new(r, json_array_get(buffers, i), &b);

		if (err)
			return err;
		err = desc_insert(r->d, b);
		if (err)
			desc_buffer_free(b);
		if (err)
			return err == -ENOMEM ? err :
						bad(r, "a buffer, which overlaps another one,");
	}
	return 0;
}

/* Memory that is copied through the stage requires a stage in the description. */
static int read_stage(struct reader *r, const json_t *stage)
{
	struct desc *d = r->d;
	bool staged = false;

	for (uint32_t i = 0; i < d->n_buffers; i++)
		staged |= d->buffers[i]->staged;
	if (!stage)
		return staged ? bad(r, "the stage") : 0;
	return read_new(r, stage, &d->stage);
}

static int read_memory(struct reader *r, const json_t *root)
{
	int err = read_buffers(r, json_object_get(root, "buffers"));

	return err ? err : read_stage(r, json_object_get(root, "stage"));
}

static int read_root(struct reader *r, const json_t *root)
{
	struct desc *d = r->d;
	uint64_t version, port, pid, epoch;
	int err;

	if (!json_is_object(root) || read_number(root, "tent", INT64_MAX, &version))
		return why_say(r->why, -EINVAL, "segment: this is no description of a segment");
	if (version != DESC_VERSION)
		return why_say(r->why, -EPROTONOSUPPORT,
			"segment: it is of version %llu, this library reads version %d",
			(unsigned long long)version, DESC_VERSION);
	if (read_text(root, "host", d->host, sizeof(d->host)) ||
		read_number(root, "port", UINT16_MAX, &port) || !port)
		return bad(r, "host or port");
	if (read_bytes(root, "key", d->key, sizeof(d->key)) ||
		read_text(root, "boot", d->boot, sizeof(d->boot)) ||
		read_number(root, "pid", INT32_MAX, &pid) || !pid ||
		read_number(root, "epoch", UINT32_MAX, &epoch) ||
		read_number(root, "proof", INT64_MAX, &d->proof))
		return bad(r, "key, boot, pid, epoch or proof");
	d->port = (uint16_t)port;
	d->pid = (int32_t)pid;
	d->epoch = (uint32_t)epoch;
	err = read_rails(r, json_object_get(root, "rails"));
	return err ? err : read_memory(r, root);
}

/* Parses the text; @read then adds its values to *@d_p. Frees the contents of *@d_p on an error. */
static int read_json(const char *text, int (*read)(struct reader *r, const json_t *root),
	struct tent_why *why, struct desc *d_p)
{
	struct reader r = {d_p, why};
	json_error_t e;
	json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &e);
	int err = read(&r, root);

	json_decref(root);
	if (err)
		desc_fini(d_p);
	return err;
}

int desc_read(const char *text, struct desc *d_p, struct tent_why *why)
{
	struct desc d = {0};
	int err = read_json(text, read_root, why, &d);

	if (!err)
		*d_p = d;
	return err;
}

int desc_read_memory(const char *text, const struct desc *known, struct desc *d_p)
{
	struct desc d = {.transport = known->transport, .n_rails = known->n_rails};
	int err = read_json(text, read_memory, NULL, &d);

	if (!err)
		*d_p = d;
	return err;
}

void desc_buffer_free(struct desc_buffer *b)
{
	if (b)
		free(b->keys);
	free(b);
}

void desc_fini(struct desc *d)
{
	for (uint32_t i = 0; i < d->n_buffers; i++)
		desc_buffer_free(d->buffers[i]);
	desc_buffer_free(d->stage);
	free(d->buffers);
	d->buffers = NULL;
	d->n_buffers = 0;
	d->stage = NULL;
}

static uint64_t addr_of(const void *buffers, uint32_t i)
{
	return ((struct desc_buffer *const *)buffers)[i]->addr;
}

/* The index of the first buffer that begins after @addr. */
static uint32_t place_behind(const struct desc *d, uint64_t addr)
{
	return search_behind(d->buffers, d->n_buffers, addr_of, addr);
}

int desc_insert(struct desc *d, struct desc_buffer *b)
{
	uint32_t at = place_behind(d, b->addr), n = d->n_buffers;
	struct desc_buffer **all;

	if (n == DESC_MAX_BUFFERS)
		return -ENOSPC;
	if ((at && b->addr - d->buffers[at - 1]->addr < d->buffers[at - 1]->len) ||
		(at < n && d->buffers[at]->addr - b->addr < b->len))
		return -EEXIST;
	/* The capacity is a power of two, so the array is full if n is a power of two. */
	if (!(n & (n - 1))) {
		all = realloc(d->buffers, (n ? 2 * n : 1) * sizeof(*all));
		if (!all)
			return -ENOMEM;
		d->buffers = all;
	}
	memmove(&d->buffers[at + 1], &d->buffers[at], (n - at) * sizeof(b));
	d->buffers[at] = b;
	d->n_buffers++;
	return 0;
}

void desc_remove(struct desc *d, const struct desc_buffer *b)
{
	uint32_t at = place_behind(d, b->addr);

	memmove(&d->buffers[at - 1], &d->buffers[at], (d->n_buffers - at) * sizeof(*d->buffers));
	d->n_buffers--;
}

struct desc_buffer *desc_find(const struct desc *d, uint64_t addr, uint64_t len)
{
	uint32_t at = place_behind(d, addr);
	struct desc_buffer *b = at ? d->buffers[at - 1] : NULL;

	if (!b || addr - b->addr >= b->len || len > b->len - (addr - b->addr))
		return NULL;
	return b;
}
