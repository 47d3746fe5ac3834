/* SPDX-License-Identifier: MIT */
#include "session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cm.h"
#include "text.h"
#include "base/clock.h"

#define SYSFS "/sys/class/infiniband"

static void name_run(struct session *e)
{
	time_t now = time(NULL);
	struct tm utc;
	char stamp[32];

	gmtime_r(&now, &utc);
	strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", &utc);
	if (e->o->run)
		snprintf(e->run, sizeof(e->run), "%s", e->o->run);
	else
		snprintf(e->run, sizeof(e->run), "%s-%d", stamp, (int)getpid());
}

struct session *session_new(const struct engine_options *o)
{
	struct session *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->o = o;
	e->side.t = o->t;
	e->side.program = o->program;
	e->side.hw_ts = o->hw_ts;
	e->side.timeout_ns = o->timeout_s * NSEC_PER_SEC;
	e->side.events = json_array();
	snprintf(e->why, sizeof(e->why), "out of memory");
	name_run(e);
	return e;
}

void session_free(struct session *e)
{
	json_decref(e->side.events);
	free(e);
}

int session_say(struct session *e, const char *who, int err)
{
	snprintf(e->why, sizeof(e->why), "%.80s: %s", who, wire_error(err));
	return err;
}

int session_of_peer(struct session *e, const struct peer *p, int err)
{
	if (err == -EPROTONOSUPPORT)
		snprintf(e->why, sizeof(e->why),
			"%.80s: it speaks version %u of the protocol, this program version %d",
			p->conn.peer, wire_version(&p->conn), WIRE_VERSION);
	else if (err && err != -ECONNREFUSED)
		session_say(e, p->conn.peer, err);
	return err;
}

struct peer *session_new_peer(struct session *e, int fd, const char *address)
{
	struct peer *p = calloc(1, sizeof(*p));

	if (p) {
		p->side = &e->side;
		wire_open(&p->conn, fd, address);
	}
	return p;
}

void session_keep_peer(struct session *e, struct peer *p)
{
	e->side.peers[e->side.n_peers++] = p;
}

int session_send_side(struct session *e, struct peer *p, enum wire_kind kind)
{
	size_t len;

	side_describe(&e->side, p, kind == WIRE_WELCOME ? e->run : "", &e->ours);
	len = wire_put_side(e->body, sizeof(e->body), &e->ours);
	return session_of_peer(e, p, wire_send(&p->conn, kind, e->body, len, e->side.timeout_ns));
}

int session_take_side(struct session *e, struct peer *p, enum wire_kind kind)
{
	struct wire_buf b;
	int err = wire_expect(&p->conn, kind, e->side.timeout_ns, &b, e->why);

	if (!err)
		err = wire_get_side(&b, e->side.t.qps, &p->remote);
	return err ? session_of_peer(e, p, err) : side_connect(p, e->why);
}

int session_open_stats(struct session *e)
{
	const struct engine_options *o = e->o;
	struct statsfile_attr a = {.dir = o->stats_dir,
		.path = o->stats_file,
		.run = e->run,
		.role = e->side.is_server ? "server" : "client",
		.clock = side_clock_name(&e->side),
		.window = o->stats_window,
		.compat = o->compat};
	int err;

	if (!e->side.sends || (!o->stats_dir && !o->stats_file))
		return 0;
	err = statsfile_open(&a, &e->side.stats);
	if (err)
		snprintf(e->why, sizeof(e->why), "%.100s: %s",
			o->stats_dir ? o->stats_dir : o->stats_file,
			err == -EISDIR ? "it, or the .jsonl beside it, is a directory" :
					 strerror(-err));
	return err;
}

static unsigned port_of(const struct session *e)
{
	return e->o->device.port ? e->o->device.port : 1;
}

void session_count(const struct session *e, struct counters *c_p)
{
	c_p->read_ns = latrec_clock_now(&e->side.clock);
	counters_read(SYSFS, mlx5dvl_ctx_device(e->side.ctx), port_of(e), c_p);
}

static void run_traffic(struct session *e)
{
	struct side *s = &e->side;
	int err;

	side_run(s);
	session_count(e, &e->after);
	err = statsfile_close(s->stats);
	if (err && !s->stats_error) {
		s->stats_error = err;
		side_event(s, "the statistics file: %s", strerror(-err));
	}
}

static bool is_stdout(const char *path)
{
	return path && !strcmp(path, "-");
}

static int report(struct session *e)
{
	int status = report_status(&e->side);
	json_t *o;

	if (!is_stdout(e->o->json) && !is_stdout(e->o->hdr_log))
		report_table(e, stdout);
	status |= report_hdr_log(e);
	if (!e->o->json)
		return status;
	o = report_json(e);
	status |= report_write(o, e->o->json, e->o->more);
	json_decref(o);
	return status;
}

int session_fail(const struct session *e, int status)
{
	fprintf(stderr, "%s: %s\n", e->o->program, e->why);
	if (e->o->json) {
		json_t *o = json_pack("{s:s s:s s:s s:o s:i}", "command",
			e->o->program + strlen("rdmabench "), "version", RDMABENCH_VERSION, "role",
			e->side.is_server ? "server" : "client", "error", text_json(e->why),
			"status", status);

		if (o)
			report_write(o, e->o->json, e->o->more);
		json_decref(o);
	}
	return status;
}

int session_run(struct session *e, int err)
{
	int status;

	if (err) {
		status = session_fail(e, 1);
	} else {
		run_traffic(e);
		status = report(e);
	}
	cm_close(&e->side);
	side_close(&e->side);
	return status;
}
