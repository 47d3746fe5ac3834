/* SPDX-License-Identifier: MIT */
/*
 * Polling and step modes: doorbells are not trapped; the doorbell records of this
 * process's queues say what is new.
 */
#ifndef SOFTHCA_SCHED_ENGINE_H
#define SOFTHCA_SCHED_ENGINE_H

#include <stdint.h>

/* One look at all queues. Returns how many had something new. */
uint32_t engine_pass(void);

#endif
