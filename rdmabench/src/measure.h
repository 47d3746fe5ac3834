/* SPDX-License-Identifier: MIT */
/* The measurement of one point of the search space, and its judgement as an anomaly. */
#ifndef RDMABENCH_MEASURE_H
#define RDMABENCH_MEASURE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "space.h"
#include "stats.h"

enum measure_key {
	MEASURE_TX_GBPS, /* tx_vport_rdma_unicast_bytes, in Gb/s */
	MEASURE_RX_GBPS,
	MEASURE_TX_PACKETS, /* per second */
	MEASURE_RX_PACKETS,
	MEASURE_TX_PAUSE, /* tx_prio3_pause_duration, microseconds per second */
	MEASURE_RX_PAUSE,
	MEASURE_KEYS,
};

extern const char *const measure_names[MEASURE_KEYS];

struct measure {
	double v[MEASURE_KEYS];
	bool from_port; /* from the port's counters; else the traffic engines or the model count */
	bool keeps_up; /* all clients have a rate and sent at least nine tenths of it */
	struct stats_merged latency;
	json_t *counters; /* owned: the other counters of the port, or NULL */
};

/* The limits. A measurement is an anomaly if a pause or the p99 exceeds its limit, or if the
 * throughput is too low. */
struct rules {
	double tx_pause, rx_pause; /* largest allowed value, us per second */
	double gbps, packets; /* at least one of the two must be reached in at least one
				 direction, unless the traffic keeps up with its rate */
	double p99_ns; /* largest allowed value; 0: no limit */
};

enum anomaly {
	ANOMALY_NONE = 0,
	ANOMALY_PAUSE = -1,
	ANOMALY_THROUGHPUT = -2,
	ANOMALY_LATENCY = -3,
};

/* Sets the defaults: tx_pause 1000, rx_pause 0, 90 Gb/s, 4 million packets per second, no limit of
 * the latency. */
void rules_init(struct rules *r);
enum anomaly measure_judge(const struct measure *m, const struct rules *r);

/*
 * The energy of a measurement, which the search maximises. It is the sum of these parts: the share
 * of the time in which the port was paused (the mean of both directions, at most 1); if there is a
 * limit in Gb/s, 1 / (1 + throughput / limit), with the mean of both directions; if there is a limit
 * of the latency, the p99 divided by that limit, at most 1. Traffic that keeps up with its rate
 * counts as if it reached the limit of the throughput.
 */
double measure_energy(const struct measure *m, const struct rules *r);

#endif
