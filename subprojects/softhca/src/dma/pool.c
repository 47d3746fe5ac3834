/* SPDX-License-Identifier: MIT */
#include "dma/pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "fabric/fabric.h"
#include "sys/maps.h"
#include "sys/sys.h"

/* Each region is a separate mapping, and Linux allows a process 65,530 mappings by default. */
#define REGIONS_MAX 8192u
#define RECORD_MOVES_MAX 4096u /* calls of move_record_out(), which may leave separate mappings */

static pthread_mutex_t lock =
	PTHREAD_MUTEX_INITIALIZER; /* a leaf: nothing else is locked under it */
static int pool_fd = -1;
static uint64_t pool_ino;

/*
 * Pages of the pool that are mapped at `at`. The index of the entry is the number of the first
 * page.
 */
static struct region {
	uint64_t at;
	const void *of;
	uint32_t pages; /* 0: no region begins at this page */
	uint32_t records; /* doorbell records that use the page; 0: the region is a buffer */
	struct region *next; /* next page of records; NULL: this is the last one */
} regions[POOL_PAGES];

static uint32_t nregions, high; /* pages from this number on have never been used */
static uint32_t lowest; /* no page before this one is free */
static struct region *record_pages; /* list, by `next` */
static uint32_t record_moves;

/*
 * The pages that move_in() or move_record_out() is moving; nobody stores to those of move_out().
 * `moves` is incremented when a move begins and when it ends, so it is odd during a move.
 */
static _Atomic uint32_t moves;
static _Atomic uint64_t moving_from, moving_to;

static void move_begins(uint64_t at, uint64_t len)
{
	atomic_store_explicit(&moving_from, at, memory_order_relaxed);
	atomic_store_explicit(&moving_to, at + len, memory_order_relaxed);
	/* Release: pairs with the acquire in pool_moved(), which then finds the range. */
	atomic_fetch_add_explicit(&moves, 1, memory_order_release);
}

static void move_ends(void)
{
	/* Release: pairs with the acquire in pool_moved(): the pages can be written again. */
	atomic_fetch_add_explicit(&moves, 1, memory_order_release);
}

/*
 * A fault may be handled long after the move that caused it. So the range decides only whether to
 * wait. After each move a thread executes a faulting instruction again once, whatever address the
 * instruction accesses.
 */
bool pool_moved(uint64_t addr)
{
	static __thread uint32_t tried __attribute__((tls_model("initial-exec")));
	uint32_t seen;

	/* Acquire: pairs with the releases in move_begins() and move_ends(). */
	while ((seen = atomic_load_explicit(&moves, memory_order_acquire)) % 2 &&
		addr >= atomic_load_explicit(&moving_from, memory_order_relaxed) &&
		addr < atomic_load_explicit(&moving_to, memory_order_relaxed))
		SYS(SYS_sched_yield);
	if (seen == tried)
		return false;
	tried = seen;
	return true;
}

static void *ptr(uint64_t addr)
{
	return (void *)(uintptr_t)addr;
}

/* Returns true if the system call mmap() or mremap(), which has returned @r, has mapped at @at. */
static bool mapped(long r, uint64_t at)
{
	return (uint64_t)r == at;
}

static bool is_error(long r)
{
	return r < 0 && r > -(long)POOL_PAGE;
}

/* Returns false if the program has closed the descriptor; another file may have its number. */
static bool pool_is_open(void)
{
	struct stat st;

	return pool_ino && !sys_fstat(pool_fd, &st) && st.st_ino == pool_ino;
}

/* Sets the size of the memfd for good, so that no access of another process faults. */
static bool prepare(int fd)
{
	struct stat st;

	if (SYS(SYS_ftruncate, fd, POOL_BYTES) ||
		SYS(SYS_fcntl, fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) ||
		sys_fstat(fd, &st))
		return false;
	pool_ino = st.st_ino;
	return true;
}

/*
 * Returns true if another descriptor is free: the library sometimes opens a file for a short
 * time.
 */
static bool has_another(int fd)
{
	int copy = (int)SYS(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 0);

	if (copy >= 0)
		sys_close(copy);
	return copy >= 0;
}

