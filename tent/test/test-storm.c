/* SPDX-License-Identifier: MIT */
/*
 * Many simultaneous faults. From a seed the test draws processes with engines of all transports,
 * their requests, and the faults (the "weather"): ports that flap, adapters that fail, messages
 * that fail, arrive late or in part, are held or not acknowledged, processes that are stopped or
 * killed.
 * storm-engines.c and storm-work.c check the promises of tent.h.
 *
 *	test-storm [SEED [COUNT]]
 *
 * Without SEED, or with 0, the seed is TEST_SEED from the environment, or a random one.
 * Without SOFTHCACTL (the path of softhcactl) in the environment no engine has adapters.
 */
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <sys/mman.h>

#include "storm.h"

#define EVENTS 60 /* maximum number of events in a run */

/* ---- drawing ---- */

static void draw_memory(const struct world *w, struct plan *p, uint64_t *seed)
{
	size_t areas = ENGINES * THREADS * w->area;

	p->remote = test_shared(areas);
	p->local = test_shared(areas);
	p->visits = test_shared(2 * ENGINES * VISIT_LEN);
	storm_fill(p->remote, (uint32_t)areas, test_rand(seed), 0);
	storm_fill(p->local, (uint32_t)areas, test_rand(seed), 0);
	for (uint32_t v = 0; v < BRIEFS; v++)
		p->briefs[v] = test_shared(ENGINES * THREADS * BRIEF_LEN);
}

/* Draws rails of the kinds that all engines have, so that each rail has a partner. */
static uint32_t draw_rails(uint64_t *seed, uint32_t kinds)
{
	const uint32_t half = (1u << RAILS / 2) - 1;
	uint32_t rails = 0;

	for (uint32_t kind = 0; kind < 2; kind++) {
		uint32_t some = 0;

		while (!some)
			some = (uint32_t)test_rand(seed) & half;
		/* One rail only, in half of the cases, so that faults often leave no rail. */
		if (storm_chance(seed, 50))
			some &= -some;
		if (kinds >> kind & 1)
			rails |= some << kind * (RAILS / 2);
	}
	return rails;
}

static void draw_plan(struct world *w, uint32_t i, uint32_t kinds, uint64_t *seed)
{
	static const char *const modes[] = {"baseline", "smart", "pull"};
	static const int waits[] = {0, 0, -1, 300};
	struct plan *p = &w->plans[i];

	p->process = (int)(i < w->n_processes ? i : storm_below(seed, w->n_processes));
	p->kind = w->hca && storm_chance(seed, 60) ? ADAPTERS : storm_chance(seed, 50) ? SHM : TCP;
	if (i == 1) /* so that at least two engines have the same transport */
		p->kind = w->plans[0].kind;
	if (p->kind == ADAPTERS && i != 1 && storm_chance(seed, 40))
		p->kind = BOTH;
	p->rails = storm_has_adapters(p) ? draw_rails(seed, kinds) :
					   1 + (uint32_t)storm_below(seed, 4);
	if (p->kind == TCP || p->kind == BOTH)
		p->tcp = 1 + (uint32_t)storm_below(seed, p->kind == TCP ? 4 : 2);
	p->threads = 1 + (uint32_t)storm_below(seed, THREADS);
	p->rounds = 4 + (uint32_t)storm_below(seed, 22);
	p->priorities = 1 + (uint32_t)storm_below(seed, 3);
	p->max_tasks = storm_chance(seed, 30) ? 8 + (uint32_t)storm_below(seed, 20) : 0;
	p->rail_wait_ms = waits[storm_below(seed, ARRAY_SIZE(waits))];
	p->parts = storm_chance(seed, 50) ? 0 : 4096 * (5 + storm_below(seed, 60));
	p->mode = modes[storm_below(seed, ARRAY_SIZE(modes))];
	draw_memory(w, p, seed);
}

/*
 * Engines with adapters and TCP rails (BOTH) also meet engines that have only adapters or only TCP
 * rails.
 */
static bool meets(const struct plan *a, const struct plan *b)
{
	return a->kind == b->kind || (a->kind == BOTH && b->kind != SHM) ||
	       (b->kind == BOTH && a->kind != SHM);
}

