/* SPDX-License-Identifier: MIT */
/* The set of doorbell pages. The fault handler looks pages up without a lock. */
#ifndef SOFTHCA_TRAP_PAGES_H
#define SOFTHCA_TRAP_PAGES_H

#include <stdint.h>

#include "trap/uctx.h"

#define UAR_PAGE 4096u

/* The owner of the pages that a forked process has inherited. */
#define PAGE_INHERITED (&pages_inherited)
extern struct uctx pages_inherited;

/* Adds a page. Returns 1 if it is new, 0 if it was there already, or -ENOSPC. */
int pages_add(uint64_t page, struct uctx *u);

/* Removes all pages of @u. */
void pages_drop(const struct uctx *u);

/* In a forked child: the pages belong to the parent, and are protected in every mode. */
void pages_inherit(void);

/* The owner of a page, PAGE_INHERITED, or NULL if it is no doorbell page. Signal safe. */
struct uctx *pages_find(uint64_t page);

#endif
