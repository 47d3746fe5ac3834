/* SPDX-License-Identifier: MIT */
#include "print.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"

static const char *const states[] = {"dead", "running", "waiting", "asleep"};

/* Names may have any bytes, and may have been chosen by another user. */
static char printable(char c)
{
	return c >= ' ' && c <= '~' ? c : '?';
}

void print_name(FILE *f, const char *layer, const char *name)
{
	fprintf(f, "%s.", layer);
	for (; *name; name++)
		fputc(printable(*name), f);
}

static void print_region(const struct region *r)
{
	char clients[32], slots[32], text[REGION_TEXT];

	if (r->err) {
		printf("%7s %8s %9s %6s %15s %4s %10s  ", "-", "-", "-", "-", "-", "-", "-");
	} else {
		snprintf(clients, sizeof(clients), "%u/%u", r->alive, r->max_clients);
		snprintf(slots, sizeof(slots), "%u/%u", r->in_use, r->ring_depth);
		printf("%7s %8llu %9s %6u %15s %4o %10llu  ", states[r->server],
			(unsigned long long)r->depth, clients, r->dead, r->has_ring ? slots : "-",
			r->mode, (unsigned long long)r->size);
	}
	print_name(stdout, r->layer->name, r->name);
	if (r->err)
		printf(": %s", region_unread(r, text));
	putchar('\n');
}

void print_table(const struct region *regions, size_t n, bool clients)
{
	printf("%7s %8s %9s %6s %15s %4s %10s  %s\n", "server", "depth", "clients", "dead", "slots",
		"mode", "bytes", "region");
	for (size_t i = 0; i < n; i++) {
		print_region(&regions[i]);
		for (size_t k = 0; clients && k < regions[i].n_clients; k++)
			printf("%7s client %u\n", states[regions[i].client[k].state],
				regions[i].client[k].index);
	}
}

static json_t *json_clients(const struct region *r)
{
	json_t *list = json_array();

	for (size_t k = 0; k < r->n_clients; k++)
		json_array_append_new(list,
			json_pack("{s:i, s:s}", "index", (int)r->client[k].index, "state",
				states[r->client[k].state]));
	return list;
}

static json_t *json_region(const struct region *r)
{
	json_t *name = json_string(r->name), *o;

	if (!name) { /* it is not UTF-8 */
		char *text = strdup(r->name);

		for (char *c = text; c && *c; c++)
			*c = printable(*c);
		name = json_string(text ? text : "");
		free(text);
	}
	o = json_pack("{s:s, s:o}", "layer", r->layer->name, "name", name);
	if (r->err) {
		char text[REGION_TEXT];

		json_object_set_new(o, "error", json_string(region_unread(r, text)));
		return o;
	}
	json_object_update_new(o,
		json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:o}", "server",
			states[r->server], "max_clients", (int)r->max_clients, "clients",
			(int)r->alive, "dead_clients", (int)r->dead, "depth", (int)r->depth,
			"req_size", (int)r->req_size, "resp_size", (int)r->resp_size, "mode",
			(int)r->mode, "gid", (json_int_t)r->gid, "bytes", (json_int_t)r->size,
			"client", json_clients(r)));
	if (r->has_ring)
		json_object_update_new(o, json_pack("{s:i, s:i}", "slots_in_use", (int)r->in_use,
						  "slots", (int)r->ring_depth));
	return o;
}

int print_json(const struct region *regions, size_t n)
{
	int err = 0;

	for (size_t i = 0; i < n && !err; i++)
		err = json_line(json_region(&regions[i]), 17, stdout);
	return err;
}