static void draw_world(struct world *w, uint64_t seed)
{
	uint32_t kinds;

	w->seed = seed;
	w->hca = getenv("SOFTHCACTL") != NULL;
	w->area = 32 * KIB << storm_below(&seed, 5);
	w->n_processes = 2 + (uint32_t)storm_below(&seed, PROCESSES - 1);
	w->n_engines = w->n_processes + (uint32_t)storm_below(&seed, ENGINES - w->n_processes + 1);
	w->cancels = (uint32_t)storm_below(&seed, 25);
	w->notifies = 20 + (uint32_t)storm_below(&seed, 80);
	kinds = 1 + (uint32_t)storm_below(&seed, 3);
	for (uint32_t i = 0; i < w->n_engines; i++)
		draw_plan(w, i, kinds, &seed);
	for (uint32_t i = 0; i < w->n_engines; i++) {
		for (uint32_t to = 0; to < w->n_engines; to++) {
			const struct plan *a = &w->plans[i], *b = &w->plans[to];

			if (i != to && meets(a, b) && (i + to == 1 || storm_chance(&seed, 80)))
				w->plans[i].imports |= 1u << to;
		}
	}
}

/* ---- weather ---- */

struct weather {
	struct world *w;
	uint64_t seed;
	uint32_t kind; /* determines which events are frequent */
	uint64_t up_at[RAILS]; /* end of the outage of a port that is down, else 0 */
	uint32_t events, most, rules;
	bool kills, deadly; /* kills: a process may be killed; deadly: one has been */
	bool breaks, broken; /* breaks: an adapter may fail for good; broken: one has */
};

extern char **environ;

/* Runs softhcactl, without the LD_PRELOAD of the software HCA, which it does not need. */
static void __attribute__((format(printf, 1, 2))) control(const char *format, ...)
{
	char words[1500], *argv[8] = {getenv("SOFTHCACTL")}, *save = NULL;
	uint32_t argc = 1;
	va_list ap;
	pid_t pid;

	va_start(ap, format);
	vsnprintf(words, sizeof(words), format, ap);
	va_end(ap);
	CHECK_EQ(unsetenv("LD_PRELOAD"), 0);
	for (char *word = strtok_r(words, "|", &save); word; word = strtok_r(NULL, "|", &save))
		argv[argc++] = word;
	CHECK_EQ(posix_spawn(&pid, argv[0], NULL, NULL, argv, environ), 0);
	CHECK_EQ(test_reap(pid), 0);
}

static void pull_cable(struct weather *s, uint32_t rail)
{
	if (s->up_at[rail])
		return;
	control("link|mlx5_%u|down", rail);
	s->up_at[rail] = clock_ns() + 1 + storm_below(&s->seed, 40 * NSEC_PER_MSEC);
}

static void plug_cables(struct weather *s, bool all)
{
	for (uint32_t i = 0; i < RAILS; i++) {
		if (!s->up_at[i] || (!all && clock_ns() < s->up_at[i]))
			continue;
		control("link|mlx5_%u|up", i);
		s->up_at[i] = 0;
	}
}

static const char *draw_opcode(uint64_t *seed)
{
	static const char *const opcodes[] = {"opcode=write", "opcode=read",
		"opcode=send opcode=write_imm", "opcode=send opcode=write_imm",
		"opcode=write opcode=read opcode=send opcode=write_imm"};

	return opcodes[storm_below(seed, ARRAY_SIZE(opcodes))];
}

