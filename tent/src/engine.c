/* SPDX-License-Identifier: MIT */
/* The engine: rails, listener, and the thread that moves everything on. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine.h"
#include "why.h"

#define RAIL_WAIT_MS 5000
#define FULL_NS (1 * NSEC_PER_MSEC) /* a look now and then, while nobody takes notices */

/* ---- progress ---- */

static void port_changed(struct tent *t, uint64_t now, uint32_t rail, bool up)
{
	for (struct tent_segment *s = t->segments; s; s = s->next) {
		for (uint32_t i = 0; i < s->n_pairs; i++) {
			if (s->pairs[i].local == rail)
				move_port(s, now, i, up, TENT_FAULT_OWN_PORT);
		}
	}
	serve_port(t, rail, up);
}

/* Takes what there is. Whether the port, or the device, was among it. */
static bool take_events(struct dev *d)
{
	enum mlx5dvl_event e;
	bool some = false;

	while ((e = mlx5dvl_ctx_event(d->ctx)) != MLX5DVL_EVENT_NONE) {
		d->fatal |= e == MLX5DVL_EVENT_FATAL;
		some |= e != MLX5DVL_EVENT_OTHER;
	}
	return some;
}

/*
 * An event may be old by now, and tell of an outage that is over: what counts, here and for
 * the peers, is the state of the port.
 */
static void device_events(struct tent *t, uint64_t now)
{
	for (uint32_t r = 0; r < t->n_devs; r++) {
		struct dev *d = t->devs[r];

		if (!take_events(d))
			continue;
		if (mlx5dvl_ctx_port(d->ctx, &d->port))
			d->port.active = false;
		port_changed(t, now, r, d->port.active && !d->fatal);
	}
}

bool engine_progress(struct tent *t, uint64_t now)
{
	bool some = serve_progress(t, now);

	for (struct tent_segment *s = t->segments; s; s = s->next)
		some |= move_progress(s, now);
	return some;
}

/* Calls fn of all links that there are. */
static void each_link(struct tent *t, void (*fn)(struct link *l))
{
	for (struct tent_segment *s = t->segments; s; s = s->next) {
		for (uint32_t i = 0; i < s->n_pairs; i++) {
			if (s->pairs[i].link)
				fn(s->pairs[i].link);
		}
		for (uint32_t i = 0; i < BLAME_ENDS; i++) {
			if (s->blame.ends[i].link)
				fn(s->blame.ends[i].link);
		}
	}
	for (struct conn *c = t->conns; c; c = c->next) {
		for (uint32_t i = 0; i < CONN_LINKS; i++) {
			if (c->links[i])
				fn(c->links[i]);
		}
	}
}

static void arm(struct link *l)
{
	l->ops->arm(l);
}

static void disarm(struct link *l)
{
	l->ops->disarm(l);
}

static uint64_t next_due(const struct tent *t, uint64_t now)
{
	uint64_t due = SCHED_NEVER;

	for (const struct tent_segment *s = t->segments; s; s = s->next) {
		if (move_due(s) < due)
			due = move_due(s);
	}
	for (const struct conn *c = t->conns; c; c = c->next) {
		if ((!c->known || c->cut) && c->until < due)
			due = c->until;
	}
	if (t->notice_tail - t->notice_head >= NOTICES && now + FULL_NS < due)
		due = now + FULL_NS;
	return due;
}

static void sleep_until(struct tent *t, uint64_t due)
{
	uint64_t now = clock_ns(), count;
	struct epoll_event events[16];
	struct timespec ts, *timeout = NULL;
	int n;

	if (due != SCHED_NEVER) {
		ts = clock_timespec(due > now ? due - now : 0);
		timeout = &ts;
	}
	t->sleeps_until = due;
	pthread_mutex_unlock(&t->lock);
	n = epoll_pwait2(t->epoll, events, 16, timeout, NULL);
	pthread_mutex_lock(&t->lock);
	t->sleeps_until = 0;
	if (n > 0 && read(t->kick, &count, sizeof(count)) < 0 && errno != EAGAIN)
		abort(); /* it is ours */
	each_link(t, disarm);
	device_events(t, clock_ns());
}

