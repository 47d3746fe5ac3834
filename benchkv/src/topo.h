/* SPDX-License-Identifier: MIT */
/*
 * Assigns processing units to threads. The units that this process may use are ordered: those of
 * cores near the NIC before the others, the first hardware threads of all cores before the second
 * ones. Ranks of the same machine with the same cores divide the units between them. A rank assigns
 * its units to its daemons, then to its clients. If there are fewer units than threads, no thread
 * is pinned: two polling threads that are pinned to one unit would wait for each other's time
 * slices.
 */
#ifndef BENCHKV_TOPO_H
#define BENCHKV_TOPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct topo;

/* 0; -ENOMEM; -ENOSYS: hwloc finds no topology. */
int topo_open(struct topo **t_p);
void topo_close(struct topo *t);

/* A number that is equal for ranks that run on the same machine with the same cores. */
uint64_t topo_cores_id(const struct topo *t);

/*
 * Plans the units of @threads threads. This rank is number @index of @sharers ranks with the same
 * cores. Cores near @device come first (NULL: no preference). True: there is a unit for each
 * thread.
 */
bool topo_plan(struct topo *t, const char *device, uint32_t index, uint32_t sharers,
	uint32_t threads);

/* Explains the last plan in a line. */
void topo_explain(const struct topo *t, char *text, size_t size);

/* The number of processing units that the process may use. */
uint32_t topo_units(const struct topo *t);

/* The processing unit of a thread by the last plan, as the system numbers it, or -1. */
int topo_unit(const struct topo *t, uint32_t thread);

/* Binds the calling thread to its unit; does nothing if there is no plan. */
void topo_pin_self(const struct topo *t, uint32_t thread);

#endif
