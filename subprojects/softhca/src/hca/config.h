/* SPDX-License-Identifier: MIT */
/* What the environment asks of the adapters of this process; read once. */
#ifndef SOFTHCA_HCA_CONFIG_H
#define SOFTHCA_HCA_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum engine_mode {
	ENGINE_TRAP, /* each doorbell's store is trapped and executed */
	ENGINE_POLL, /* a thread looks at the doorbell records */
	ENGINE_STEP, /* the program calls softhca_step() */
};

struct config {
	enum engine_mode mode; /* SOFTHCA_MODE=trap|poll|step */
	bool strict; /* SOFTHCA_STRICT=1 */
	bool blueflame; /* SOFTHCA_BF=1 */
};

/* Of an environment that config_check() has passed, as member_attach() sees to. */
const struct config *config_get(void);

/*
 * Whether the environment asks for what there is, the name of the fabric included: 0, or
 * -EINVAL with one line in err that says what to give.
 */
int config_check(char *err, size_t errlen);

/* Whether a variable is set to anything but "" and "0". Not cached. */
bool config_flag(const char *name);

#endif
