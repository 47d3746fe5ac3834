/* SPDX-License-Identifier: MIT */
#include "sched/choose.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fabric/fabric.h"
#include "hca/config.h"
#include "hca/timer.h"
#include "sys/quota.h"
#include "sys/sys.h"

#define MILLI 1000u
#define LOOK_NS 20000000u /* time between two looks */
#define CALM_MAX 2u /* how often LOOK_NS may be doubled while the thread does not spin */
#define DOUBT_LOOK_NS 5000000u /* time between looks in a trial, and while `doubts` is not 0 */
#define QUOTA_NS 1000000000u
#define LOOKS 4 /* looks for a change must outnumber the others by this number; see choose.h */
#define TRAP_NS 2400u /* see choose.h */
#define HANDOVER_NS 230u
#define HANDOVER_MARGIN 2u /* on other processors, HANDOVER_NS may be this many times larger */
#define COPIES_BYTES_PER_NS 1u /* above this rate a trial is made; one thread copies up to 10 */
#define COUNT_MAX_NS 40000000u /* a count over a longer time is useless: the program has paused */
#define GAIN 20u /* after a trial the other mode is kept if it is faster by 1/GAIN */
#define ASK_MAX 16u /* processes to examine: each takes about 10 us */
#define PAUSE_MIN_NS 100000000u /* between trials, each of which takes 2 * DOUBT_LOOK_NS */
#define PAUSE_MAX_NS 400000000u

/*
 * Relaxed accesses: the thread beside the program writes these, and threads that ring doorbells
 * read them as hints.
 */
static bool polls;
static uint64_t next_look; /* time of the next look */
static uint32_t changes; /* arena()->changes at the last look */

/* Only the thread accesses these. */
static struct choice choice;
static bool known; /* a look has found doorbells */
static uint64_t rung[MAX_PROCS]; /* doorbells of each member at the last look */
static struct {
	uint64_t wqes, bytes, ns;
} before; /* of this process at the last look */

uint32_t choose_needs(const struct load *l)
{
	uint32_t members = l->members ? l->members : 1, beside = l->awake + 1;
	uint32_t programs = l->threads > beside ? l->threads - beside : 0;

	return members + (programs > members ? programs : members);
}

bool choose_has_room(const struct load *l)
{
	uint64_t room = (uint64_t)l->cores * MILLI;

	if (l->quota && l->quota < room)
		room = l->quota;
	return (uint64_t)choose_needs(l) * MILLI <= room;
}

bool choose_is_unsure(const struct load *l)
{
	if (l->doorbells && l->wqes * HANDOVER_NS * HANDOVER_MARGIN > l->doorbells * TRAP_NS)
		return true;
	return l->bytes > l->ns * COPIES_BYTES_PER_NS;
}

/* A trial has failed if the program has paused in it. */
static bool is_faster(const struct choice *c, const struct load *l)
{
	return l->ns <= COUNT_MAX_NS && l->wqes * c->ns * GAIN > c->wqes * l->ns * (GAIN + 1);
}

static void end_trial(struct choice *c, bool faster, uint64_t now)
{
	if (!c->pause || faster)
		c->pause = PAUSE_MIN_NS;
	else if (c->pause < PAUSE_MAX_NS)
		c->pause *= 2;
	if (!faster)
		c->polls = !c->polls;
	c->poll_won = c->polls;
	c->trial = TRIAL_NONE;
	c->next_trial = now + c->pause;
}

/* Makes the next step of a trial, or begins a trial. */
static void measure(struct choice *c, const struct load *l, uint64_t now)
{
	if (c->trial == TRIAL_OTHER) {
		end_trial(c, is_faster(c, l), now);
	} else if (c->trial == TRIAL_BEFORE && l->ns <= COUNT_MAX_NS) {
		c->trial = TRIAL_OTHER;
		c->wqes = l->wqes;
		c->ns = l->ns;
		c->polls = !c->polls;
	} else if (now >= c->next_trial) {
		c->trial = TRIAL_BEFORE;
	}
}

void choose_step(struct choice *c, const struct load *l, uint64_t now, bool at_once)
{
	bool room = choose_has_room(l), unsure = choose_is_unsure(l);
	bool poll = room && (c->polls || c->poll_won || !unsure);
	bool polled = c->polls;

	if (c->trial == TRIAL_OTHER && room)
		poll = c->polls; /* measure() decides */
	if (poll != c->polls)
		c->doubts++;
	else if (c->doubts)
		c->doubts--;
	if (c->doubts && (at_once || c->doubts >= LOOKS)) {
		c->doubts = 0;
		c->trial = TRIAL_NONE;
		c->polls = poll;
	} else if (!c->doubts && room && (unsure || c->trial == TRIAL_OTHER)) {
		measure(c, l, now);
	} else if (!c->doubts) {
		c->trial = TRIAL_NONE;
	}
	if (c->polls || polled)
		c->calm = 0;
	else if (!c->doubts && c->calm < CALM_MAX)
		c->calm++;
}

uint64_t choose_pause(const struct choice *c)
{
	if (c->doubts || c->trial != TRIAL_NONE)
		return DOUBT_LOOK_NS;
	return (uint64_t)LOOK_NS << c->calm;
}

/*
 * Returns the number of doorbells that the process of @slot has rung. Not exact, because its
 * threads may be counting at the same time.
 */
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

/*
 * Adds all WQEs that this process has completed, and their bytes, to @l. Not exact, as in
 * doorbells_of().
 */
