/* SPDX-License-Identifier: MIT */
/* The commands engine, lat and bw: server, client, or both. */
#include "engine.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "place.h"
#include "roles.h"
#include "session.h"
#include "text.h"
#include "base/child.h"
#include "base/output.h"
#include "base/tcp.h"

/*
 * Runs the client, and in a child the server without its standard output. Returns 0 if both
 * succeeded.
 */
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
		/* Without its parent, the child could wait for a client forever. */
		if (!child_ends_with(parent) || !freopen("/dev/null", "w", stdout))
			_exit(1);
		exit(server_run(&quiet, listener));
	}
	port = tcp_port(listener);
	close(listener);
	if (child < 0) {
		fprintf(stderr, "%s: %s\n", o->program, strerror(errno));
		return 1;
	}
	status = client_run(o, "127.0.0.1", (uint32_t)port);
	if (status)
		kill(child, SIGTERM);
	waitpid(child, &child_status, 0);
	return status || child_status;
}

/*
 * Checks that the machine has the processors and nodes of the options. Returns 0 or the exit
 * status.
 */
static int check_places(const struct engine_options *o)
{
	struct session *e = session_new(o);
	int err, status = 0;

	if (!e)
		return 1;
	err = place_bind(o->device.cpus, o->device.nodes, NULL, e->why, sizeof(e->why));
	if (err) {
		e->side.is_server = !o->fork && !o->host;
		status = session_fail(e, err == -EINVAL ? 2 : 1);
	}
	session_free(e);
	return status;
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
	return o->serve ? server_run_all(o, listener) : server_run(o, listener);
}

int engine_main(int argc, char **argv)
{
	struct engine_options o;
	char why[300], program[32];
	int err = engine_options_parse(argc, argv, &o, why, sizeof(why)), status;

	snprintf(program, sizeof(program), "rdmabench %s", argv[0]);
	if (err)
		return args_status(program, why, err);
	if (o.json && !output_try(program, "--json", o.json))
		return 2;
	if (o.hdr_log && !output_try(program, "--hdr-log", o.hdr_log))
		return 2;
	signal(SIGPIPE, SIG_IGN);
	status = check_places(&o);
	if (status)
		return status;
	if (o.fork)
		return both(&o);
	return o.host ? client_run(&o, o.host, o.port) : serve(&o);
}
