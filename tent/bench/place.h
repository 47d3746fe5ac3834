/* SPDX-License-Identifier: MIT */
/*
 * Memory of this process at a location: of the host, or of a GPU. Only the GPU's driver accesses
 * memory of a GPU.
 */
#ifndef TENTBENCH_PLACE_H
#define TENTBENCH_PLACE_H

#include <stdbool.h>
#include <stdint.h>

struct place {
	bool of_gpu;
	/* For memory of a GPU: a context, and functions of the driver. */
	void *context;
	int (*push)(void *context);
	int (*pop)(void **context_p);
	int (*alloc)(uint64_t *at_p, uint64_t len);
	int (*copy)(uint64_t to, uint64_t from, uint64_t len);
};

/*
 * @location: "cuda:N" is a GPU; any other location, and NULL, is the host. False: there is no such
 * GPU, and a message has been printed.
 */
bool place_open(const char *location, struct place *p_p);
/* NULL: there is no memory. Memory of a GPU exists until the process ends. */
uint8_t *place_alloc(const struct place *p, uint64_t len);
/* @p must be of a GPU. @to and @from may each be memory of the GPU or of the host. */
void place_copy(const struct place *p, void *to, const void *from, uint64_t len);

#endif