static void add_wqes(struct load *l)
{
	uint32_t first = fabric_self.slot * PROC_LANES;

	for (uint32_t i = first; i < first + PROC_LANES; i++) {
		const struct softhca_counters *c = &arena()->tallies[i].process;

		for (uint32_t k = 0; k < SOFTHCA_OPCODES; k++) {
			l->wqes += __atomic_load_n(&c->wqes[k], __ATOMIC_RELAXED);
			l->bytes += __atomic_load_n(&c->bytes[k], __ATOMIC_RELAXED);
		}
	}
}

static bool shares_cores(const uint64_t *a, const uint64_t *b)
{
	for (uint32_t i = 0; i < MASK_WORDS; i++)
		if (__atomic_load_n(&a[i], __ATOMIC_RELAXED) & b[i])
			return true;
	return false;
}

/* Returns true if the first thread of a member runs or could run. */
static bool is_running(const struct proc *p)
{
	char path[32], text[128];
	const char *name_end;

	snprintf(path, sizeof(path), "/proc/%d/stat", __atomic_load_n(&p->pid, __ATOMIC_RELAXED));
	name_end = sys_read_text(path, text, sizeof(text)) ? strrchr(text, ')') : NULL;
	return name_end && !strncmp(name_end, ") R", 3);
}

/* Returns the number of threads of the machine that run or could run; 0: not known. */
static uint32_t running_threads(void)
{
	char text[128];
	const char *slash =
		sys_read_text("/proc/loadavg", text, sizeof(text)) ? strchr(text, '/') : NULL;

	while (slash && slash > text && slash[-1] >= '0' && slash[-1] <= '9')
		slash--;
	return slash ? (uint32_t)strtoul(slash, NULL, 10) : 0;
}

/*
 * Counts the doorbells that this process has rung since the last look, the other members that have
 * rung doorbells since then, and the threads that spin beside other members' programs. A member
 * that only receives rings no doorbells but may poll. So if the number of running threads is
 * unknown, members that run without doorbells count, too; only the first ASK_MAX members without
 * doorbells are examined.
 */
static void count_members(struct load *l, const uint64_t *mask, uint64_t now)
{
	uint32_t asked = l->threads ? ASK_MAX : 0;
	uint32_t high = __atomic_load_n(&arena()->procs_high, __ATOMIC_RELAXED);

	for (uint32_t slot = 0; slot < high; slot++) {
		const struct proc *p = &arena()->procs[slot];
		bool mine = slot == fabric_self.slot;
		uint64_t n;

		if (!mine && (!__atomic_load_n(&p->used, __ATOMIC_RELAXED) ||
				     !__atomic_load_n(&p->has_thread, __ATOMIC_RELAXED)))
			continue;
		n = doorbells_of(slot) - rung[slot];
		rung[slot] += n;
		if (mine) {
			l->members++;
			l->doorbells = n;
			continue;
		}
		l->awake += __atomic_load_n(&p->awake, __ATOMIC_RELAXED);
		if (shares_cores(p->cpus, mask))
			l->members += n || (asked++ < ASK_MAX && is_running(p));
	}
	add_wqes(l);
	l->ns = now;
	l->wqes -= before.wqes;
	l->bytes -= before.bytes;
	l->ns -= before.ns;
	before.wqes += l->wqes;
	before.bytes += l->bytes;
	before.ns = now;
}

_Static_assert(sizeof(cpu_set_t) == MASK_WORDS * sizeof(uint64_t), "one bit for each CPU");

/*
 * Reading the quota takes more time than the rest of a look, so it is read at most once in
 * QUOTA_NS.
 */
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
	/*
	 * The number of running threads is known only for the whole machine, so it is useless if
	 * this thread may use only some of the cores. It is not used if SOFTHCA_CORES sets the
	 * number of cores, because only this fabric uses these cores.
	 */
	if (!config_get()->cores && CPU_COUNT(&cpus) == sysconf(_SC_NPROCESSORS_ONLN))
		l->threads = running_threads();
	count_members(l, mask, now);
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
	return now >= __atomic_load_n(&next_look, __ATOMIC_RELAXED) ||
	       count_changes() != __atomic_load_n(&changes, __ATOMIC_RELAXED);
}

/* Stores the findings in the arena, where softhcactl reads them. */
static void tell(const struct load *l)
{
	struct proc *self = &arena()->procs[fabric_self.slot];
	bool slow = !choice.polls && choose_has_room(l) && choose_is_unsure(l);

	__atomic_store_n(&self->cores, l->cores, __ATOMIC_RELAXED);
	__atomic_store_n(&self->quota, l->quota, __ATOMIC_RELAXED);
	__atomic_store_n(&self->needs, choose_needs(l), __ATOMIC_RELAXED);
	__atomic_store_n(&self->slow, slow, __ATOMIC_RELAXED);
	__atomic_store_n(&self->polls, choice.polls, __ATOMIC_RELAXED);
}

bool choose_again(void)
{
	uint64_t now = timer_now();
	struct load l = {0};
	bool at_once;

	if (!choose_is_old(now))
		return choice.polls;
	at_once = !known || count_changes() != changes;
	__atomic_store_n(&changes, count_changes(), __ATOMIC_RELAXED);
	look(&l, now);
	known |= l.doorbells != 0;
	choose_step(&choice, &l, now, at_once);
	__atomic_store_n(&next_look, known ? now + choose_pause(&choice) : now, __ATOMIC_RELAXED);
	__atomic_store_n(&polls, choice.polls, __ATOMIC_RELAXED);
	tell(&l);
	return choice.polls;
}

void choose_forget(void)
{
	polls = known = false;
	next_look = changes = 0;
	choice = (struct choice){0};
	memset(&before, 0, sizeof(before));
	memset(rung, 0, sizeof(rung));
}