static void draw_rule(struct weather *s, char *rule, size_t size)
{
	static const char *const syndromes[] = {"remote_op", "retry_exceeded"};
	const char *syndrome = syndromes[storm_below(&s->seed, 2)];
	uint64_t nth = 1 + storm_below(&s->seed, 6), count = 1 + storm_below(&s->seed, 4);
	uint64_t rail = storm_below(&s->seed, RAILS + 1), what = storm_below(&s->seed, 10);
	uint64_t ns = storm_below(&s->seed, 120 * NSEC_PER_MSEC);
	char device[32] = "", action[200];

	if (rail < RAILS)
		snprintf(device, sizeof(device), "device=mlx5_%llu ", (unsigned long long)rail);
	if (what < 3)
		snprintf(action, sizeof(action), "%s action=error syndrome=%s",
			draw_opcode(&s->seed), syndrome);
	else if (what == 3)
		snprintf(action, sizeof(action), "opcode=write action=late delay_ns=%llu%s",
			(unsigned long long)ns + 1,
			storm_chance(&s->seed, 50) ? " syndrome=retry_exceeded" : "");
	else if (what == 4)
		snprintf(action, sizeof(action),
			"opcode=write opcode=read bytes=%llu action=partial syndrome=%s",
			(unsigned long long)storm_below(&s->seed, 5000), syndrome);
	else if (what == 5)
		snprintf(action, sizeof(action), "%s action=delay delay_ns=%llu",
			draw_opcode(&s->seed), (unsigned long long)ns + 1);
	else if (what == 6)
		snprintf(action, sizeof(action), "opcode=send opcode=write_imm action=rnr");
	else if (what == 7)
		snprintf(action, sizeof(action), "%s action=no_answer", draw_opcode(&s->seed));
	else if (what == 8)
		snprintf(action, sizeof(action), "opcode=send action=hold_receive");
	else /* a step: the rail is slower until the rules are cleared */
		snprintf(action, sizeof(action), "opcode=write action=delay delay_ns=%llu",
			(unsigned long long)ns / 100 + 1);
	if (what == 9)
		count = 0;
	snprintf(rule, size, "%s%s nth=%llu count=%llu", device, action, (unsigned long long)nth,
		(unsigned long long)count);
}

/*
 * Adds up to four faults ("rules") to the software HCA. A rule ends after `count` messages (0: no
 * limit), and at the latest when the rules are cleared.
 */
static void fault(struct weather *s)
{
	char rules[1400];
	size_t n = 0;

	if (s->rules > 55) /* the HCA has room for 64 */
		return;
	for (uint64_t i = 1 + storm_below(&s->seed, 4); i; i--) {
		char rule[320];

		draw_rule(s, rule, sizeof(rule));
		n += (size_t)snprintf(rules + n, sizeof(rules) - n, "%s%s", n ? ";" : "", rule);
	}
	control("fault|add|%s", rules);
	s->rules += 4;
}

static void clear(struct weather *s)
{
	control("fault|clear");
	s->rules = 0;
}

static uint32_t draw_process(struct weather *s)
{
	return (uint32_t)storm_below(&s->seed, s->w->n_processes);
}

static void stop_and_go(struct weather *s)
{
	uint32_t p = draw_process(s);
	useconds_t us =
		(useconds_t)storm_below(&s->seed, storm_chance(&s->seed, 10) ? 200000 : 40000);

	if (atomic_load(&s->w->may_die[p]))
		return;
	kill(s->w->pids[p], SIGSTOP);
	usleep(us);
	kill(s->w->pids[p], SIGCONT);
}

/* Kills a process: with a signal, or by the adapter in the middle of a message. */
static void strike(struct weather *s)
{
	uint32_t p = draw_process(s);

	if (!s->kills || s->deadly)
		return;
	s->deadly = true;
	atomic_store(&s->w->may_die[p], true);
	for (uint32_t i = 0; i < s->w->n_engines; i++)
		storm_tell(&s->w->plans[i].news);
	if (s->w->hca && storm_chance(&s->seed, 30))
		control("fault|add|action=kill pid=%d nth=%llu bytes=%llu", (int)s->w->pids[p],
			(unsigned long long)(1 + storm_below(&s->seed, 9)),
			(unsigned long long)storm_below(&s->seed, 2000));
	else
		kill(s->w->pids[p], SIGKILL);
}

/* An adapter fails for good, in all processes. */
static void break_adapter(struct weather *s)
{
	if (!s->w->hca || !s->breaks || s->broken)
		return;
	s->broken = true;
	control("fault|add|device=mlx5_%u action=device_fatal nth=%llu",
		(unsigned)storm_below(&s->seed, RAILS),
		(unsigned long long)(1 + storm_below(&s->seed, 20)));
}

static void blow(struct weather *s)
{
	uint64_t what = storm_below(&s->seed, 100);

	s->events++;
	if (what < 8)
		stop_and_go(s);
	else if (what < 12)
		strike(s);
	else if (what < 15)
		break_adapter(s);
	else if (!s->w->hca)
		usleep((useconds_t)storm_below(&s->seed, 10000));
	else if (what < 22)
		clear(s);
	else if (what < (s->kind == 0 ? 85 : s->kind == 1 ? 35 : 60))
		pull_cable(s, (uint32_t)storm_below(&s->seed, RAILS));
	else
		fault(s);
}

