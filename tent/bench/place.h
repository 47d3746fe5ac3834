/* SPDX-License-Identifier: MIT */
/* Memory of this process at a location: of the host, or of a GPU, which only the driver reaches. */
#ifndef TENTBENCH_PLACE_H
#define TENTBENCH_PLACE_H

#include <stdbool.h>
#include <stdint.h>

struct place {
	bool of_gpu;
	/* The driver has these. */
	void *context;
	int (*push)(void *context);
	int (*pop)(void **context_p);
	int (*alloc)(uint64_t *at_p, uint64_t len);
	int (*copy)(uint64_t to, uint64_t from, uint64_t len);
};

/*
 * @location: "cuda:N" is a GPU, another one and NULL are the host. False: there is no such GPU, and
 * a message has been printed.
 */
bool place_open(const char *location, struct place *p_p);
/* NULL: there is no memory. Memory of a GPU exists until the process ends. */
uint8_t *place_alloc(const struct place *p, uint64_t len);
/* Either side may be memory of the place or of the host. */
void place_copy(const struct place *p, void *to, const void *from, uint64_t len);

#endif
