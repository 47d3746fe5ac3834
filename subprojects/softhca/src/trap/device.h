/* SPDX-License-Identifier: MIT */
/* Execution of stores to doorbell pages. */
#ifndef SOFTHCA_TRAP_DEVICE_H
#define SOFTHCA_TRAP_DEVICE_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

#include "abi/wire.h"
#include "trap/uctx.h"

/* Reads a big-endian word of a store. */
static inline uint32_t be32_at(const uint8_t *bytes)
{
	uint32_t v;

	memcpy(&v, bytes, sizeof(v));
	return be32toh(v);
}

/* A store of the program to a doorbell page. */
struct device_store {
	const struct uctx *u;
	uint64_t page; /* its address */
	uint32_t offset;
	uint32_t size;
	const uint8_t *bytes;
};

/* Executes a store. The caller must have blocked asynchronous signals. */
void device_store(const struct device_store *st);

#endif
