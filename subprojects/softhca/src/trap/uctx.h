/* SPDX-License-Identifier: MIT */
#ifndef SOFTHCA_TRAP_UCTX_H
#define SOFTHCA_TRAP_UCTX_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define UAR_OBJECTS 256u /* doorbell pages that a context can allocate one by one */

/* One open device file of this process. Never freed: the fault handler reads it. */
struct uctx {
	uint32_t rail;
	uint32_t ctx; /* index in the arena, NO_INDEX before GET_CONTEXT */
	uint32_t next_bfreg;
	bool dynamic_uars; /* its doorbell pages are objects (uverbs/uar.h) */
	uint64_t uars[UAR_OBJECTS / 64]; /* bitmap of the allocated pages */
	dev_t dev; /* of the memfd with the doorbell pages, as /proc/self/maps shows it */
	ino_t ino;
	uint32_t door; /* of sched/doors.h; DOOR_NONE in the modes trap and step */
	/*
	 * Modes auto and poll: all doorbell pages, mapped by this library. The mapping is kept for
	 * the next open file.
	 */
	const uint8_t *pages;
};

#endif
