/* SPDX-License-Identifier: MIT */
/*
 * Polling and step modes: doorbells are not trapped. New work is found by reading the
 * doorbell records of this process's queues.
 */
#ifndef SOFTHCA_SCHED_ENGINE_H
#define SOFTHCA_SCHED_ENGINE_H

#include <stdint.h>

/* Checks all queues once and serves those with new work. Returns their number. */
uint32_t engine_pass(void);

#endif
