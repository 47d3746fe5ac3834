/* SPDX-License-Identifier: MIT */
/* The engine: rails, listener, and the thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/sized.h"
#include "base/tcp.h"
#include "engine.h"
#include "why.h"

#define RAIL_WAIT_MS 5000
#define FULL_NS (1 * NSEC_PER_MSEC) /* interval of polls while the ring of notices is full */
#define EVENT_ROUNDS 64 /* rounds of work between two looks for events of ports */
#define STARVED_NS (TCP_AGAIN_MS * NSEC_PER_MSEC)

static const struct live_type live_engine = {LIVE_MAGIC, "tent", "engine",
	.field = {
		{"port", LIVE_AT(struct tent, port)},
		{"rails", LIVE_AT(struct tent, n_ports)},
		{"buffers", LIVE_AT(struct tent, n_buffers)},
		{"ending", LIVE_AT(struct tent, n_going)},
		{"imports", LIVE_AT(struct tent, n_imports)},
		{"peers", LIVE_AT(struct tent, n_conns)},
		{"requests", LIVE_AT(struct tent, task_ids.used)},
		{"most", LIVE_AT(struct tent, task_ids.capacity)},
	}};

/* ---- progress ---- */

static void port_events(struct tent *t, uint64_t now)
{
	bool up;

	for (uint32_t r = 0; r < t->n_ports; r++) {
		struct port *p = t->ports[r];

		if (!p->transport->event || !p->transport->event(p, &up))
			continue;
		for (struct tent_segment *s = t->segments; s; s = s->next)
			move_port(s, now, true, r, up);
		serve_port(t, r, up);
	}
}

static bool progress(struct tent *t, uint64_t now, bool all)
{
	bool some = all && serve_progress(t, now);

	some |= order_progress(t);
	some |= stage_progress(t);
	for (struct tent_segment *s = t->segments; s; s = s->next) {
		some |= move_progress(s, now, all);
		/* lent_answer() may have released the lock, and other threads have gone on. */
		if (s->next)
			now = clock_ns();
	}
	return some;
}

/* Arms or disarms a link, which may be NULL. */
static void arm(struct link *l, bool on)
{
	if (l && on && l->ops->arm)
		l->ops->arm(l);
	else if (l && !on && l->ops->disarm)
		l->ops->disarm(l);
}

static void arm_all(struct tent *t, bool on)
{
	for (struct tent_segment *s = t->segments; s; s = s->next) {
		for (uint32_t i = 0; i < s->n_pairs; i++)
			arm(s->pairs[i].link, on);
		for (uint32_t i = 0; i < BLAME_ENDS; i++)
			arm(s->blame.ends[i].link, on);
	}
	for (struct conn *c = t->conns; c && t->transport->accept; c = c->next) {
		for (uint32_t i = 0; i < CONN_LINKS; i++)
			arm(c->links[i], on);
	}
}

/* True: connections wait for descriptors. */
static bool starved(const struct tent *t)
{
	bool some = t->starved;

	for (uint32_t i = 0; i < t->n_ports; i++)
		some |= t->ports[i]->starved;
	return some;
}

static uint64_t next_due(const struct tent *t, uint64_t now)
{
	uint64_t due = SCHED_NEVER;

	for (const struct tent_segment *s = t->segments; s; s = s->next) {
		if (move_due(s) < due)
			due = move_due(s);
	}
	if (t->conns_due < due)
		due = t->conns_due;
	if ((t->full || t->notice_tail - t->notice_head >= NOTICES) && now + FULL_NS < due)
		due = now + FULL_NS;
	if (starved(t) && now + STARVED_NS < due)
		due = now + STARVED_NS;
	return due;
}

