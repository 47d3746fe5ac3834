/* SPDX-License-Identifier: MIT */
#include "move.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/output.h"
#include "base/tcp.h"
#include "compare.h"
#include "meet.h"
#include "row.h"
#include "trace.h"

static int failed(const char *what, int err, const struct tent_why *why)
{
	fprintf(stderr, "tentbench: %s: %s\n", what,
		why && why->text[0] ? why->text : strerror(-err));
	return 1;
}

/* Creates the engine. Returns the exit status, which is 2 after an error in the configuration. */
static int create(const struct move_options *o, struct tent **t_p)
{
	const struct tent_attr attr = {.size = sizeof(attr),
		.config_file = o->config,
		.address = o->address,
		.shm_rails = o->shm,
		.gpu_rails = o->gpu,
		.tcp_rails = o->tcp,
		.adapters = o->adapters};
	struct tent_why why = {""};
	int err = tent_create(&attr, &why, t_p);

	if (!err)
		return 0;
	failed("engine", err, &why);
	return err == -EINVAL || err == -ENOENT ? 2 : 1;
}

/* ---- server ---- */

static int register_memory(struct tent *t, uint64_t len, const struct move_options *o,
	struct place *place_p, uint8_t **memory_p)
{
	struct tent_why why = {""};
	uint8_t *m;
	int err;

	if (!place_open(o->location, place_p))
		return 1;
	if (o->alloc) {
		err = tent_alloc(t, len, o->location, &why, (void **)memory_p);
		if (err)
			return failed("memory", err, &why);
		memset(*memory_p, 0, len); /* so that the pages exist */
		return 0;
	}
	m = place_alloc(place_p, len);
	if (!m)
		return failed("memory", -ENOMEM, NULL);
	err = tent_register(t, m, len, o->location, &why);
	if (err) {
		if (!place_p->of_gpu)
			munmap(m, len);
		return failed("memory", err, &why);
	}
	*memory_p = m;
	return 0;
}

static int serve(const struct move_options *o, const char *text)
{
	int listener, err = tcp_listen(o->address, o->port, &listener);

	if (err)
		return failed(o->address, err, NULL);
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "waiting for clients at %s, port %u\n", o->address, o->port);
	err = meet_serve(listener, text, o->once);
	close(listener);
	return err ? failed("server", err, NULL) : 0;
}

/* Makes an engine with memory that clients may use. Returns the exit status. */
static int lend(const struct move_options *o, uint64_t len, struct tent **t_p, char **text_p)
{
	struct place place;
	uint8_t *memory;
	int status = create(o, t_p);

	if (!status)
		status = register_memory(*t_p, len, o, &place, &memory);
	return !status && tent_export(*t_p, text_p) ? failed("memory", -ENOMEM, NULL) : status;
}

int move_server(const struct move_options *o)
{
	struct tent *t = NULL;
	char *text = NULL;
	int status = lend(o, o->memory, &t, &text);

	if (!status)
		status = serve(o, text);
	free(text);
	tent_destroy(t);
	return status;
}

/* ---- client ---- */

static uint64_t most(const struct arg_list *l)
{
	uint64_t x = 0;

	for (uint32_t i = 0; i < l->n; i++)
		x = l->at[i] > x ? l->at[i] : x;
	return x;
}

/* Bytes of memory on each side. The client needs as many again for the data that it reads back. */
static uint64_t memory_needed(const struct move_options *o)
{
	return most(&o->sizes) * most(&o->batches) * o->threads;
}

struct server {
	pid_t child; /* 0: the server is no child of this process */
	int fd; /* connection to the server; -1: none */
	char *text, *ucx; /* descriptions of its engine and, if UCX is a peer, of UCX */
};

/*
 * The child writes a line for each description, and ends when the parent closes its end of the
 * socket pair.
 */
static void child(const struct move_options *o, int fd)
{
	char *text, *line = NULL, byte;
	struct ucx *u = NULL;
	struct tent *t;
	int status = lend(o, o->memory ? o->memory : memory_needed(o), &t, &text);

	if (!status && o->peers & MOVE_PEER_UCX)
		status = ucx_lend(o->alloc ? memory_needed(o) : 0, &u, &line);
	if (!status && dprintf(fd, "%s\n%s\n", text, line ? line : "") < 0)
		status = failed("server", -errno, NULL);
	if (u)
		ucx_serve(u, fd);
	if (status || read(fd, &byte, 1) > 0)
		exit(1 + (status == 2));
	ucx_close(u);
	free(line);
	free(text);
	tent_destroy(t);
	exit(0);
}

/* If there is no description, the child has printed the message. */
static int fork_server(const struct move_options *o, struct server *s)
{
	size_t size = 0, more = 0;
	int fds[2], status = 1;
	FILE *in;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		return failed("server", -errno, NULL);
	s->child = fork();
	if (s->child < 0)
		return failed("server", -errno, NULL);
	if (!s->child) {
		close(fds[0]);
		child(o, fds[1]);
	}
	close(fds[1]);
	s->fd = fds[0];
	in = fdopen(dup(fds[0]), "r");
	if (!in)
		return failed("server", -errno, NULL);
	if (getline(&s->text, &size, in) > 0 && getline(&s->ucx, &more, in) > 0) {
		s->ucx[strcspn(s->ucx, "\n")] = 0;
		status = 0;
	}
	fclose(in);
	return status;
}

static int meet(const struct move_options *o, struct server *s)
{
	*s = (struct server){.fd = -1};
	if (o->fork)
		return fork_server(o, s);
	s->fd = meet_fetch(o->host, o->port, (int)o->timeout_s * 1000, &s->text);
	return s->fd < 0 ? failed(o->host, s->fd, NULL) : 0;
}

