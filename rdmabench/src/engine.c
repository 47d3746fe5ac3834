/* SPDX-License-Identifier: MIT */
/* The two roles of the engine, from the first connection to the report. */
#include "engine.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cm.h"
#include "text.h"
#include "base/child.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "base/output.h"
#include "base/tcp.h"

#define SYSFS "/sys/class/infiniband"
/* The server checks clients that wait until all have joined at this interval. */
#define LOOK_NS (200 * NSEC_PER_MSEC)
#define SERVED 64 /* clients of --serve at a time */
#define CALLERS 256 /* connections that have not sent HELLO yet */

struct engine {
	const struct engine_options *o;
	struct side side;
	char run[WIRE_RUN_MAX];
	char why[WIRE_TEXT_MAX];
	uint64_t deadline_ns; /* time limit for the next run to begin; 0: none */
	struct counters before, after;
	struct wire_side ours; /* kept here because it and `body` are too large for the stack */
	uint8_t body[WIRE_BODY_MAX];
};

static uint64_t timeout_ns(const struct engine *e)
{
	return e->o->timeout_s * NSEC_PER_SEC;
}

static int say(struct engine *e, const char *who, int err)
{
	snprintf(e->why, sizeof(e->why), "%.80s: %s", who, wire_error(err));
	return err;
}

/* Names the peer in the text of an error, unless the peer gave the reason. Returns err. */
static int of_peer(struct engine *e, const struct peer *p, int err)
{
	return err && err != -ECONNREFUSED ? say(e, p->conn.peer, err) : err;
}

static struct peer *new_peer(struct engine *e, int fd, const char *address)
{
	struct peer *p = calloc(1, sizeof(*p));

	if (p) {
		p->side = &e->side;
		wire_open(&p->conn, fd, address);
	}
	return p;
}

static void keep_peer(struct engine *e, struct peer *p)
{
	e->side.peers[e->side.n_peers++] = p;
}

static int send_side(struct engine *e, struct peer *p, enum wire_kind kind)
{
	size_t len;

	side_describe(&e->side, p, kind == WIRE_WELCOME ? e->run : "", &e->ours);
	len = wire_put_side(e->body, sizeof(e->body), &e->ours);
	return of_peer(e, p, wire_send(&p->conn, kind, e->body, len, timeout_ns(e)));
}

/* Reads the other side's QPs and memory from WELCOME or JOIN, and connects our QPs to them. */
static int take_side(struct engine *e, struct peer *p, enum wire_kind kind)
{
	struct wire_buf b;
	int err = wire_expect(&p->conn, kind, timeout_ns(e), &b, e->why);

	if (!err)
		err = wire_get_side(&b, e->side.t.qps, &p->remote);
	return err ? of_peer(e, p, err) : side_connect(p, e->why);
}

static int open_stats(struct engine *e)
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
			o->stats_dir ? o->stats_dir : o->stats_file, strerror(-err));
	return err;
}

static unsigned port_of(const struct engine *e)
{
	return e->o->device.port ? e->o->device.port : 1;
}

static void count(const struct engine *e, struct counters *c_p)
{
	counters_read(SYSFS, mlx5dvl_ctx_device(e->side.ctx), port_of(e), c_p);
}