static void *engine_thread(void *arg)
{
	struct tent *t = arg;

	pthread_mutex_lock(&t->lock);
	for (uint32_t round = 1; !t->stopping; round++) {
		if (round % EVENT_ROUNDS == 0)
			port_events(t, clock_ns());
		if (t->progress(t, clock_ns(), true)) {
			/* Other threads need the lock, too. */
			pthread_mutex_unlock(&t->lock);
			sched_yield();
			pthread_mutex_lock(&t->lock);
			continue;
		}
		arm_all(t, true);
		/* Completions that arrived before the links were armed cause no event. */
		if (t->progress(t, clock_ns(), true))
			continue;
		loop_sleep(t, next_due(t, clock_ns()));
		arm_all(t, false);
		port_events(t, clock_ns());
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

/* ---- rails ---- */

/* @named: the topology file names the rail, so an inactive port is an error. */
static int open_rail(struct tent *t, const struct transport *tr, const struct tent_attr *a,
	const char *name, bool named, struct tent_why *why)
{
	uint32_t i = t->n_ports;
	struct port *p;
	int err;

	if (i == TENT_MAX_RAILS)
		return why_say(why, -EINVAL, "rails of all kinds: give up to %d", TENT_MAX_RAILS);
	err = tr->open(a, name, named, &p, why);
	if (err)
		return err == -ENETDOWN && !named ? 0 : err;
	p->transport = tr;
	t->ports[t->n_ports++] = p;
	t->rails[i] = p->id;
	t->gbps[i] = config_bandwidth_gbps(&t->config, p->gbps);
	if (p->max_region < t->part_len)
		t->part_len = p->max_region;
	if (p->fd >= 0)
		loop_watch(t, p->fd);
	return named ? 0 : topo_add_rail(&t->topo, name, why);
}

/* The number of rails of this transport that the program requests. */
static uint32_t asked(const struct transport *tr, const struct tent_attr *a)
{
	return tr->asked ? *(const uint32_t *)(const void *)((const char *)a + tr->asked) : 0;
}

static bool asks(const struct tent_attr *a)
{
	bool some = false;

	for (const struct transport *const *tr = transports; *tr; tr++)
		some |= asked(*tr, a) != 0;
	return some;
}

/* Writes names such as "tcp0", as many as the program requests. Returns their number or -errno. */
static int number_rails(const struct transport *tr, const struct tent_attr *a,
	char names[TENT_MAX_RAILS][TENT_NAME_LEN], struct tent_why *why)
{
	uint32_t n = asked(tr, a);

	if (n > TENT_MAX_RAILS)
		return why_say(why, -EINVAL, "%s_rails: give up to %d", tr->kinds[0],
			TENT_MAX_RAILS);
	for (uint32_t i = 0; i < n; i++)
		snprintf(names[i], TENT_NAME_LEN, "%s%u", tr->kinds[0], i);
	return (int)n;
}

static int open_found(struct tent *t, const struct transport *tr, const struct tent_attr *a,
	struct tent_why *why)
{
	char names[TENT_MAX_RAILS][TENT_NAME_LEN];
	int n = tr->find ? tr->find(a, names, why) : number_rails(tr, a, names, why);
	uint32_t before = t->n_ports;
	int err = n < 0 ? n : 0;

	for (int i = 0; i < n && !err; i++)
		err = open_rail(t, tr, a, names[i], false, why);
	if (!err && t->n_ports == before)
		return why_say(why, -ENETDOWN, "none of the %s has an active port", tr->rails);
	return err;
}

/* Opens the rails that the topology file names. They are the first rails of the engine. */
static int open_named(struct tent *t, const struct transport *tr, const struct tent_attr *a,
	struct tent_why *why)
{
	int err = topo_load(t->config.topology, &t->topo, why);

	for (uint32_t i = 0; i < t->topo.n_rails && !err; i++)
		err = open_rail(t, tr, a, t->topo.rails[i], true, why);
	return err;
}

static int open_transport(struct tent *t, const struct transport *tr, const struct tent_attr *a,
	struct tent_why *why)
{
	if (t->transport && !(t->transport->beside && tr->beside))
		return why_say(why, -EINVAL, "rails of %s and %s: give rails of one kind",
			t->transport->rails, tr->rails);
	if (!t->transport && t->config.topology && !tr->find)
		return why_say(why, -EINVAL,
			"configuration: a topology file describes adapters, so leave it out with "
			"rails of %s",
			tr->rails);
	if (!t->transport)
		t->transport = tr;
	if (tr->check)
		t->check = tr->check;
	return tr->find && t->config.topology ? open_named(t, tr, a, why) :
						open_found(t, tr, a, why);
}

static int open_rails(struct tent *t, const struct tent_attr *a, struct tent_why *why)
{
	int err = 0;

	topo_init(&t->topo);
	for (const struct transport *const *tr = transports; *tr && !err; tr++) {
		if (asked(*tr, a) || ((*tr)->find && !asks(a) && !t->transport))
			err = open_transport(t, *tr, a, why);
	}
	return err || t->config.topology ? err : topo_from_hwloc(&t->topo, why);
}

/* ---- create and destroy ---- */

static int check_attr(const struct tent_attr *a, struct tent_why *why)
{
	if (a->config && a->config_file)
		return why_say(why, -EINVAL, "give config or config_file, not both");
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
	int err = 0;

	config_init(&t->config);
	if (a->config)
		err = config_parse(a->config, strlen(a->config), &t->config, why);
	else if (a->config_file)
		err = config_load(a->config_file, &t->config, why);
	if (err || !t->config.rail_map)
		return err;
	t->map = calloc(1, sizeof(*t->map));
	return t->map ? rail_map_load(t->config.rail_map, t->map, why) : -ENOMEM;
}

static int open_fds(struct tent *t)
{
	t->epoll = epoll_create1(EPOLL_CLOEXEC);
	t->ctls = epoll_create1(EPOLL_CLOEXEC);
	t->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	t->notice_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
	if (t->epoll < 0 || t->ctls < 0 || t->kick < 0 || t->notice_fd < 0)
		return -errno;
	loop_watch(t, t->kick);
	loop_watch(t, t->ctls);
	boot_id(t->boot);
	return getrandom(t->key, sizeof(t->key), 0) == sizeof(t->key) ? 0 : -errno;
}

static int listen_at(struct tent *t, const struct tent_attr *a, struct tent_why *why)
{
	int err;

	strcpy(t->host, a->address);
	err = ctl_listen(t->host, a->port, &t->listener, &t->port, why);
	return err ? err : serve_watch(t, t->listener, NULL);
}

static int make_tasks(struct tent *t, const struct tent_attr *a)
{
	uint32_t n = a->max_tasks ? a->max_tasks : 1024;

	t->tasks = calloc(n + STAGE_CHUNKS, sizeof(*t->tasks));
	if (!t->tasks || slab_init(&t->importer_ids, MAX_IMPORTERS) ||
		slab_init(&t->chunk_ids, STAGE_CHUNKS) || slab_init(&t->out_slots, STAGE_SLOTS))
		return -ENOMEM;
	return slab_init(&t->task_ids, n);
}

/* Copies the caller's attributes, which may be those of another version of the library. */
static int take_attr(const struct tent_attr *from, struct tent_attr *a, struct tent_why *why)
{
	int err = SIZED_ATTR(a, from, rail_wait_ms);

	return err ? why_say(why, err, "attributes: a field that this library lacks is not 0") :
		     check_attr(a, why);
}

static int init(struct tent *t, const struct tent_attr *from, struct tent_why *why)
{
	struct tent_attr attr = {0};
	const struct tent_attr *a = &attr;
	int err = take_attr(from, &attr, why);

	if (!a->address)
		attr.address = "127.0.0.1";
	t->part_len = INT64_MAX; /* the maximum of an integer in the description */
	if (a->max_registration && a->max_registration < INT64_MAX)
		t->part_len = a->max_registration;
	if (a->rail_wait_ms >= 0)
		t->no_rail_ns = (a->rail_wait_ms ? (uint64_t)a->rail_wait_ms : RAIL_WAIT_MS) *
				NSEC_PER_MSEC;
	if (!err)
		err = read_config(t, a, why);
	if (!err)
		err = open_fds(t);
	if (!err)
		err = open_rails(t, a, why);
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
	live_remove(t->live);
	order_fini(t);
	stage_fini(t);
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
	for (uint32_t i = 0; i < t->task_ids.capacity; i++) {
		if (slab_in_use(&t->task_ids, i)) /* the request has not ended */
			free(t->tasks[i].cuts);
	}
	while (t->batches) {
		struct tent_batch *b = t->batches;

		t->batches = b->next;
		batch_free(b);
	}
	buffers_free(t);
	for (uint32_t i = 0; i < t->n_ports; i++)
		t->ports[i]->transport->close(t->ports[i]);
	close_fd(t->listener);
	close_fd(t->notice_fd);
	close_fd(t->kick);
	close_fd(t->ctls);
	close_fd(t->epoll);
	slab_fini(&t->importer_ids);
	slab_fini(&t->chunk_ids);
	slab_fini(&t->out_slots);
	slab_fini(&t->task_ids);
	free(t->tasks);
	free(t->map);
	config_fini(&t->config);
	pthread_cond_destroy(&t->ended);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

int tent_create(const struct tent_attr *attr, struct tent_why *why, struct tent **t_p)
{
	struct tent *t = calloc(1, sizeof(*t));
	int err;

	why_clear(why);
	if (!t)
		return -ENOMEM;
	t->progress = progress;
	t->epoll = t->ctls = t->kick = t->listener = t->notice_fd = -1;
	t->conns_due = SCHED_NEVER;
	pthread_mutex_init(&t->lock, NULL);
	cond_init(&t->ended);
	err = init(t, attr, why);
	t->live = live_add(&live_engine, t, t->host);
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
	loop_wake(t, 0);
	pthread_mutex_unlock(&t->lock);
	pthread_join(t->thread, NULL);
	fini(t);
}
