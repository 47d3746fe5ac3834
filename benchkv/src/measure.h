/* SPDX-License-Identifier: MIT */
/*
 * Measures a machine's times on the device, with two contexts of this process that are connected to
 * each other and driven by one thread. On a real adapter the messages do not leave the adapter, so
 * the measured round trip is a little too short.
 */
#ifndef BENCHKV_MEASURE_H
#define BENCHKV_MEASURE_H

#include <stdint.h>

struct control_times;

/* Measures each field of *m_p for about @ns. 0, or -errno with a message in @why. */
int measure(const char *device, uint64_t ns, struct control_times *m_p, char *why, int size);

/*
 * The command `measure`: prints the times, and the K and B of a machine with these times; with
 * --machine writes this machine to a file for benchkv and benchkv-sim. Returns the exit status.
 */
struct options;
int measure_command(const struct options *o, const char *device);

#endif
