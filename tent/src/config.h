/* SPDX-License-Identifier: MIT */
/*
 * Configuration: a JSON object, checked key by key. These functions do not depend on rails.
 *
 *	{ "transports": { "rdma": { "numa_penalties": [1, 5, 10] } } }
 *
 * The wrapper `transports.rdma` may be left out. A key that tent(7) does not list, a value of
 * another type and a value out of range are errors. The message names the key and the accepted
 * values.
 */
#ifndef TENT_CONFIG_H
#define TENT_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

struct tent_why;

#define TENT_TIERS 3 /* tier 0: the rail is near the memory */

/* The ways to give slices to rails. */
enum tent_mode {
	TENT_BASELINE, /* round-robin in the best tier */
	TENT_SMART, /* at submit, by scores from in-flight bytes and measured bandwidth */
	TENT_PULL, /* later: a rail gets the next slice when its window of bytes has room */
};

#define TENT_MODE_DEFAULT TENT_PULL

struct tent_config {
	enum tent_mode mode; /* from `scheduler`, or else from enable_smart_scheduling */
	bool strict_numa; /* use only rails of the best tier */
	double numa_penalties[TENT_TIERS];
	double bandwidth_learning_rate; /* weight of the old value, 0 to 1 */
	double ewma_min_bandwidth_multiplier;
	double ewma_max_bandwidth_multiplier;
	double score_jitter_range; /* seconds */
	double score_epsilon; /* seconds */
	double default_bandwidth_gbps, min_bandwidth_gbps, max_bandwidth_gbps;
	unsigned int priorities; /* classes, 1 to 3 */
	char *rail_map, *topology; /* file names, or NULL */
};

/* Writes the defaults, which need no config_fini(). */
void config_init(struct tent_config *c);

/*
 * Reads a configuration. 0; -EINVAL: one line in @why names the wrong key and the values that are
 * accepted; -ENOMEM. *c_p is written on success only; the caller must free it with config_fini().
 */
int config_parse(const char *text, size_t len, struct tent_config *c_p, struct tent_why *why);

/* Reads a file like config_parse(). Also returns -errno if the file cannot be opened. */
int config_load(const char *path, struct tent_config *c_p, struct tent_why *why);

void config_fini(struct tent_config *c);

/* The bandwidth of a device that reports @gbps: @gbps, or the default if @gbps is out of range. */
double config_bandwidth_gbps(const struct tent_config *c, double gbps);

/*
 * The number of samples after which the weight of an old value has halved, computed from the
 * learning rate: 0.15 for the rate 0.01; 0 for 0; infinite for 1.
 */
double config_half_life(const struct tent_config *c);

const char *config_mode_name(enum tent_mode mode);
/* 0, or -EINVAL: no mode has this name. */
int config_mode_parse(const char *name, enum tent_mode *mode_p);

#endif
