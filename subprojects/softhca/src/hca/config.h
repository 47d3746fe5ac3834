/* SPDX-License-Identifier: MIT */
/* Configuration of this process from the environment, read once. */
#ifndef SOFTHCA_HCA_CONFIG_H
#define SOFTHCA_HCA_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum engine_mode {
	ENGINE_TRAP, /* each doorbell store traps and is executed immediately */
	ENGINE_POLL, /* a thread polls the doorbell pages while doorbells are rung */
	ENGINE_STEP, /* the program calls softhca_step() */
	ENGINE_AUTO, /* like ENGINE_POLL while enough cores are free, else like ENGINE_TRAP */
};

enum mode_why {
	WHY_CHOSEN, /* by mode auto */
	WHY_GIVEN, /* by SOFTHCA_MODE */
	WHY_STRICT, /* with this and the next settings, auto means trap */
	WHY_CHAOS,
	WHY_LINK,
	WHY_LEGACY,
};

#define IDLE_NEVER UINT64_MAX

struct config {
	enum engine_mode mode; /* SOFTHCA_MODE=auto|trap|poll|step */
	enum mode_why why; /* reason for `mode` */
	uint64_t idle_ns; /* SOFTHCA_IDLE: how long the thread polls without work, then it sleeps */
	uint32_t cores; /* SOFTHCA_CORES: cores that mode auto assumes; 0: the real number */
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
 * Replaces mode auto by trap for @why. To be called when this process joins a fabric, before it
 * uses an adapter.
 */
void config_trap(enum mode_why why);

/*
 * Checks the variables of the environment, including the name of the fabric. Returns 0, or
 * -EINVAL with one line in err that says which values are valid.
 */
int config_check(char *err, size_t errlen);

/* Returns true if a variable is set to anything but "" and "0". Not cached. */
bool config_flag(const char *name);

#endif
