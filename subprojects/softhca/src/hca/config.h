/* SPDX-License-Identifier: MIT */
/* Configuration of this process from the environment, read once. */
#ifndef SOFTHCA_HCA_CONFIG_H
#define SOFTHCA_HCA_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum engine_mode {
	ENGINE_TRAP, /* each doorbell store traps and is executed immediately */
	ENGINE_POLL, /* a thread polls the doorbell pages */
	ENGINE_STEP, /* the program calls softhca_step() */
};

struct config {
	enum engine_mode mode; /* SOFTHCA_MODE=trap|poll|step */
	bool strict; /* SOFTHCA_STRICT=1 or abort */
	bool strict_aborts; /* SOFTHCA_STRICT=abort: the first violation ends the process */
	bool slow_death; /* SOFTHCA_DEATH=timers: a peer's end is noticed by time-outs only */
	uint64_t memlock; /* SOFTHCA_MEMLOCK: bytes that may be registered; 0: the kernel's limit */
	uint64_t patience_ns; /* SOFTHCA_PATIENCE: see fabric/claim.h */
	bool blueflame; /* SOFTHCA_BF=1 */
	bool legacy_uars; /* SOFTHCA_UAR=legacy: a fixed set of doorbell pages for each context */
};

/* The environment must have passed config_check(); member_attach() makes sure of that. */
const struct config *config_get(void);

/*
 * Checks the variables of the environment, including the name of the fabric. Returns 0, or
 * -EINVAL with one line in err that says which values are valid.
 */
int config_check(char *err, size_t errlen);

/* Returns true if a variable is set to anything but "" and "0". Not cached. */
bool config_flag(const char *name);

#endif
