/* SPDX-License-Identifier: MIT */
/* The set of doorbell pages: looked up by the fault handler without a lock. */
#ifndef SOFTHCA_TRAP_PAGES_H
#define SOFTHCA_TRAP_PAGES_H

#include <stdint.h>

#include "trap/uctx.h"

#define UAR_PAGE 4096u

/* The owner of pages that this process has from its parent. */
#define PAGE_INHERITED (&pages_inherited)
extern struct uctx pages_inherited;

/* Adds a page. Returns 1 if it is new, 0 if it was there, -ENOSPC. */
int pages_add(uint64_t page, struct uctx *u);

/* Removes all of @u. */
void pages_drop(const struct uctx *u);

/* In a forked child: the pages are its parent's, and are protected in all modes. */
void pages_inherit(void);

/* Whose page this is, PAGE_INHERITED, or NULL. Signal safe. */
struct uctx *pages_find(uint64_t page);

#endif
