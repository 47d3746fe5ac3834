/* SPDX-License-Identifier: MIT */
#include "livetext.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/json.h"

static double waited_s(const struct live_object *o)
{
	uint64_t now = clock_ns();

	return o->since < now ? (double)(now - o->since) / 1e9 : 0;
}

static void value_text(const struct live_value *v, char *text, size_t size)
{
	if (!v->known)
		snprintf(text, size, "?");
	else if (v->word[0])
		snprintf(text, size, "%s", v->word);
	else if (v->form == LIVE_HEX)
		snprintf(text, size, "0x%" PRIx64, v->value);
	else
		snprintf(text, size, "%" PRId64, (int64_t)v->value);
}

/* Prints the values that are not 0. */
static void print_object(const struct live_object *o)
{
	const char *between = "";
	char text[24];

	printf("  %s %s 0x%" PRIx64 "%s%s: ", o->layer, o->kind, o->address, o->name[0] ? " " : "",
		o->name);
	for (uint32_t i = 0; i < o->n_values; i++) {
		const struct live_value *v = &o->value[i];

		if (v->known && !v->word[0] && !v->value)
			continue;
		value_text(v, text, sizeof(text));
		printf("%s%s %s", between, v->name, text);
		between = ", ";
	}
	putchar('\n');
}

static void print_thread(const struct live_process *p, const struct live_thread *t)
{
	printf("  thread %u %s (%c)", t->tid, t->name, t->state);
	for (size_t i = 0; i < p->n_objects; i++) {
		const struct live_object *o = &p->object[i];

		if (o->tid == t->own_tid)
			printf(", waits for %s %s %s (%.1f s)", o->layer, o->kind, o->name,
				waited_s(o));
	}
	putchar('\n');
}

void live_print(const struct live_process *p)
{
	printf("process %d %s\n", (int)p->pid, p->main.name);
	for (size_t i = 0; i < p->n_threads; i++)
		print_thread(p, &p->thread[i]);
	for (size_t i = 0; i < p->n_objects; i++)
		print_object(&p->object[i]);
	if (p->missed)
		printf("  %" PRIu64 " more objects have no record\n", p->missed);
}

static json_t *json_value(const struct live_value *v)
{
	char text[24];

	if (!v->known)
		return json_null();
	if (!v->word[0] && v->form != LIVE_HEX)
		return json_integer((json_int_t)v->value);
	value_text(v, text, sizeof(text));
	return json_string(text);
}

static json_t *json_live(const struct live_process *p, const struct live_object *o)
{
	json_t *values = json_object(), *j;
	char address[24];

	snprintf(address, sizeof(address), "0x%" PRIx64, o->address);
	for (uint32_t i = 0; i < o->n_values; i++)
		json_object_set_new(values, o->value[i].name, json_value(&o->value[i]));
	j = json_pack("{s:s, s:s, s:s, s:s, s:o}", "layer", o->layer, "kind", o->kind, "name",
		o->name, "address", address, "values", values);
	for (size_t i = 0; i < p->n_threads; i++)
		if (p->thread[i].own_tid == o->tid)
			json_object_update_new(j,
				json_pack("{s:i, s:f}", "thread", (int)p->thread[i].tid, "waits_s",
					waited_s(o)));
	return j;
}

int live_print_json(const struct live_process *p)
{
	json_t *threads = json_array(), *objects = json_array(), *j;

	for (size_t i = 0; i < p->n_threads; i++)
		json_array_append_new(threads,
			json_pack("{s:i, s:s, s:s%}", "thread", (int)p->thread[i].tid, "name",
				p->thread[i].name, "state", &p->thread[i].state, (size_t)1));
	for (size_t i = 0; i < p->n_objects; i++)
		json_array_append_new(objects, json_live(p, &p->object[i]));
	j = json_pack("{s:i, s:s, s:I, s:o, s:o}", "pid", (int)p->pid, "name", p->main.name,
		"missed", (json_int_t)p->missed, "threads", threads, "objects", objects);
	return json_line(j, 17, stdout);
}
