/* SPDX-License-Identifier: MIT */
/*
 * Preloaded: liblatrec's clock becomes that of the software HCA's links in virtual time, so that
 * latencies do not depend on the machine. That clock stands still while a program waits for the
 * time of its next post. If VIRTUAL_IDLE is in the environment, each sched_yield() counts as such a
 * wait and advances the clock by 50 us. This is for programs that do not wait for other programs.
 */
#include <dlfcn.h>
#include <sched.h>
#include <stdlib.h>

#include "latrec.h"
#include "softhca.h"

#define YIELD_NS 50000

static uint64_t idle_ns; /* of one thread */

int latrec_clock_init(enum latrec_clock_source source, struct latrec_clock *clock_p, size_t size)
{
	*clock_p = (struct latrec_clock){.source = source, .name = "virtual time"};
	return 0;
}

/* The clock stands still until a device has been opened. */
uint64_t latrec_clock_raw(void)
{
	struct softhca_fabric_info info = {.virtual_ns = 0};
	int (*read)(struct softhca_fabric_info *);

	*(void **)&read = dlsym(RTLD_DEFAULT, "softhca_fabric_info");
	if (read)
		read(&info);
	return 1 + info.virtual_ns + idle_ns;
}

int sched_yield(void)
{
	int (*real)(void);

	if (getenv("VIRTUAL_IDLE"))
		idle_ns += YIELD_NS;
	*(void **)&real = dlsym(RTLD_NEXT, "sched_yield");
	return real();
}
