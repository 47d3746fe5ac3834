/* SPDX-License-Identifier: MIT */
/*
 * The pool of this process: a memfd with the pages of its queues, which other processes map
 * (dma/view.h). They write completions there and read receives and doorbell records without a
 * system call.
 *
 * The provider allocates queues as private memory. When a queue is created, its pages are replaced
 * by pages of the pool at the same addresses, with the same contents. This loses no store of
 * another thread: the pages are read-only while they are copied, and a thread that stores to them
 * meanwhile faults and stores again later (pool_moved()). A system call of the program must not
 * write to them during the move. This does not happen, because only the provider uses these pages.
 *
 * The pages become private memory again when the queue is destroyed, because the provider frees
 * them, and in a forked child, which must not share memory with its parent.
 *
 * A queue stays private if its memory is not the provider's usual kind (huge pages, memory of an
 * allocator of the program that is shared already), or if the pool, the descriptors or the address
 * space do not suffice. Then other processes access the queue by system calls, like all other
 * memory.
 */
#ifndef SOFTHCA_DMA_POOL_H
#define SOFTHCA_DMA_POOL_H

#include <stdbool.h>
#include <stdint.h>

#define POOL_PAGE 4096u
#define POOL_PAGES (1u << 16)
#define POOL_BYTES ((uint64_t)POOL_PAGES * POOL_PAGE)

/*
 * Makes the pool if there is none. Creating the first queue would make it, too, but a program that
 * counts its descriptors before and after it creates a queue would find one more.
 */
void pool_prepare(void);

/*
 * Moves the pages of @len bytes at @at, which must be the start of a page, into the pool. @of
 * identifies the open device to pool_leave_all(). Returns the shift, which added to an address of
 * the memory gives its offset in the pool, or 0 if the memory stays private. The caller must not
 * hold a lane or the mutex.
 */
uint64_t pool_enter(uint64_t at, uint64_t len, const void *of);

/*
 * Does the same for the page that contains the doorbell record @at and other records. The page is
 * moved when the record at its start enters, which the provider uses first. It stays in the pool
 * until all records that have entered have left. If the record at the start has not entered, the
 * other records of the page do not enter either. @at: 0 for no record.
 */
uint64_t pool_enter_record(uint64_t at, const void *of);

/*
 * Takes the queue or record that entered at @at out of the pool, and makes its pages private again.
 * Does nothing if @shift is 0.
 */
void pool_leave(uint64_t at, uint64_t shift);

/* Makes all pages of @of private again. */
void pool_leave_all(const void *of);

/*
 * For the fault handler: returns true if pages have been moved since the last time that it returned
 * true to this thread. The thread then executes its instruction again. If @addr is being moved,
 * this function waits. Signal safe.
 */
bool pool_moved(uint64_t addr);

/* To be called in the parent, before and after fork(). */
void pool_hold(void);
void pool_release(void);

/*
 * To be called in the child, after pool_hold() and fork(): gives the child private pages with the
 * same contents.
 */
void pool_forget(void);

#endif
