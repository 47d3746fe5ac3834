/* SPDX-License-Identifier: MIT */
/* A daemon serves its own shard. */
#ifndef BENCHKV_LOCAL_H
#define BENCHKV_LOCAL_H

#include <stdint.h>

struct daemon;

/*
 * Phase A (phases.h): serves requests of this rank's clients. With takes_errands (daemon.h) their
 * requests for other ranks become errands (errand.h). Returns the number of requests.
 */
uint32_t daemon_serve_local(struct daemon *d);

/*
 * Part of phase B: serves requests of other ranks that another daemon of this rank has passed on.
 * Returns their number.
 */
uint32_t daemon_serve_forwarded(struct daemon *d);

#endif
