/* SPDX-License-Identifier: MIT */
/* The set of doorbell pages. The fault handler looks pages up without a lock. */
#ifndef SOFTHCA_TRAP_PAGES_H
#define SOFTHCA_TRAP_PAGES_H

#include <stdint.h>

#include "abi/wire.h"
#include "trap/uctx.h"

/* Numbers of doorbell pages in the device file: a kind in bits 8 to 11, and an index below it. */
#define UAR_NUMBER(kind, index) ((kind) << 8 | (index))
#define UAR_NUMBERS 4096u
#define UAR_KIND_REGULAR 0u /* the fixed set of pages of a legacy context */
#define UAR_KIND_NC 3u /* the same pages, not write-combining */
#define UAR_KIND_ALLOC 6u /* pages that a legacy context allocates, for thread domains */
#define UAR_DYNAMIC UAR_NUMBER(9u, 0u) /* the first of UAR_OBJECTS pages, see uverbs/uar.h */
#define BFREGS_OF_PAGE 4u
#define BFREGS_USED 2u /* the other two registers of a page are for the kernel */

/* The owner of the pages that a forked process has inherited. */
#define PAGE_INHERITED (&pages_inherited)
extern struct uctx pages_inherited;

/*
 * Adds a page. @uar: its number, which is its offset in the device file, in pages. Returns 1 if the
 * page is new, 0 if @u has it already, or -ENOSPC.
 */
int pages_add(uint64_t page, struct uctx *u, uint32_t uar);

/* Removes all pages of @u. */
void pages_drop(const struct uctx *u);

/* Removes the page of @u with this number, wherever it was mapped. */
void pages_drop_uar(const struct uctx *u, uint32_t uar);

/*
 * Must be called in a forked child: makes PAGE_INHERITED the owner of all pages, and makes the
 * pages read-only, whatever the mode is, so that each store to them traps.
 */
void pages_inherit(void);

/*
 * Returns the owner of a page, PAGE_INHERITED, or NULL if it is not a doorbell page. Signal safe.
 */
struct uctx *pages_find(uint64_t page);

/*
 * Returns the number of a doorbell page, as for pages_add(), or UINT32_MAX if it is not a doorbell
 * page. Signal safe.
 */
uint32_t pages_uar(uint64_t page);

/*
 * Strict mode: returns the address of a byte that names the half of register @reg to which the last
 * store went: 1 or 2, or 0 if there was no store. The caller must hold the fabric's mutex while it
 * uses the byte. Signal safe.
 */
uint8_t *pages_half(uint64_t page, uint32_t reg);

#endif