static void run_traffic(struct engine *e)
{
	struct side *s = &e->side;
	int err;

	side_run(s);
	count(e, &e->after);
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

static int report(struct engine *e)
{
	struct engine_report r = {.o = e->o,
		.s = &e->side,
		.run = e->run,
		.device = mlx5dvl_ctx_device(e->side.ctx),
		.before = &e->before,
		.after = &e->after};
	int status = report_status(&e->side);
	json_t *o;

	if (!is_stdout(e->o->json) && !is_stdout(e->o->hdr_log))
		report_table(&r, stdout);
	status |= report_hdr_log(&r);
	if (!e->o->json)
		return status;
	o = report_json(&r);
	status |= report_write(o, e->o->json, e->o->more);
	json_decref(o);
	return status;
}

/* Reports a run that ended before there was any result. */
static int report_failure(const struct engine *e)
{
	fprintf(stderr, "%s: %s\n", e->o->program, e->why);
	if (e->o->json) {
		json_t *o = json_pack("{s:s s:s s:s s:o s:i}", "command",
			e->o->program + strlen("rdmabench "), "version", RDMABENCH_VERSION, "role",
			e->side.is_server ? "server" : "client", "error", text_json(e->why),
			"status", 1);

		if (o)
			report_write(o, e->o->json, e->o->more);
		json_decref(o);
	}
	return 1;
}

/*
 * Runs the traffic after the set-up, which may have failed (err). Returns the status of the
 * program.
 */
static int run_and_report(struct engine *e, int err)
{
	int status;

	if (err) {
		status = report_failure(e);
	} else {
		run_traffic(e);
		status = report(e);
	}
	cm_close(&e->side);
	side_close(&e->side);
	return status;
}

/* ---- client ---- */

static int greet(struct engine *e, struct peer *p)
{
	size_t len = wire_put_traffic(e->body, sizeof(e->body), &e->side.t);
	int err = of_peer(e, p, wire_send(&p->conn, WIRE_HELLO, e->body, len, timeout_ns(e)));

	if (!err)
		err = take_side(e, p, WIRE_WELCOME);
	if (err)
		return err;
	snprintf(e->run, sizeof(e->run), "%s", p->remote.run);
	count(e, &e->before); /* the server may send as soon as all have joined */
	err = send_side(e, p, WIRE_JOIN);
	return err || !e->side.t.cm ? err : cm_connect(p, e->why);
}

static int wait_for_go(struct engine *e, struct peer *p)
{
	struct wire_buf b;

	return of_peer(e, p, wire_expect(&p->conn, WIRE_GO, timeout_ns(e), &b, e->why));
}

static int set_up_client(struct engine *e, const char *host, uint32_t port)
{
	struct side *s = &e->side;
	struct peer *p;
	int err, fd;

	err = side_open(s, &e->o->device, 1, e->why);
	if (err)
		return err;
	err = tcp_connect(host, (uint16_t)port, true, clock_ns() + timeout_ns(e), &fd);
	if (err) {
		snprintf(e->why, sizeof(e->why), "%.60s, port %u: %s", host, port,
			err == -EADDRNOTAVAIL ? "no such host" : strerror(-err));
		return err;
	}
	p = new_peer(e, fd, host);
	if (!p) {
		close(fd);
		return -ENOMEM;
	}
	keep_peer(e, p);
	err = side_add_peer(s, p, e->why);
	if (!err)
		err = greet(e, p);
	if (!err)
		err = open_stats(e);
	return err ? err : wait_for_go(e, p);
}

/* ---- server ---- */

/* A connection that has not sent HELLO yet. */
struct caller {
	struct tcp_guest guest;
	struct peer *peer; /* NULL: not read yet */
	struct traffic t;
};

static void caller_close(void *arg, struct tcp_guest *g)
{
	free(container_of(g, struct caller, guest)->peer);
}

/*
 * Refuses a client. The server continues, and does not wait until the client has read the reason.
 */
static void refuse(struct engine *e, struct peer *p, int err)
{
	if (err != -EINVAL)
		say(e, p->conn.peer, err);
	if (err == -EPROTONOSUPPORT)
		snprintf(e->why, sizeof(e->why), "this server speaks version %d of the protocol",
			WIRE_VERSION);
	fprintf(stderr, "%s: refused %s: %s\n", e->o->program, p->conn.peer, e->why);
	wire_refuse(&p->conn, e->why, 0);
}

/*
 * Returns 0 if the client has sent HELLO, -EAGAIN if it has not yet, -EPROTO if it was refused, or
 * -ENOMEM.
 */
static int caller_step(void *arg, struct tcp_guest *g)
{
	struct caller *c = container_of(g, struct caller, guest);
	struct engine *e = arg;
	char address[TCP_NAME_MAX] = "unknown";
	struct wire_buf b;
	int kind, err;

	if (!c->peer) {
		tcp_peer(g->fd, address, sizeof(address));
		c->peer = new_peer(e, g->fd, address);
		if (!c->peer)
			return -ENOMEM;
	}
	kind = wire_poll(&c->peer->conn, timeout_ns(e), &b);
	if (!kind)
		return -EAGAIN;
	err = kind < 0 ? kind : kind == WIRE_HELLO ? 0 : -EBADMSG;
	if (!err)
		err = wire_get_traffic(&b, &c->t, e->why);
	if (err)
		refuse(e, c->peer, err);
	return err ? -EPROTO : 0;
}

static bool same_traffic(struct engine *e, const struct traffic *t)
{
	uint8_t theirs[WIRE_BODY_MAX / 8];
	size_t n = wire_put_traffic(theirs, sizeof(theirs), t);

	return n == wire_put_traffic(e->body, sizeof(e->body), &e->side.t) &&
	       !memcmp(theirs, e->body, n);
}

/*
 * Uses the traffic of the first client; the others must request the same. @first: this is the first
 * client.
 */
static int welcome(struct engine *e, struct peer *p, const struct traffic *t, bool first)
{
	struct side *s = &e->side;
	int err = 0;

	if (first) {
		s->t = *t;
		s->sends = t->bidirectional || t->pingpong;
		err = side_open(s, &e->o->device, e->o->hosts, e->why);
		if (!err && t->cm)
			err = cm_listen(s, e->why);
		if (!err)
			err = open_stats(e);
	} else if (!same_traffic(e, t)) {
		snprintf(e->why, sizeof(e->why), "the options differ from the first client's");
		return -EINVAL;
	}
	return err ? err : side_add_peer(s, p, e->why);
}

/* Sends ALIVE to the clients that wait for others. A client that has left ends the run. */
static int reassure(struct engine *e)
{
	for (uint32_t i = 0; i < e->side.n_peers; i++) {
		struct wire_conn *c = &e->side.peers[i]->conn;
		struct wire_buf b;
		int err = wire_alive(c, clock_ns(), timeout_ns(e));

		c->heard_ns = clock_ns(); /* the client may be silent before JOIN */
		if (!err && wire_poll(c, timeout_ns(e), &b) < 0)
			err = -ECONNRESET;
		if (err)
			return say(e, c->peer, err);
	}
	return 0;
}

static int add_client(struct engine *e, struct tcp_guest *g)
{
	struct caller *c = container_of(g, struct caller, guest);
	struct peer *p = c->peer;
	int err;

	keep_peer(e, p);
	err = welcome(e, p, &c->t, e->side.n_peers == 1);
	free(c);
	if (err)
		wire_refuse(&p->conn, e->why, timeout_ns(e));
	return err;
}

/*
 * Does one step of accepting the next client. At most one connection is accepted per step, so that
 * a client of the next run stays in the backlog.
 */
static int next_client(struct engine *e, struct tcp_crowd *crowd, int listener)
{
	uint64_t now = clock_ns();
	struct tcp_guest *g;
	int err = tcp_crowd_next(crowd, listener, 1, now, &g);

	if (!err)
		return add_client(e, g);
	if (err == -EAGAIN)
		err = tcp_crowd_wait(crowd, listener, now, now + LOOK_NS);
	return err == -ETIMEDOUT || err == -EPROTO ? 0 : err ? say(e, "the port", err) : 0;
}

static int accept_clients(struct engine *e, int listener)
{
	struct tcp_crowd crowd = {.size = sizeof(struct caller),
		.step = caller_step,
		.close = caller_close,
		.arg = e,
		.most = CALLERS};
	int err = 0;

	while (e->side.n_peers < e->o->hosts && !err) {
		err = next_client(e, &crowd, listener);
		if (!err)
			err = reassure(e);
		if (!err && e->deadline_ns && !e->side.n_peers && clock_ns() > e->deadline_ns)
			err = say(e, e->o->more ? "the next run" : "the first client", -ETIMEDOUT);
	}
	tcp_crowd_fini(&crowd);
	return err;
}

/* Sends WELCOME to all, waits for JOIN from all, then sends GO to all. */
static int start_clients(struct engine *e)
{
	struct side *s = &e->side;
	int err = 0;

	for (uint32_t i = 0; i < s->n_peers && !err; i++) {
		s->peers[i]->conn.heard_ns = clock_ns();
		err = send_side(e, s->peers[i], WIRE_WELCOME);
	}
	for (uint32_t i = 0; i < s->n_peers && !err; i++)
		err = take_side(e, s->peers[i], WIRE_JOIN);
	if (!err && s->t.cm)
		err = cm_accept(s, e->why);
	count(e, &e->before);
	for (uint32_t i = 0; i < s->n_peers && !err; i++)
		err = of_peer(e, s->peers[i],
			wire_send(&s->peers[i]->conn, WIRE_GO, NULL, 0, timeout_ns(e)));
	for (uint32_t i = 0; i < s->n_peers && err; i++)
		wire_refuse(&s->peers[i]->conn, e->why, NSEC_PER_SEC);
	return err;
}

static int server(struct engine *e, int listener)
{
	int err;

	e->side.is_server = true;
	err = accept_clients(e, listener);
	if (!err)
		err = start_clients(e);
	return run_and_report(e, err);
}

/* ---- both ---- */

static void name_run(struct engine *e)
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

static struct engine *new_engine(const struct engine_options *o)
{
	struct engine *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->o = o;
	e->side.t = o->t;
	e->side.program = o->program;
	e->side.hw_ts = o->hw_ts;
	e->side.timeout_ns = timeout_ns(e);
	e->side.events = json_array();
	snprintf(e->why, sizeof(e->why), "out of memory");
	name_run(e);
	return e;
}

static void free_engine(struct engine *e)
{
	json_decref(e->side.events);
	free(e);
}

/* Serves one run after another, as long as the clients announce a next one. */
static int with_server(const struct engine_options *o, int listener)
{
	struct engine_options next = *o;
	bool again = true;
	int status = 0;

	while (again && !status) {
		struct engine *e = new_engine(&next);

		if (!e)
			return 1;
		e->deadline_ns = next.more ? clock_ns() + timeout_ns(e) :
				 o->wait_s ? clock_ns() + o->wait_s * NSEC_PER_SEC :
					     0;
		status = server(e, listener);
		again = e->side.t.again;
		next.more = true;
		free_engine(e);
	}
	close(listener);
	return status;
}

static int one_client(const struct engine_options *o, const char *host, uint32_t port)
{
	struct engine *e = new_engine(o);
	int status;

	if (!e)
		return 1;
	e->side.sends = true;
	status = run_and_report(e, set_up_client(e, host, port));
	free_engine(e);
	return status;
}

static int with_client(const struct engine_options *o, const char *host, uint32_t port)
{
	struct engine_options one = *o;
	int status = 0;

	if (!o->all)
		return one_client(o, host, port);
	for (uint32_t bytes = o->first_size; bytes <= o->last_size && !status; bytes *= 2) {
		engine_options_resize(&one, bytes);
		status = one_client(&one, host, port);
	}
	return status;
}

/* The child is the server and prints nothing; its status becomes part of this process's status. */
static int both(const struct engine_options *o)
{
	struct engine_options quiet = *o;
	int listener, port, child_status = 0, status, err = tcp_listen("127.0.0.1", 0, &listener);
	pid_t parent = getpid(), child;

	if (err) {
		fprintf(stderr, "%s: %s\n", o->program, strerror(-err));
		return 1;
	}
	quiet.json = quiet.hdr_log = NULL;
	quiet.device.name = o->server_device ? o->server_device : o->device.name;
	fflush(stdout);
	child = fork();
	if (!child) {
		/* The child may be waiting for a client that never comes. */
		if (!child_ends_with(parent) || !freopen("/dev/null", "w", stdout))
			_exit(1);
		exit(with_server(&quiet, listener));
	}
	port = tcp_port(listener);
	close(listener);
	if (child < 0) {
		fprintf(stderr, "%s: %s\n", o->program, strerror(errno));
		return 1;
	}
	status = with_client(o, "127.0.0.1", (uint32_t)port);
	if (status)
		kill(child, SIGTERM);
	waitpid(child, &child_status, 0);
	return status || child_status;
}

/* Serves the client of a connection, which is the first of a run with one client. */
static int serve_one(const struct engine_options *o, int fd)
{
	struct engine *e = new_engine(o);
	char address[TCP_NAME_MAX] = "unknown";
	struct peer *p = NULL;
	struct traffic t;
	struct wire_buf b;
	int err, status = 1;

	tcp_peer(fd, address, sizeof(address));
	if (e)
		p = new_peer(e, fd, address);
	if (!p)
		return 1;
	e->side.is_server = true;
	keep_peer(e, p);
	err = wire_expect(&p->conn, WIRE_HELLO, timeout_ns(e), &b, e->why);
	if (!err)
		err = wire_get_traffic(&b, &t, e->why);
	if (err) {
		refuse(e, p, err);
		side_close(&e->side);
	} else {
		err = welcome(e, p, &t, true);
		if (err)
			wire_refuse(&p->conn, e->why, timeout_ns(e));
		status = run_and_report(e, err ? err : start_clients(e));
	}
	free_engine(e);
	return status;
}

/* Starts a process for each client; clients beyond SERVED stay in the backlog. Never returns. */
static int serve_all(const struct engine_options *o, int listener)
{
	uint32_t running = 0;
	pid_t parent = getpid();

	for (;;) {
		int fd;
		pid_t child;

		while (running && waitpid(-1, NULL, running < SERVED ? WNOHANG : 0) > 0)
			running--;
		if (tcp_accept(listener, clock_ns() + LOOK_NS, &fd))
			continue;
		fflush(stdout);
		child = fork();
		if (!child) {
			close(listener);
			exit(child_ends_with(parent) ? serve_one(o, fd) : 1);
		}
		running += child > 0;
		close(fd);
	}
}

static int serve(const struct engine_options *o)
{
	int listener, err = tcp_listen(NULL, (uint16_t)o->port, &listener);

	if (err) {
		fprintf(stderr, "%s: port %u: %s\n", o->program, o->port, strerror(-err));
		return 1;
	}
	if (o->serve)
		fprintf(stderr, "%s: waiting for clients on port %d\n", o->program,
			tcp_port(listener));
	else
		fprintf(stderr, "%s: waiting for %u client%s on port %d\n", o->program, o->hosts,
			o->hosts > 1 ? "s" : "", tcp_port(listener));
	return o->serve ? serve_all(o, listener) : with_server(o, listener);
}

int engine_main(int argc, char **argv)
{
	struct engine_options o;
	char why[300], program[32];
	int err = engine_options_parse(argc, argv, &o, why, sizeof(why));

	snprintf(program, sizeof(program), "rdmabench %s", argv[0]);
	if (err)
		return args_status(program, why, err);
	if (o.json && !output_try(program, "--json", o.json))
		return 2;
	if (o.hdr_log && !output_try(program, "--hdr-log", o.hdr_log))
		return 2;
	signal(SIGPIPE, SIG_IGN);
	if (o.fork)
		return both(&o);
	return o.host ? with_client(&o, o.host, o.port) : serve(&o);
}