static void *engine_thread(void *arg)
{
	struct tent *t = arg;

	pthread_mutex_lock(&t->lock);
	while (!t->stopping) {
		if (engine_progress(t, clock_ns())) {
			/* Callers want the lock as well. */
			pthread_mutex_unlock(&t->lock);
			sched_yield();
			pthread_mutex_lock(&t->lock);
			continue;
		}
		each_link(t, arm);
		/* What came before the arming gives no event. */
		if (!engine_progress(t, clock_ns()))
			sleep_until(t, next_due(t, clock_ns()));
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

void engine_wake(struct tent *t, uint64_t until)
{
	const uint64_t one = 1;

	if (t->sleeps_until > until && write(t->kick, &one, sizeof(one)) < 0)
		abort(); /* only a counter at its end is refused */
}

void engine_help(struct tent *t)
{
	if (engine_progress(t, clock_ns()))
		engine_wake(t, 0);
}

void engine_watch(struct tent *t, int fd)
{
	struct epoll_event e = {.events = EPOLLIN};

	/* Without memory for it the thread hears of it when it wakes for something else. */
	epoll_ctl(t->epoll, EPOLL_CTL_ADD, fd, &e);
}

void engine_watch_link(struct tent *t, const struct link *l)
{
	for (int i = 0; i < 2; i++) {
		if (l->fds[i] >= 0)
			engine_watch(t, l->fds[i]);
	}
}

/* ---- rails ---- */

static enum rail_kind kind_of(const struct dev *d)
{
	return d->port.ethernet ? KIND_ROCE : KIND_IB;
}

/* @named: by the topology, so that it must be there. */
static int open_rail(struct tent *t, const char *name, bool named, struct tent_why *why)
{
	uint32_t i = t->n_devs;
	struct dev *d;
	int err = dev_open(name, &d);

	if (err == -ENETDOWN && !named)
		return 0;
	if (err)
		return why_say(why, err, "rail %s: %s", name,
			err == -ENODEV ? "there is no such adapter" : strerror(-err));
	t->devs[t->n_devs++] = d;
	t->rails[i].kind = kind_of(d);
	strcpy(t->rails[i].name, d->name);
	memcpy(t->rails[i].gid, d->port.gid, sizeof(t->rails[i].gid));
	t->gbps[i] = config_bandwidth_gbps(&t->config, d->port.mbps / 1e3);
	if (d->port.max_mr_len < t->part_len)
		t->part_len = d->port.max_mr_len;
	engine_watch(t, mlx5dvl_ctx_fd(d->ctx));
	return named ? 0 : topo_add_rail(&t->topo, name, why);
}

static int open_named(struct tent *t, struct tent_why *why)
{
	int err = topo_load(t->config.topology, &t->topo, why);

	for (uint32_t i = 0; i < t->topo.n_rails && !err; i++)
		err = open_rail(t, t->topo.rails[i], true, why);
	return err;
}

static int open_found(struct tent *t, struct tent_why *why)
{
	char names[TENT_MAX_RAILS][MLX5DVL_NAME_LEN];
	int n = mlx5dvl_devices(TENT_MAX_RAILS, names), err = 0;

	if (n <= 0)
		return why_say(why, n ? n : -ENODEV,
			"there is no adapter: see ibv_devinfo(1), or use shared-memory rails");
	for (int i = 0; i < n && !err; i++)
		err = open_rail(t, names[i], false, why);
	if (!err && !t->n_devs)
		return why_say(why, -ENETDOWN, "no adapter has an active port");
	return err ? err : topo_from_hwloc(&t->topo, why);
}

static int make_shm(struct tent *t, uint32_t n, struct tent_why *why)
{
	for (uint32_t i = 0; i < n; i++) {
		char name[TENT_NAME_LEN];

		snprintf(name, sizeof(name), "shm%u", i);
		topo_add_rail(&t->topo, name, why);
		t->rails[i].kind = KIND_SHM;
		strcpy(t->rails[i].name, name);
		t->gbps[i] = t->config.default_bandwidth_gbps;
	}
	return topo_from_hwloc(&t->topo, why);
}

static int open_rails(struct tent *t, uint32_t shm_rails, struct tent_why *why)
{
	topo_init(&t->topo);
	if (shm_rails && t->config.topology)
		return why_say(why, -EINVAL,
			"configuration: a topology names adapters: leave it out with shared-memory "
			"rails");
	if (shm_rails)
		return make_shm(t, shm_rails, why);
	return t->config.topology ? open_named(t, why) : open_found(t, why);
}

/* ---- create and destroy ---- */

static int check_attr(const struct tent_attr *a, struct tent_why *why)
{
	if (a->config && a->config_file)
		return why_say(why, -EINVAL, "give config or config_file, not both");
	if (a->shm_rails > TENT_MAX_RAILS)
		return why_say(why, -EINVAL, "shm_rails: give up to %d", TENT_MAX_RAILS);
	if (a->max_tasks > 65536)
		return why_say(why, -EINVAL, "max_tasks: give up to 65536");
	if (a->rail_wait_ms < -1)
		return why_say(why, -EINVAL, "rail_wait_ms: give milliseconds, or -1");
	if (a->max_registration && a->max_registration < 4096)
		return why_say(why, -EINVAL, "max_registration: give 4096 bytes or more");
	if (a->address && strlen(a->address) >= DESC_HOST_LEN)
		return why_say(why, -EINVAL, "address: give up to %d characters",
			DESC_HOST_LEN - 1);
	return 0;
}

static int read_config(struct tent *t, const struct tent_attr *a, struct tent_why *why)
{
	struct tent_why dummy;
	struct tent_why *w = why ? why : &dummy;
	int err = 0;

	config_init(&t->config);
	if (a->config)
		err = config_parse(a->config, strlen(a->config), &t->config, w->text,
			sizeof(w->text));
	else if (a->config_file)
		err = config_load(a->config_file, &t->config, w->text, sizeof(w->text));
	if (err || !t->config.rail_map)
		return err;
	t->map = calloc(1, sizeof(*t->map));
	return t->map ? rail_map_load(t->config.rail_map, t->map, why) : -ENOMEM;
}

static int read_boot(struct tent *t)
{
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	bool read = f && fscanf(f, "%39s", t->boot) == 1;

	if (f)
		fclose(f);
	if (!read)
		strcpy(t->boot, "unknown");
	return getrandom(t->key, sizeof(t->key), 0) == sizeof(t->key) ? 0 : -errno;
}

static int open_fds(struct tent *t)
{
	t->epoll = epoll_create1(EPOLL_CLOEXEC);
	t->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	t->notice_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
	if (t->epoll < 0 || t->kick < 0 || t->notice_fd < 0)
		return -errno;
	engine_watch(t, t->kick);
	return read_boot(t);
}

static int listen_at(struct tent *t, const struct tent_attr *a, struct tent_why *why)
{
	int err;

	strcpy(t->host, a->address ? a->address : "127.0.0.1");
	err = ctl_listen(t->host, a->port, &t->listener, &t->port, why);
	if (!err)
		engine_watch(t, t->listener);
	return err;
}

static int make_tasks(struct tent *t, const struct tent_attr *a)
{
	uint32_t n = a->max_tasks ? a->max_tasks : 1024;

	t->tasks = calloc(n, sizeof(*t->tasks));
	if (!t->tasks || slab_init(&t->importer_ids, MAX_IMPORTERS))
		return -ENOMEM;
	return slab_init(&t->task_ids, n);
}

static int init(struct tent *t, const struct tent_attr *a, struct tent_why *why)
{
	int err = check_attr(a, why);

	t->part_len = a->max_registration ? a->max_registration : INT64_MAX;
	if (a->rail_wait_ms >= 0)
		t->no_rail_ns = (a->rail_wait_ms ? (uint64_t)a->rail_wait_ms : RAIL_WAIT_MS) *
				NSEC_PER_MSEC;
	if (!err)
		err = read_config(t, a, why);
	if (!err)
		err = open_fds(t);
	if (!err)
		err = open_rails(t, a->shm_rails, why);
	if (!err)
		err = listen_at(t, a, why);
	if (!err)
		err = make_tasks(t, a);
	return err;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

static void fini(struct tent *t)
{
	while (t->segments) {
		struct tent_segment *s = t->segments;

		t->segments = s->next;
		segment_free(s);
	}
	while (t->conns) {
		struct conn *c = t->conns;

		t->conns = c->next;
		conn_free(t, c);
	}
	while (t->batches) {
		struct tent_batch *b = t->batches;

		t->batches = b->next;
		batch_free(b);
	}
	buffers_free(t);
	for (uint32_t i = 0; i < t->n_devs; i++)
		dev_close(t->devs[i]);
	close_fd(t->listener);
	close_fd(t->notice_fd);
	close_fd(t->kick);
	close_fd(t->epoll);
	slab_fini(&t->importer_ids);
	slab_fini(&t->task_ids);
	free(t->tasks);
	free(t->map);
	config_fini(&t->config);
	pthread_cond_destroy(&t->ended);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

static void init_cond(struct tent *t)
{
	pthread_condattr_t attr;

	pthread_mutex_init(&t->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&t->ended, &attr);
	pthread_condattr_destroy(&attr);
}

int tent_create(const struct tent_attr *attr, struct tent_why *why, struct tent **t_p)
{
	const struct tent_attr none = {0};
	struct tent *t = calloc(1, sizeof(*t));
	int err;

	if (why)
		why->text[0] = 0;
	if (!t)
		return -ENOMEM;
	t->epoll = t->kick = t->listener = t->notice_fd = -1;
	init_cond(t);
	err = init(t, attr ? attr : &none, why);
	if (!err)
		err = -pthread_create(&t->thread, NULL, engine_thread, t);
	if (err) {
		fini(t);
		return err;
	}
	*t_p = t;
	return 0;
}

void tent_destroy(struct tent *t)
{
	if (!t)
		return;
	pthread_mutex_lock(&t->lock);
	serve_end(t);
	t->stopping = true;
	engine_wake(t, 0);
	pthread_mutex_unlock(&t->lock);
	pthread_join(t->thread, NULL);
	fini(t);
}
