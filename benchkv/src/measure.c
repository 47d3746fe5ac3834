/* SPDX-License-Identifier: MIT */
#include "measure.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/output.h"
#include "copyrpc.h"
#include "job.h"
#include "machine.h"
#include "msg.h"
#include "options.h"

#define WINDOW 64 /* calls under way while the time per WRITE is measured */
#define BATCH 32
#define CHUNK 256 /* calls that are timed together; the shortest time of a chunk is used */
#define COMMAND_NS (150 * NSEC_PER_MSEC)
#define PATIENCE_NS (50 * NSEC_PER_USEC) /* without a response, then the thread yields the core */
#define GIVE_UP_NS (5 * NSEC_PER_SEC) /* without a response, then the measurement fails */
#define WHY_MAX 256

struct pair {
	struct copyrpc_ctx *client, *server;
	struct copyrpc_ep *from, *to;
	uint64_t responses;
	int error;
};

static int connect_pair(struct pair *p, const char *device)
{
	const struct copyrpc_ctx_attr attr = {.device = device, .max_endpoints = 1};
	unsigned char from[COPYRPC_INFO_SIZE], to[COPYRPC_INFO_SIZE];
	int err = copyrpc_ctx_create(&attr, &p->client);

	if (!err)
		err = copyrpc_ctx_create(&attr, &p->server);
	if (!err)
		err = copyrpc_ep_create(p->client, NULL, &p->from);
	if (!err)
		err = copyrpc_ep_create(p->server, NULL, &p->to);
	if (err)
		return err;
	copyrpc_ep_info(p->from, from);
	copyrpc_ep_info(p->to, to);
	err = copyrpc_ep_connect(p->from, to, sizeof(to));
	return err ? err : copyrpc_ep_connect(p->to, from, sizeof(from));
}

static void on_response(void *arg, struct copyrpc_ep *ep, uint64_t token, int status,
	const void *data, uint32_t len)
{
	struct pair *p = arg;

	p->responses++;
	if (status)
		p->error = status;
}

static void serve(struct pair *p)
{
	const struct kv_resp resp = {.type = KV_PUT_OK};
	struct copyrpc_req *req;

	copyrpc_poll_recv(p->server, NULL, NULL);
	while (copyrpc_recv(p->server, &req) > 0)
		copyrpc_reply(req, &resp, sizeof(resp));
	copyrpc_flush(p->server);
}

/*
 * Makes calls until `under_way` are under way, `batch` per WRITE; then serves those that arrived.
 */
static void turn(struct pair *p, uint64_t *calls, uint32_t under_way, uint32_t batch)
{
	const struct kv_req req = {.type = KV_PUT};

	while (!p->error && *calls - p->responses < under_way) {
		int err = copyrpc_call(p->from, &req, sizeof(req), sizeof(struct kv_resp), 0);

		if (err == -EAGAIN || err == -ENOBUFS)
			break;
		if (err)
			p->error = err;
		if (++*calls % batch == 0)
			copyrpc_flush(p->client);
	}
	serve(p);
	copyrpc_poll(p->client, on_response, p);
}

/* Repeats turn() until `goal` responses have arrived. Returns the time at the end. */
static uint64_t turn_until(struct pair *p, uint64_t goal, uint64_t *calls, uint32_t under_way,
	uint32_t batch)
{
	uint64_t now = clock_ns(), heard = now, seen = p->responses;

	while (!p->error && p->responses < goal) {
		turn(p, calls, under_way, batch);
		now = clock_ns();
		if (p->responses != seen) {
			seen = p->responses;
			heard = now;
		} else if (now - heard > GIVE_UP_NS) {
			p->error = -ETIMEDOUT;
		} else if (now - heard > PATIENCE_NS) {
			sched_yield();
		}
	}
	return now;
}

/* Makes calls for `ns`. Returns the time per call of the fastest chunk of CHUNK calls. */
static double time_calls(struct pair *p, uint64_t ns, uint32_t under_way, uint32_t batch)
{
	uint64_t calls = 0, start = clock_ns(), now = start;
	double least = 0;

	p->responses = 0;
	do {
		uint64_t before = now, first = p->responses;

		now = turn_until(p, first + CHUNK, &calls, under_way, batch);
		if (!p->error) {
			double each = (double)(now - before) / (double)(p->responses - first);

			least = least > 0 && least < each ? least : each;
		}
	} while (!p->error && now - start < ns);
	copyrpc_flush(p->client);
	turn_until(p, calls, &calls, 0, batch);
	return least;
}

int measure(const char *device, uint64_t ns, struct control_times *m_p, char *why, int size)
{
	struct pair p = {.error = 0};
	int err = connect_pair(&p, device);
	struct control_times m;
	double call_ns;

	if (!err) {
		m.round_trip_ns = time_calls(&p, ns, 1, 1);
		/* Each call has a WRITE of its own; the responses of a turn share a WRITE. */
		m.write_ns = time_calls(&p, ns, WINDOW, 1);
		if (m.write_ns > m.round_trip_ns / 2) /* a round trip has two of them */
			m.write_ns = m.round_trip_ns / 2;
		call_ns = time_calls(&p, ns, BATCH, BATCH);
		m.message_ns = call_ns / 2; /* includes its share of a WRITE, which is small */
		err = p.error;
	}
	copyrpc_ctx_destroy(p.client);
	copyrpc_ctx_destroy(p.server);
	if (err)
		snprintf(why, (size_t)size, "measuring device %s: %s", device, strerror(-err));
	else
		*m_p = m;
	return err;
}

int measure_command(const struct options *o, const char *device)
{
	struct control_spec spec = {.kind = CONTROL_AUTO, .derive = true};
	struct control_origin from;
	char why[WHY_MAX] = "", name[CONTROL_NAME_MAX];
	struct control_times m;
	struct machine machine;
	int err;

	if (o->machine && !output_try("benchkv", "--machine", o->machine))
		return JOB_USAGE;
	err = measure(device, COMMAND_NS, &m, why, sizeof(why));
	if (!err)
		err = machine_load("cx7", &machine, why, sizeof(why));
	if (err) {
		fprintf(stderr, "benchkv: %s\n", why);
		return JOB_ERROR;
	}
	machine_from_measured(&machine, &m);
	machine_derive(&machine, &spec, &from); /* as a job does with the file */
	control_name(&spec, name);
	printf("device %s: round trip %.0f ns, %.0f ns per WRITE, %.0f ns per message; control %s\n",
		device, m.round_trip_ns, m.write_ns, m.message_ns, name);
	err = o->machine ? machine_save(&machine, o->machine) : 0;
	if (!err && !fflush(stdout))
		return JOB_OK;
	fprintf(stderr, "benchkv: %s: %s\n", err ? o->machine : "standard output",
		strerror(err ? -err : errno));
	return JOB_ERROR;
}
