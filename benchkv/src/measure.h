/* SPDX-License-Identifier: MIT */
/*
 * Measures a machine's times on the device itself, with two contexts of this process that are
 * connected to each other and driven by one thread. On a real adapter the way leads back without a
 * wire, so that the round trip is a little short.
 */
#ifndef BENCHKV_MEASURE_H
#define BENCHKV_MEASURE_H

#include <stdint.h>

struct measured {
	double round_trip_ns; /* of a lone call, both daemons' polls included */
	double write_ns; /* per WRITE of one message, when they follow each other */
	double message_ns; /* of CPU, per message of a large batch, without the daemons' own work */
};

/* Takes about three times `ns`. 0, or -errno, and why[] says what failed. */
int measure(const char *device, uint64_t ns, struct measured *m_p, char *why, int size);

/* The command `measure`: prints, and writes a machine file for benchkv and benchkv-sim. */
struct options;
int measure_command(const struct options *o, const char *device);

#endif