static int part(struct server *s)
{
	int status = 0;

	free(s->text);
	free(s->ucx);
	if (s->fd >= 0)
		close(s->fd);
	if (s->child > 0 && waitpid(s->child, &status, 0) == s->child && WIFEXITED(status))
		return WEXITSTATUS(status);
	return status ? 1 : 0;
}

static void progress(const struct row *row, uint32_t i, uint32_t n)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r%u of %u: size %llu, batch %llu   \r", i + 1, n,
			(unsigned long long)row->size, (unsigned long long)row->batch);
}

/* Prints a row. @first: it is the first row of the table. 0 or -errno. */
static int show_row(const struct row *row, const struct move_options *o, FILE *json, bool first)
{
	if (row->err == -EINVAL)
		return row->err; /* nothing was moved */
	if (first && json != stdout)
		row_header(stdout);
	if (json)
		row_json(row, o, json);
	if (json != stdout)
		row_print(row, o, stdout);
	fflush(stdout);
	return row->err || !row->wrong ? row->err : -EBADMSG;
}

static int row_failed(const struct move_options *o, int err)
{
	if (err != -EINVAL || !most(&o->priorities))
		return failed("row", err, NULL);
	fprintf(stderr, "tentbench: --priority: give a --config whose `priorities` is %u or more\n",
		(unsigned int)most(&o->priorities) + 1);
	return 2;
}

/* Runs one combination of size and batch, with all priorities. */
static int one_row(struct tent *t, struct tent_segment *s, const struct move_options *o,
	const struct row_memory *m, uint32_t i, FILE *json)
{
	struct row *rows = row_new(o->priorities.n);
	int err;

	if (!rows)
		return failed("row", -ENOMEM, NULL);
	for (uint32_t p = 0; p < o->priorities.n; p++) {
		rows[p].size = o->sizes.at[i / o->batches.n];
		rows[p].batch = o->batches.at[i % o->batches.n];
	}
	progress(rows, i, o->sizes.n * o->batches.n);
	err = row_run(t, s, o, m, rows);
	for (uint32_t p = 0; p < o->priorities.n && !err; p++)
		err = show_row(&rows[p], o, json, !i && !p);
	row_free(rows, o->priorities.n);
	return err ? row_failed(o, err) : 0;
}

/* The files that a client writes; NULL: not requested. */
enum output { JSON, PROMETHEUS, TRACE, OUTPUTS };

static int all_rows(struct tent *t, struct tent_segment *s, const struct move_options *o,
	const struct row_memory *m, FILE *const out[OUTPUTS])
{
	struct trace *trace = NULL;
	int status = 0, err = out[TRACE] ? trace_start(s, out[TRACE], &trace) : 0;

	if (err)
		return failed(o->trace, err, NULL);
	for (uint32_t i = 0; i < o->sizes.n * o->batches.n && !status; i++)
		status = one_row(t, s, o, m, i, out[JSON]);
	trace_stop(trace);
	if (o->stats && out[JSON] != stdout)
		tent_stats_print(t, stdout);
	if (out[PROMETHEUS] && !status)
		err = tent_stats_prometheus(t, out[PROMETHEUS]);
	return err ? failed(o->prometheus, err, NULL) : status;
}

static int beside_peers(struct tent *t, struct tent_segment *s, const struct move_options *o,
	const struct row_memory *m, const struct server *server, FILE *json)
{
	struct ucx *u = NULL;
	int status = 0;

	if (o->peers & MOVE_PEER_UCX)
		status = ucx_open(server->ucx, m->remote, &u);
	if (u && write(server->fd, "", 1) != 1)
		status = failed("server", -errno, NULL);
	if (!status)
		status = compare_rows(t, s, o, m, server->child, u, json);
	ucx_close(u);
	return status;
}

static int with_segment(struct tent *t, struct tent_segment *s, const struct move_options *o,
	const struct server *server)
{
	const char *const names[OUTPUTS] = {o->json, o->prometheus, o->trace};
	uint64_t need = memory_needed(o);
	struct tent_remote remote = {0};
	FILE *out[OUTPUTS] = {NULL};
	struct row_memory m;
	int status = 0;

	if (tent_segment_remote(s, 0, &remote, sizeof(remote)) || remote.len < need) {
		fprintf(stderr,
			"tentbench: the server has %llu bytes, %llu are needed: give it --memory %llu\n",
			(unsigned long long)remote.len, (unsigned long long)need,
			(unsigned long long)need);
		return 2;
	}
	/* Opens the files before the rows, because the rows may take hours. */
	for (int i = 0; i < OUTPUTS && !status; i++)
		status = output_open("tentbench", names[i], "we", &out[i]);
	if (!status)
		status = register_memory(t, 2 * need, o, &m.place, &m.source);
	if (!status) {
		m.back = m.source + need;
		m.remote = remote.addr;
		status = o->peers ? beside_peers(t, s, o, &m, server, out[JSON]) :
				    all_rows(t, s, o, &m, out);
	}
	for (int i = 0; i < OUTPUTS; i++)
		status = output_close("tentbench", names[i], out[i], status);
	return status;
}

static int with_server(const struct move_options *o, const struct server *server)
{
	struct tent_segment *s = NULL;
	struct tent_why why = {""};
	struct tent *t;
	int err, status = create(o, &t);

	if (status)
		return status;
	err = tent_import(t, server->text, &why, &s);
	status = err ? failed("server", err, &why) : with_segment(t, s, o, server);
	tent_destroy(t);
	return status;
}

int move_client(const struct move_options *o)
{
	struct server s;
	int met = meet(o, &s), status, parted;

	status = met ? met : with_server(o, &s);
	parted = part(&s);
	/* If the child failed before it could serve, its status describes the error better. */
	return status && !(met && parted) ? status : parted;
}
