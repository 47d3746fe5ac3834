/* SPDX-License-Identifier: MIT */
#include "sched/doors.h"

#include <pthread.h>

#include "fabric/fabric.h"
#include "hca/config.h"
#include "hca/timer.h"
#include "sys/fds.h"
#include "sys/sys.h"

static struct door {
	bool used;
	int fd; /* a duplicate of the program's descriptor; -1: the door stays open */
	bool open; /* the file includes its doorbell pages */
	bool knocked;
	dev_t dev;
	ino_t ino;
	uint64_t start, size;
} doors[DOORS];

static uint32_t high; /* doors from this index on have never been used */
static bool fixed; /* a door stays open */
static bool awake; /* the thread may read the pages of open doors; `lock` protects this */
static bool bell; /* there are knocks that the thread has not taken yet */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/*
 * Blocks the signals of the program: one of its handlers might ring a doorbell while this thread
 * holds the lock, and the handler of doorbells locks it, too.
 */
static void enter(sigset_t *saved)
{
	fabric_block(saved);
	pthread_mutex_lock(&lock);
}

static void leave(const sigset_t *saved)
{
	pthread_mutex_unlock(&lock);
	pthread_sigmask(SIG_SETMASK, saved, NULL);
}

/*
 * Returns the door's descriptor, or -1 if the program has closed it by a system call of its own;
 * another file may have its number. Must be called after fds_hold(): otherwise the number may become
 * that of the program's file at any moment.
 */
static int fd_of(const struct door *d)
{
	int fd = __atomic_load_n(&d->fd, __ATOMIC_RELAXED);
	struct stat st;

	if (fd < 0 || sys_fstat(fd, &st) || st.st_dev != d->dev || st.st_ino != d->ino)
		return -1;
	return fd;
}

static bool resize(const struct door *d, uint64_t bytes)
{
	bool ok;
	int fd;

	fds_hold();
	fd = fd_of(d);
	ok = fd >= 0 && !SYS(SYS_ftruncate, fd, bytes);
	fds_release();
	return ok;
}

static void drop_descriptor(struct door *d)
{
	fds_hold();
	if (fd_of(d) >= 0)
		fds_disown(&d->fd);
	else
		fds_lose(&d->fd);
	fds_release();
}

static void set_open(struct door *d, bool open)
{
	/* Pairs with the acquire in doors_is_open(): the file has its pages. */
	__atomic_store_n(&d->open, open, __ATOMIC_RELEASE);
}

static bool open_door(struct door *d)
{
	if (!d->open && resize(d, d->size))
		set_open(d, true);
	return d->open;
}

/* A door that cannot be shut stays open. */
static bool shut_door(struct door *d)
{
	if (d->open && (!d->used || resize(d, d->start)))
		set_open(d, false);
	else if (d->open)
		fds_lose(&d->fd);
	return !d->open;
}

static void find_fixed(void)
{
	bool any = false;

	for (uint32_t i = 0; i < high; i++)
		any |= doors[i].used && __atomic_load_n(&doors[i].fd, __ATOMIC_RELAXED) < 0;
	__atomic_store_n(&fixed, any, __ATOMIC_RELAXED); /* relaxed: a hint for the thread */
}

void doors_add(uint32_t i, int fd, uint64_t start, uint64_t size)
{
	struct door *d = &doors[i];
	bool stays;
	struct stat st = {0};
	sigset_t saved;

	enter(&saved);
	d->fd = sys_fcntl(fd, F_DUPFD_CLOEXEC, NULL);
	if (d->fd >= 0)
		fds_own(&d->fd);
	d->used = true;
	d->start = start;
	d->size = size;
	set_open(d, true);
	sys_fstat(fd, &st);
	d->dev = st.st_dev;
	d->ino = st.st_ino;
	if (high <= i)
		high = i + 1;
	stays = !awake && (config_get()->idle_ns == IDLE_NEVER || !shut_door(d));
	find_fixed();
	leave(&saved);
	if (stays)
		doors_knock(i);
}

void doors_fix(uint32_t i)
{
	struct door *d = &doors[i];
	sigset_t saved;

	enter(&saved);
	open_door(d);
	drop_descriptor(d);
	find_fixed();
	leave(&saved);
	doors_knock(i);
}

/* Does not shut the door: the thread may still read the pages while it is awake. */
void doors_remove(uint32_t i)
{
	struct door *d = &doors[i];
	sigset_t saved;

	enter(&saved);
	if (d->used)
		drop_descriptor(d);
	d->used = false;
	find_fixed();
	leave(&saved);
}

void doors_knock(uint32_t i)
{
	/* Relaxed: the exchange below orders this store. */
	__atomic_store_n(&doors[i].knocked, true, __ATOMIC_RELAXED);
	/*
	 * Pairs with the exchange in doors_take_knocks(): the later exchange sees the value of the
	 * earlier one.
	 */
	if (!__atomic_exchange_n(&bell, true, __ATOMIC_ACQ_REL))
		timer_ring(fabric_self.slot);
}

bool doors_open_now(uint32_t i)
{
	sigset_t saved;
	bool open;

	enter(&saved);
	open = open_door(&doors[i]);
	leave(&saved);
	doors_knock(i);
	return open;
}

bool doors_knocked(void)
{
	return __atomic_load_n(&bell, __ATOMIC_RELAXED);
}

bool doors_take_knocks(bool opens)
{
	bool any = false;
	sigset_t saved;

	enter(&saved);
	/*
	 * Pairs with the exchange in doors_knock(): a knock after this exchange calls
	 * timer_ring().
	 */
	(void)__atomic_exchange_n(&bell, false, __ATOMIC_ACQ_REL);
	for (uint32_t i = 0; i < high; i++) {
		bool knocked = __atomic_exchange_n(&doors[i].knocked, false, __ATOMIC_RELAXED);

		if (opens && knocked)
			open_door(&doors[i]);
		any |= doors[i].open;
	}
	awake = any;
	leave(&saved);
	return any;
}

bool doors_shut(void)
{
	bool all = true;
	sigset_t saved;

	enter(&saved);
	for (uint32_t i = 0; i < high; i++)
		all &= shut_door(&doors[i]);
	awake = !all;
	find_fixed();
	leave(&saved);
	return all;
}

bool doors_stay_open(void)
{
	return __atomic_load_n(&fixed, __ATOMIC_RELAXED);
}

bool doors_is_open(uint32_t i)
{
	/* Pairs with the release in set_open(). */
	return __atomic_load_n(&doors[i].open, __ATOMIC_ACQUIRE);
}

void doors_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	for (uint32_t i = 0; i < high; i++) {
		if (doors[i].used)
			drop_descriptor(&doors[i]);
		doors[i] = (struct door){0};
	}
	high = 0;
	fixed = awake = bell = false;
}
