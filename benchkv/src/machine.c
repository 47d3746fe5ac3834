/* SPDX-License-Identifier: MIT */
#include "machine.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/compiler.h"
#include "control.h"

#define PLATEAU "1/1.75 M/s, where one-to-one rates with 8 to 64 endpoints level off"
#define PER_OP "a third of 131 to 145 ns per remote operation, at 6.9 to 7.6 M/s per rank"
#define COLLAPSED "so that a collapsed loop takes 0.71 us (NP 8, depth 32: 14.0 M loops in 10 s)"
#define ORDER "order of magnitude"
#define LINES "transfers of cache lines between two cores"

/*
 * The built-in values. The machines hdr100 and cx7 have the same values, because their published
 * figures do not differ enough. The CPU times come from the published jobs at depth 32 without
 * control; the simulator predicts the other published jobs.
 */
#define KEY(field, value, source)                                                                  \
	((struct machine_key){#field, offsetof(struct machine, field), value, source})
const struct machine_key machine_keys[] = {
	KEY(send_ns, 570, PLATEAU),
	KEY(recv_ns, 570, PLATEAU),
	KEY(wire_ns, 850,
		"one endpoint, depth 1: 0.221 M/s are 4.5 us, less sending and receiving twice"),
	KEY(bytes_per_ns, 12.5, "100 Gb/s"),
	KEY(request_ns, 45, PER_OP),
	KEY(incoming_ns, 45, PER_OP),
	KEY(response_ns, 45, PER_OP),
	KEY(local_ns, 115, ORDER),
	KEY(cqe_ns, 40, COLLAPSED),
	KEY(write_ns, 80, COLLAPSED),
	KEY(loop_ns, 465, COLLAPSED),
	KEY(loop_jitter, 0.1, "assumed"),
	KEY(poll_ns, 1000, "published: a full poll takes about 1 us"),
	KEY(poll_flushes, 1, "hypothesis, see README.md"),
	KEY(repoll_ns, 60, "assumed: the receive CQ alone"),
	KEY(reply_ns, 250, LINES),
	KEY(reply_jitter_ns, 200, LINES),
	KEY(client_ns, 60, ORDER),
};
const size_t machine_nkeys = ARRAY_SIZE(machine_keys);

static double *value_at(struct machine *m, const struct machine_key *key)
{
	return (double *)(void *)((char *)m + key->offset);
}

double machine_get(const struct machine *m, const struct machine_key *key)
{
	return *(const double *)(const void *)((const char *)m + key->offset);
}

static const struct machine_key *find_key(const char *name)
{
	for (size_t i = 0; i < machine_nkeys; i++)
		if (!strcmp(machine_keys[i].name, name))
			return &machine_keys[i];
	return NULL;
}

static int set_key(struct machine *m, const char *name, json_t *value, char *why, size_t size)
{
	const struct machine_key *key = find_key(name);
	double x = json_number_value(value);

	if (!key) {
		snprintf(why, size, "%s: unknown key '%s'", m->name, name);
		return -EINVAL;
	}
	if (!json_is_number(value) || !(x >= 0 && x <= 1e9)) {
		snprintf(why, size, "%s: '%s' must be a number from 0 to 1e9", m->name, name);
		return -EINVAL;
	}
	*value_at(m, key) = x;
	return 0;
}

/*
 * Checks the values by which the simulator divides, and those that must not be 0: with loops or
 * polls that take no time the simulated time would stand still.
 */
static int check(const struct machine *m, char *why, size_t size)
{
	if (m->bytes_per_ns >= .001 && m->loop_ns >= 1 && m->loop_jitter < 1 && m->poll_ns >= 1 &&
		m->repoll_ns >= 1 && m->send_ns + m->wire_ns >= 1)
		return 0;
	snprintf(why, size,
		"%s: bytes_per_ns must be at least 0.001, loop_jitter below 1; loop_ns, poll_ns, "
		"repoll_ns, and send_ns + wire_ns at least 1",
		m->name);
	return -EINVAL;
}

static int load_file(const char *name, struct machine *m, char *why, size_t size)
{
	json_error_t error;
	json_t *root = json_load_file(name, JSON_REJECT_DUPLICATES, &error), *value;
	const char *key;
	int err = 0;

	if (!json_is_object(root)) {
		snprintf(why, size, "%s: %s", name, root ? "not a JSON object" : error.text);
		json_decref(root);
		return -EINVAL;
	}
	json_object_foreach(root, key, value)
	{
		err = set_key(m, key, value, why, size);
		if (err)
			break;
	}
	json_decref(root);
	return err ? err : check(m, why, size);
}

int machine_load(const char *name, struct machine *m_p, char *why, size_t size)
{
	struct machine m;
	int err = 0;

	for (size_t i = 0; i < machine_nkeys; i++)
		*value_at(&m, &machine_keys[i]) = machine_keys[i].built_in;
	snprintf(m.name, sizeof(m.name), "%s", name);
	if (strcmp(name, "hdr100") != 0 && strcmp(name, "cx7") != 0)
		err = load_file(name, &m, why, size);
	if (!err)
		*m_p = m;
	return err;
}

/* The CPU time of a single call in both daemons, including one loop of each. */
static double cpu_ns(const struct machine *m)
{
	return m->request_ns + m->incoming_ns + m->response_ns +
	       2 * (m->cqe_ns + m->write_ns + m->loop_ns);
}

double machine_round_trip_ns(const struct machine *m)
{
	return 2 * (m->send_ns + m->wire_ns + m->recv_ns) + cpu_ns(m);
}

void machine_derive(const struct machine *m, struct control_spec *spec,
	struct control_origin *origin_p)
{
	const struct control_origin origin = {.source = "from the machine",
		.times = {.round_trip_ns = machine_round_trip_ns(m),
			.write_ns = fmax(m->send_ns, m->recv_ns),
			.message_ns = (m->request_ns + m->incoming_ns + m->response_ns) / 2}};

	*origin_p = (struct control_origin){
		.source = "the defaults; WRITEs or messages take no time on the machine"};
	if (!(origin.times.write_ns > 0 && origin.times.message_ns > 0))
		return;
	*origin_p = origin;
	if (spec->kind == CONTROL_AUTO && spec->derive)
		control_derive(spec, &origin.times);
}

struct machine_costs machine_costs(const struct machine *m)
{
	return (struct machine_costs){.request = (uint64_t)m->request_ns,
		.incoming = (uint64_t)m->incoming_ns,
		.response = (uint64_t)m->response_ns,
		.local = (uint64_t)m->local_ns,
		.cqe = (uint64_t)m->cqe_ns,
		.write = (uint64_t)m->write_ns,
		.poll = (uint64_t)m->poll_ns,
		.repoll = (uint64_t)m->repoll_ns,
		.client = (uint64_t)m->client_ns,
		.visible = (uint64_t)(m->reply_ns / 2)};
}

void machine_from_measured(struct machine *m, const struct control_times *measured)
{
	double wire;

	m->send_ns = m->recv_ns = measured->write_ns;
	m->request_ns = m->incoming_ns = m->response_ns = measured->message_ns * 2 / 3;
	wire = (measured->round_trip_ns - cpu_ns(m)) / 2 - m->send_ns - m->recv_ns;
	m->wire_ns = wire > 0 ? wire : 0;
}

int machine_save(const struct machine *m, const char *file)
{
	json_t *root = json_object();
	int err = 0;

	errno = 0;
	for (size_t i = 0; i < machine_nkeys; i++)
		json_object_set_new(root, machine_keys[i].name,
			json_real(machine_get(m, &machine_keys[i])));
	if (json_dump_file(root, file, JSON_INDENT(1) | JSON_REAL_PRECISION(9)))
		err = errno ? -errno : -EIO;
	json_decref(root);
	return err;
}
