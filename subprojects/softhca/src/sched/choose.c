/* SPDX-License-Identifier: MIT */
#include "sched/choose.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fabric/fabric.h"
#include "hca/config.h"
#include "hca/timer.h"
#include "sys/quota.h"
#include "sys/sys.h"

#define MILLI 1000u
#define POLL_LOOK_NS 20000000u /* between two looks while the thread spins */
#define TRAP_LOOK_NS 100000000u
#define DOUBT_LOOK_NS 5000000u /* the last look found that the other mode is better */
#define QUOTA_NS 1000000000u
#define LOOKS 2 /* that must agree before the mode changes, unless members have joined or left */

/* Relaxed accesses: the thread writes, and threads that ring read them as hints. */
static bool polls, known;
static uint64_t looked; /* when */
static uint32_t changes; /* arena()->changes at the last look */
static uint32_t doubts;
static uint64_t rung[MAX_PROCS]; /* doorbells of each member at the last look */

uint32_t choose_needs(const struct load *l)
{
	uint32_t members = l->members ? l->members : 1;

	return members + (l->threads > members ? l->threads : members);
}

bool choose_poll(const struct load *l)
{
	uint64_t room = (uint64_t)l->cores * MILLI;

	if (l->quota && l->quota < room)
		room = l->quota;
	return (uint64_t)choose_needs(l) * MILLI <= room;
}

/* All doorbells of the process of @slot. Not exact: its threads count meanwhile. */
static uint64_t doorbells_of(uint32_t slot)
{
	uint64_t n = 0;

	for (uint32_t i = slot * PROC_LANES; i < (slot + 1) * PROC_LANES; i++) {
		const struct softhca_counters *c = &arena()->tallies[i].process;

		n += __atomic_load_n(&c->doorbells, __ATOMIC_RELAXED) +
		     __atomic_load_n(&c->arms, __ATOMIC_RELAXED);
	}
	return n;
}

static bool shares_cores(const uint64_t *a, const uint64_t *b)
{
	for (uint32_t i = 0; i < MASK_WORDS; i++)
		if (__atomic_load_n(&a[i], __ATOMIC_RELAXED) & b[i])
			return true;
	return false;
}

/* Counts the members that have rung since the last look, and the threads beside programs that spin. */
static void count_members(struct load *l, const uint64_t *mask, uint32_t *awake)
{
	for (uint32_t slot = 0; slot < MAX_PROCS; slot++) {
		const struct proc *p = &arena()->procs[slot];
		bool mine = slot == fabric_self.slot;
		uint64_t n;

		if (!__atomic_load_n(&p->used, __ATOMIC_RELAXED) ||
			!__atomic_load_n(&p->has_thread, __ATOMIC_RELAXED))
			continue;
		*awake += __atomic_load_n(&p->awake, __ATOMIC_RELAXED);
		n = doorbells_of(slot);
		l->members += mine || (n != rung[slot] && shares_cores(p->cpus, mask));
		rung[slot] = n;
	}
}

/* Returns the number of threads of the machine that run or could run, or 0. */
static uint32_t running_threads(void)
{
	int fd = sys_open("/proc/loadavg", O_RDONLY | O_CLOEXEC, 0);
	char text[128] = "";
	const char *slash;
	long n;

	if (fd < 0)
		return 0;
	n = sys_read(fd, text, sizeof(text) - 1);
	sys_close(fd);
	slash = n > 0 ? strchr(text, '/') : NULL;
	while (slash && slash > text && slash[-1] >= '0' && slash[-1] <= '9')
		slash--;
	return slash ? (uint32_t)strtoul(slash, NULL, 10) : 0;
}

_Static_assert(sizeof(cpu_set_t) == MASK_WORDS * sizeof(uint64_t), "one bit for each CPU");

/* Reading it takes more time than the rest. */
static uint32_t recent_quota(uint64_t now)
{
	static uint64_t read_at;
	static uint32_t quota;

	if (!read_at || now - read_at >= QUOTA_NS) {
		read_at = now;
		quota = quota_get();
	}
	return quota;
}

static void look(struct load *l, uint64_t now)
{
	struct proc *self = &arena()->procs[fabric_self.slot];
	uint64_t mask[MASK_WORDS];
	uint32_t awake = 0;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	if (sched_getaffinity(0, sizeof(cpus), &cpus))
		CPU_SET(0, &cpus);
	memcpy(mask, &cpus, sizeof(mask));
	for (uint32_t i = 0; i < MASK_WORDS; i++)
		__atomic_store_n(&self->cpus[i], mask[i], __ATOMIC_RELAXED);
	l->cores = config_get()->cores;
	l->quota = l->cores ? 0 : recent_quota(now);
	if (!l->cores)
		l->cores = (uint32_t)CPU_COUNT(&cpus);
	count_members(l, mask, &awake);
	/*
	 * On a part of the machine's cores, threads of other programs cannot be told apart. Given cores
	 * are for this fabric alone.
	 */
	if (!config_get()->cores && CPU_COUNT(&cpus) == sysconf(_SC_NPROCESSORS_ONLN))
		l->threads = running_threads();
	l->threads -= l->threads < awake ? l->threads : awake;
	__atomic_store_n(&self->cores, l->cores, __ATOMIC_RELAXED);
	__atomic_store_n(&self->quota, l->quota, __ATOMIC_RELAXED);
	__atomic_store_n(&self->needs, choose_needs(l), __ATOMIC_RELAXED);
}

static uint32_t count_changes(void)
{
	return __atomic_load_n(&arena()->changes, __ATOMIC_RELAXED);
}

bool choose_last(void)
{
	return __atomic_load_n(&polls, __ATOMIC_RELAXED);
}

bool choose_is_old(uint64_t now)
{
	uint64_t ns = choose_last() ? POLL_LOOK_NS : TRAP_LOOK_NS;

	if (__atomic_load_n(&doubts, __ATOMIC_RELAXED))
		ns = DOUBT_LOOK_NS;
	return now - __atomic_load_n(&looked, __ATOMIC_RELAXED) >= ns ||
	       count_changes() != __atomic_load_n(&changes, __ATOMIC_RELAXED);
}

bool choose_again(void)
{
	uint64_t now = timer_now();
	struct load l = {0};
	bool other, at_once;

	if (!choose_is_old(now))
		return choose_last();
	at_once = !known || count_changes() != changes;
	known = true;
	__atomic_store_n(&changes, count_changes(), __ATOMIC_RELAXED);
	__atomic_store_n(&looked, now, __ATOMIC_RELAXED);
	look(&l, now);
	other = choose_poll(&l) != polls;
	__atomic_store_n(&doubts, other ? doubts + 1 : 0, __ATOMIC_RELAXED);
	if (other && (at_once || doubts >= LOOKS)) {
		__atomic_store_n(&polls, !polls, __ATOMIC_RELAXED);
		__atomic_store_n(&doubts, 0, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&arena()->procs[fabric_self.slot].polls, polls, __ATOMIC_RELAXED);
	return polls;
}

void choose_forget(void)
{
	polls = known = false;
	looked = changes = doubts = 0;
	memset(rung, 0, sizeof(rung));
}
