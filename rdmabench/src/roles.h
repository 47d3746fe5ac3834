/* SPDX-License-Identifier: MIT */
/*
 * The two roles of an engine, from the first connection to the report. Each returns the status of
 * the program.
 */
#ifndef RDMABENCH_ROLES_H
#define RDMABENCH_ROLES_H

#include "engine.h"

/* Runs the client of the server at @host; with --all, one run for each size. */
int client_run(const struct engine_options *o, const char *host, uint32_t port);

/*
 * Serves one run after another, as long as the clients announce another one. Closes the listener.
 */
int server_run(const struct engine_options *o, int listener);
/* Serves each client in a process of its own. Never returns. */
int server_run_all(const struct engine_options *o, int listener);

#endif
