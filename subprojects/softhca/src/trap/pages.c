/* SPDX-License-Identifier: MIT */
#include "trap/pages.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#define BUCKETS 16384u /* 16 pages for each of 1024 contexts */
#define UAR_REGISTERS 4u
#define GONE 1u /* marks a dropped page: a search continues after it */

struct bucket {
	_Atomic uint64_t page; /* 0: never used */
	struct uctx *_Atomic u;
	_Atomic uint32_t uar;
	uint8_t halves[UAR_REGISTERS];
};

struct uctx pages_inherited;

static struct bucket buckets[BUCKETS];
/* The list of the buckets that have been used. `lock` protects it. */
static uint16_t used[BUCKETS];
static uint32_t nused;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint32_t hash(uint64_t page)
{
	return (uint32_t)((page / UAR_PAGE * 0x9e3779b97f4a7c15ull) >> 50);
}

static int add(uint64_t page, struct uctx *u, uint32_t uar)
{
	struct bucket *free_bucket = NULL;

	for (uint32_t n = 0, i = hash(page); n < BUCKETS; n++, i = (i + 1) % BUCKETS) {
		uint64_t p = atomic_load_explicit(&buckets[i].page, memory_order_relaxed);

		if (p == page) {
			struct uctx *old =
				atomic_exchange_explicit(&buckets[i].u, u, memory_order_relaxed);

			atomic_store_explicit(&buckets[i].uar, uar, memory_order_relaxed);
			if (old != u)
				memset(buckets[i].halves, 0, UAR_REGISTERS);
			return old != u;
		}
		if (p <= GONE && !free_bucket)
			free_bucket = &buckets[i];
		if (!p)
			break;
	}
	if (!free_bucket)
		return -ENOSPC;
	if (!atomic_load_explicit(&free_bucket->page, memory_order_relaxed))
		used[nused++] = (uint16_t)(free_bucket - buckets);
	memset(free_bucket->halves, 0, UAR_REGISTERS);
	atomic_store_explicit(&free_bucket->uar, uar, memory_order_relaxed);
	atomic_store_explicit(&free_bucket->u, u, memory_order_relaxed);
	/* Pairs with the acquire in find(): the owner is set first. */
	atomic_store_explicit(&free_bucket->page, page, memory_order_release);
	return 1;
}

int pages_add(uint64_t page, struct uctx *u, uint32_t uar)
{
	int r;

	pthread_mutex_lock(&lock);
	r = add(page, u, uar);
	pthread_mutex_unlock(&lock);
	return r;
}

/* Drops the page @uar of @u; UAR_NUMBERS: all pages of @u. */
static void drop(const struct uctx *u, uint32_t uar)
{
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < nused; i++) {
		struct bucket *b = &buckets[used[i]];

		if (atomic_load_explicit(&b->u, memory_order_relaxed) == u &&
			(uar == UAR_NUMBERS ||
				uar == atomic_load_explicit(&b->uar, memory_order_relaxed))) {
			atomic_store_explicit(&b->page, GONE, memory_order_relaxed);
			atomic_store_explicit(&b->u, NULL, memory_order_relaxed);
		}
	}
	pthread_mutex_unlock(&lock);
}

void pages_drop(const struct uctx *u)
{
	drop(u, UAR_NUMBERS);
}

void pages_drop_uar(const struct uctx *u, uint32_t uar)
{
	drop(u, uar);
}

void pages_inherit(void)
{
	pthread_mutex_init(&lock, NULL);
	for (uint32_t i = 0; i < nused; i++) {
		struct bucket *b = &buckets[used[i]];
		uint64_t page = atomic_load_explicit(&b->page, memory_order_relaxed);

		if (page <= GONE)
			continue;
		atomic_store_explicit(&b->u, PAGE_INHERITED, memory_order_relaxed);
		mprotect((void *)(uintptr_t)page, UAR_PAGE, PROT_READ);
	}
}

static struct bucket *find(uint64_t page)
{
	for (uint32_t n = 0, i = hash(page); n < BUCKETS; n++, i = (i + 1) % BUCKETS) {
		/* Pairs with the release in add(). */
		uint64_t p = atomic_load_explicit(&buckets[i].page, memory_order_acquire);

		if (p == page)
			return &buckets[i];
		if (!p)
			return NULL;
	}
	return NULL;
}

struct uctx *pages_find(uint64_t page)
{
	struct bucket *b = find(page);

	return b ? atomic_load_explicit(&b->u, memory_order_relaxed) : NULL;
}

uint32_t pages_uar(uint64_t page)
{
	struct bucket *b = find(page);

	return b ? atomic_load_explicit(&b->uar, memory_order_relaxed) : UINT32_MAX;
}

uint8_t *pages_half(uint64_t page, uint32_t reg)
{
	static uint8_t gone; /* used if the page has just been dropped */
	struct bucket *b = find(page);

	return b ? &b->halves[reg % UAR_REGISTERS] : &gone;
}