static bool make_pool(void)
{
	struct proc *self = &arena()->procs[fabric_self.slot];
	int fd;

	if (pool_ino)
		return pool_is_open();
	if (!sys_may_make(POOL_BYTES))
		return false;
	fd = (int)SYS(SYS_memfd_create, "softhca-queues", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return false;
	if (!has_another(fd) || !prepare(fd)) {
		sys_close(fd);
		return false;
	}
	pool_fd = fd;
	self->pool_fd = fd;
	self->pool_ino = pool_ino;
	return true;
}

/* Returns the first of @n free pages, or POOL_PAGES. */
static uint32_t find_free(uint32_t n)
{
	uint32_t first = lowest;

	for (uint32_t p = first; p - first < n; p++) {
		if (p >= POOL_PAGES)
			return POOL_PAGES;
		if (regions[p].pages) {
			p += regions[p].pages - 1;
			first = p + 1;
		}
	}
	return first;
}

/* The part of a range that has not been checked by look_for() yet. */
struct range {
	uint64_t at, end;
};

/*
 * Returns 1 when the whole range is known to be private memory. Mappings of files have an inode
 * number.
 */
static int look_for(const struct mapping *m, void *arg)
{
	struct range *r = arg;

	if (m->start > r->at || m->ino || m->dev || m->prot != (PROT_READ | PROT_WRITE))
		return -EINVAL;
	r->at = m->end;
	return r->at >= r->end;
}

static bool is_private(uint64_t at, uint64_t len)
{
	struct range r = {at, at + len};

	return r.at < r.end && maps_each(at, look_for, &r) == 1;
}

/* Replaces private pages by pages of the pool. */
static bool move_in(const struct region *r, uint32_t first)
{
	uint64_t len = (uint64_t)r->pages * POOL_PAGE, offset = (uint64_t)first * POOL_PAGE;
	bool done;

	move_begins(r->at, len);
	done = !SYS(SYS_mprotect, r->at, len, PROT_READ) &&
	       SYS(SYS_pwrite64, pool_fd, r->at, len, offset) == (long)len &&
	       mapped(SYS(SYS_mmap, r->at, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			      pool_fd, offset),
		       r->at);
	if (!done)
		SYS(SYS_mprotect, r->at, len, PROT_READ | PROT_WRITE);
	move_ends();
	return done;
}

/*
 * Replaces pages of the pool by private ones. No other thread or process may store to them during
 * the move. The private pages are mapped at their final address first and filled afterwards, so
 * that the kernel merges them with the mapping around them. Otherwise the program would run out of
 * mappings. Returns false if there is no memory.
 */
static bool move_out(const struct region *r)
{
	uint64_t len = (uint64_t)r->pages * POOL_PAGE;
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	long copy = SYS(SYS_mmap, NULL, len, PROT_READ | PROT_WRITE, flags, -1, 0);
	bool done;

	if (is_error(copy))
		return false;
	memcpy(ptr((uint64_t)copy), ptr(r->at), len);
	done = mapped(SYS(SYS_mmap, r->at, len, PROT_READ | PROT_WRITE, flags | MAP_FIXED, -1, 0),
		r->at);
	if (done)
		memcpy(ptr(r->at), ptr((uint64_t)copy), len);
	SYS(SYS_munmap, copy, len);
	return done;
}

/* The loads are atomic, because other threads may have stored to the page until mprotect() made it
 * read-only; relaxed, because no store follows. */
static void copy_page(uint64_t to, uint64_t from)
{
	const uint64_t *words = ptr(from);

	for (uint32_t i = 0; i < POOL_PAGE / sizeof(*words); i++)
		((uint64_t *)ptr(to))[i] = __atomic_load_n(&words[i], __ATOMIC_RELAXED);
}

/*
 * Replaces a page of doorbell records by a private one. Another thread may get a record on this
 * page and store to it, so the page is read-only during the copy, as in move_in(), and the private
 * page is mapped here after it is filled.
 */
static bool move_record_out(const struct region *r)
{
	const int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
	long copy = SYS(SYS_mmap, NULL, POOL_PAGE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool done;

	if (is_error(copy))
		return false;
	move_begins(r->at, POOL_PAGE);
	done = !SYS(SYS_mprotect, r->at, POOL_PAGE, PROT_READ);
	if (done) {
		copy_page((uint64_t)copy, r->at);
		done = mapped(SYS(SYS_mremap, copy, POOL_PAGE, POOL_PAGE, flags, r->at), r->at);
	}
	if (!done) {
		SYS(SYS_mprotect, r->at, POOL_PAGE, PROT_READ | PROT_WRITE);
		SYS(SYS_munmap, copy, POOL_PAGE);
	}
	move_ends();
	record_moves++;
	return done;
}

static uint64_t enter(uint64_t at, uint32_t pages, const void *of)
{
	struct region r = {.at = at, .of = of, .pages = pages};
	uint32_t first;

	if (nregions >= REGIONS_MAX || !is_private(at, (uint64_t)pages * POOL_PAGE) || !make_pool())
		return 0;
	first = find_free(pages);
	if (first == POOL_PAGES || !move_in(&r, first))
		return 0;
	regions[first] = r;
	nregions++;
	if (first == lowest)
		lowest += pages;
	if (high < first + pages) {
		high = first + pages;
		/* Relaxed: other processes read this later, under the fabric's mutex. */
		__atomic_store_n(&arena()->procs[fabric_self.slot].pool_pages, high,
			__ATOMIC_RELAXED);
	}
	return (uint64_t)first * POOL_PAGE - at;
}

static void unlist(const struct region *r)
{
	struct region **at = &record_pages;

	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
}

/* Pages that cannot become private stay in the pool. */
static void leave(uint32_t first)
{
	struct region *r = &regions[first];

	if (!(r->records ? move_record_out(r) : move_out(r)))
		return;
	if (r->records)
		unlist(r);
	if (pool_is_open())
		SYS(SYS_fallocate, pool_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			(uint64_t)first * POOL_PAGE, (uint64_t)r->pages * POOL_PAGE);
	*r = (struct region){0};
	nregions--;
	if (first < lowest)
		lowest = first;
}

/* Blocks signals: if a handler stored to pages that its own thread moves, it would wait forever. */
static void lock_pool(sigset_t *saved)
{
	fabric_block(saved);
	pthread_mutex_lock(&lock);
}

static void unlock_pool(const sigset_t *saved)
{
	pthread_mutex_unlock(&lock);
	pthread_sigmask(SIG_SETMASK, saved, NULL);
}

void pool_prepare(void)
{
	sigset_t saved;

	lock_pool(&saved);
	make_pool();
	unlock_pool(&saved);
}

uint64_t pool_enter(uint64_t at, uint64_t len, const void *of)
{
	sigset_t saved;
	uint64_t shift;

	if (at % POOL_PAGE || !len || len > POOL_BYTES)
		return 0;
	lock_pool(&saved);
	shift = enter(at, (uint32_t)((len + POOL_PAGE - 1) / POOL_PAGE), of);
	unlock_pool(&saved);
	return shift;
}

static struct region *page_of_records(uint64_t page, const void *of)
{
	struct region *r = record_pages;

	while (r && (r->at != page || r->of != of))
		r = r->next;
	return r;
}

static uint64_t enter_record(uint64_t at, const void *of)
{
	uint64_t page = at - at % POOL_PAGE, shift;
	struct region *r = page_of_records(page, of);

	if (r) {
		r->records++;
		return (uint64_t)(r - regions) * POOL_PAGE - page;
	}
	if (at != page || record_moves >= RECORD_MOVES_MAX)
		return 0;
	shift = enter(page, 1, of);
	if (!shift)
		return 0;
	r = &regions[(page + shift) / POOL_PAGE];
	r->records = 1;
	r->next = record_pages;
	record_pages = r;
	return shift;
}

uint64_t pool_enter_record(uint64_t at, const void *of)
{
	sigset_t saved;
	uint64_t shift;

	if (!at)
		return 0;
	lock_pool(&saved);
	shift = enter_record(at, of);
	unlock_pool(&saved);
	return shift;
}

void pool_leave(uint64_t at, uint64_t shift)
{
	uint32_t first = (uint32_t)((at + shift) / POOL_PAGE);
	sigset_t saved;

	if (!shift)
		return;
	lock_pool(&saved);
	if (regions[first].records > 1)
		regions[first].records--;
	else
		leave(first);
	unlock_pool(&saved);
}

void pool_leave_all(const void *of)
{
	sigset_t saved;

	lock_pool(&saved);
	for (uint32_t p = 0; p < high; p++)
		if (regions[p].pages && regions[p].of == of)
			leave(p);
	unlock_pool(&saved);
}

void pool_hold(void)
{
	pthread_mutex_lock(&lock);
}

void pool_release(void)
{
	pthread_mutex_unlock(&lock);
}

void pool_forget(void)
{
	for (uint32_t p = 0; p < high; p++) {
		if (!regions[p].pages)
			continue;
		move_out(&regions[p]);
		regions[p] = (struct region){0};
	}
	if (pool_is_open())
		sys_close(pool_fd);
	pool_fd = -1;
	pool_ino = 0;
	record_pages = NULL;
	nregions = high = lowest = 0;
	pthread_mutex_unlock(&lock);
}
