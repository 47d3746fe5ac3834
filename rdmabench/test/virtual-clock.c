/* SPDX-License-Identifier: MIT */
/*
 * Preloaded before liblatrec: its clock becomes that of the software HCA's links in virtual time, so
 * that latencies do not depend on the machine.
 */
#include <dlfcn.h>

#include "latrec.h"
#include "softhca.h"

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
	return 1 + info.virtual_ns;
}
