/* SPDX-License-Identifier: MIT */
/*
 * The parameters of a simulated machine: the times that an adapter and a daemon take, in
 * nanoseconds. A machine is built in, or is a JSON file with an object whose keys are the names
 * below. A parameter without a key has its default.
 */
#ifndef BENCHKV_SIM_MACHINE_H
#define BENCHKV_SIM_MACHINE_H

#include <stdint.h>
#include <stdio.h>

struct control_origin;
struct control_spec;
struct control_times;

struct machine {
	char name[64];
	/* The adapter. Each context sends one WRITE at a time, and receives one at a time. */
	double send_ns; /* per WRITE */
	double recv_ns; /* per WRITE */
	double wire_ns; /* from the end of sending to the beginning of receiving */
	double bytes_per_ns;
	/* A daemon's CPU. */
	double request_ns; /* to read and gather a client's request for another rank */
	double incoming_ns; /* to serve another rank's request and gather the reply */
	double response_ns; /* to pass a response to its client */
	double local_ns; /* to serve a client's request for this rank */
	double cqe_ns; /* per received WRITE */
	double write_ns; /* per posted WRITE */
	double loop_ns; /* per loop, in addition to the work above */
	double loop_jitter; /* loop_ns varies by a random factor, uniform in 1 +- loop_jitter */
	double poll_ns; /* per poll of a loop, except the first poll */
	double poll_flushes; /* 1: the daemon flushes between two polls of a loop */
	double repoll_ns; /* the same with adaptive-budget: polls of only the receive CQ */
	/* Clients. */
	double reply_ns; /* from the daemon's reply until the client reads it */
	double reply_jitter_ns; /* additional random time, uniform from 0 */
	double client_ns; /* to make a request; a client makes one at a time */
};

/* The CPU times of a machine in whole nanoseconds, which the simulator adds up in every loop. */
struct machine_costs {
	uint64_t request, incoming, response, local, cqe, write, poll, repoll, client;
	uint64_t visible; /* time from a request until the daemon can see it */
};
struct machine_costs machine_costs(const struct machine *m);

/* One parameter: its name, its offset in struct machine, its default, and the default's source. */
struct machine_key {
	const char *name;
	size_t offset;
	double built_in;
	const char *source;
};
extern const struct machine_key machine_keys[];
extern const size_t machine_nkeys;

/*
 * Loads "hdr100", "cx7", or a file. Returns 0, or -EINVAL with one line in @why.
 */
int machine_load(const char *name, struct machine *m_p, char *why, size_t size);

/* The round trip of a single call, including one loop of each daemon. */
double machine_round_trip_ns(const struct machine *m);

/*
 * Writes the machine's round trip, the time per WRITE of the slower side, and the CPU time per
 * message to *origin_p, and for the control `auto` without numbers computes K and B (control.h)
 * from them. If the time per WRITE or per message is 0, *origin_p has no times, and *spec is
 * unchanged.
 */
void machine_derive(const struct machine *m, struct control_spec *spec,
	struct control_origin *origin_p);

/*
 * Sets the machine's times so that they match measured ones. wire_ns becomes half of the part of
 * the round trip that the other times do not explain. If the other times are longer than the
 * measured round trip, wire_ns is 0 and the machine's round trip is longer than the measured one.
 */
void machine_from_measured(struct machine *m, const struct control_times *measured);

/* Writes a file that machine_load() reads. 0 or -errno. */
int machine_save(const struct machine *m, const char *file);

/* The value of a key. */
double machine_get(const struct machine *m, const struct machine_key *key);

#endif