/* ---- the run ---- */

/* True: the process has ended with status 0, or was killed on purpose. */
static bool ended_well(const struct world *w, pid_t pid, int status)
{
	for (uint32_t p = 0; p < w->n_processes; p++) {
		if (w->pids[p] == pid && atomic_load(&w->may_die[p]) && WIFSIGNALED(status) &&
			WTERMSIG(status) == SIGKILL)
			return true;
	}
	if (status)
		fprintf(stderr, "a process has ended with status %#x\n", (unsigned)status);
	return !status;
}

struct run {
	struct world *w;
	uint32_t alive; /* a bit per process */
	bool failed;
};

static bool over(const struct run *r)
{
	return r->failed || !(r->alive & ~atomic_load(&r->w->finished));
}

/* Reaps processes that have ended. After the first failure, kills the others. */
static void reap(struct run *r, int flags)
{
	int status;
	pid_t pid;

	while (r->alive && (pid = waitpid(-1, &status, flags)) > 0) {
		for (uint32_t p = 0; p < r->w->n_processes; p++)
			r->alive &= ~(r->w->pids[p] == pid ? 1u << p : 0);
		if (!ended_well(r->w, pid, status) && !r->failed) {
			r->failed = true;
			for (uint32_t p = 0; p < r->w->n_processes; p++) {
				if (r->alive >> p & 1)
					kill(r->w->pids[p], SIGKILL);
			}
		}
	}
}

static bool reaped(struct run *r)
{
	reap(r, WNOHANG);
	return r->failed;
}

static struct world *current;

/* A process has ended. The signal, or the new count, ends the sleep of the root process. */
static void on_child(int signal)
{
	atomic_fetch_add(&current->news, 1);
}

static void start(struct run *r)
{
	struct world *w = r->w;
	struct sigaction sa = {.sa_handler = on_child, .sa_flags = SA_RESTART};

	current = w;
	CHECK_EQ(sigaction(SIGCHLD, &sa, NULL), 0);
	fflush(NULL);
	for (uint32_t p = 0; p < w->n_processes; p++) {
		pid_t pid = test_fork();

		if (!pid) {
			signal(SIGCHLD, SIG_DFL);
			storm_child();
			exit(storm_process(w, (int)p));
		}
		w->pids[p] = pid;
		r->alive |= 1u << p;
	}
	STORM_AWAIT(&w->news, reaped(r) || atomic_load(&w->imported) == w->n_processes,
		3 * GUARD_MS);
}

/* Injects faults, then waits until all live processes have finished. */
static void storm(struct run *r, struct weather *s)
{
	while (!r->failed && s->events < s->most) {
		blow(s);
		usleep((useconds_t)storm_below(&s->seed, 1u << storm_below(&s->seed, 15)));
		plug_cables(s, false);
		reap(r, WNOHANG);
	}
	if (r->w->hca) {
		clear(s);
		plug_cables(s, true);
	}
	atomic_store(&r->w->calm, true);
	STORM_AWAIT(&r->w->news, (reaped(r), over(r)), 5 * GUARD_MS);
}

static void play(uint64_t seed)
{
	struct world *w = test_shared(sizeof(*w));
	struct run r = {.w = w};
	struct weather s = {.w = w, .seed = ~seed};

	draw_world(w, seed);
	s.kind = (uint32_t)storm_below(&s.seed, 3);
	s.kills = storm_chance(&s.seed, 25);
	s.breaks = storm_chance(&s.seed, 25);
	s.most = EVENTS / 4 + (uint32_t)storm_below(&s.seed, EVENTS * 3 / 4);
	start(&r);
	storm(&r, &s);
	atomic_store(&w->over, true);
	storm_tell(&w->news);
	reap(&r, 0);
	printf("seed %#llx: %u processes, %u engines, %u events%s%s: %u requests, %u failed, %u "
	       "cancelled, %u notices\n",
		(unsigned long long)seed, w->n_processes, w->n_engines, s.events,
		s.deadly ? ", one killed" : "", s.broken ? ", an adapter failed" : "", w->requests,
		w->failed, w->cancelled, w->told);
	CHECK(!r.failed);
}

int main(int argc, char **argv)
{
	return storm_main(argc, argv, play);
}
