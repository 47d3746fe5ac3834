/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer: the messages of control connections, and the marks and ends of links that come with
 * them. The first byte selects the case. Bit 0: 0: the engine is the target of two peers; 1: it has
 * imported the segment of a peer. Bit 1: 1: the transport has marks and ends of links. Bit 2: 1:
 * the ring has room for two more notices of peers that stay; bit 3: 1: for one of peers that leave;
 * both 0: it is empty. Bit 4: 1: sometimes there is no descriptor for a connection. The steps that
 * follow are those of do_step().
 *
 * The engine has no thread and no adapter. The first byte of the peer's end of a link determines
 * how the link completes moves.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "support/fuzzpeer.h"
#include "engine.h"

#define PEERS 2
#define ADDR 0x10000u /* of the peer's memory */
#define LEN 6144u

int fuzz_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until);
int __wrap_tcp_take(int listener, int *fd_p);
int __wrap_tcp_connect(const char *host, uint16_t port, bool patient, uint64_t limit_ns, int *fd_p);

static struct {
	struct tent *t;
	bool target;
	struct tent_segment *s; /* the peer's segment, if the engine has imported it */
	struct tent_batch *batch;
	int fds[PEERS]; /* the peers' ends of connections; -1: closed */
	int coming[PEERS]; /* our ends that were not accepted yet; -1: none */
	bool welcome[PEERS]; /* the engine has let this peer in */
	bool scarce; /* descriptors are */
	uint32_t takes; /* number of calls of tcp_take() */
} it;

static uint8_t memory[LEN];

/* ---- a transport ---- */

/* The first byte of a peer's end of a link. */
enum { END_GOOD, END_NONE, END_FAILS, END_SILENT, END_REFUSES, ENDS };

struct stub {
	struct link link;
	uint8_t end;
	struct notice_mark marks[2];
	int n_marks;
	uint64_t tokens[LINK_DEPTH + LINK_EXTRA];
};

static int put(struct link *l, uint64_t token, uint32_t depth)
{
	if (l->posted >= depth)
		return -EAGAIN;
	((struct stub *)l)->tokens[l->posted++] = token;
	return 0;
}

static void check_move(const struct link_move *m)
{
	must(m->len && m->remote >= ADDR && m->remote + m->len <= ADDR + 2 * LEN);
	must((uint8_t *)m->local >= memory && (uint8_t *)m->local + m->len <= memory + LEN);
}

static int stub_post(struct link *l, const struct link_move *m)
{
	check_move(m);
	return put(l, m->token, LINK_DEPTH);
}

static int stub_now(struct link *l, const struct link_move *m, pthread_mutex_t *lock)
{
	check_move(m);
	return ((struct stub *)l)->end == END_GOOD ? 0 : -EIO;
}

static int stub_probe(struct link *l, uint64_t token)
{
	return put(l, token, LINK_DEPTH + LINK_EXTRA);
}

static int stub_mark(struct link *l, const struct notice_mark *mark, uint64_t token)
{
	must(notice_valid(mark));
	return put(l, token, LINK_DEPTH + LINK_EXTRA);
}

static int stub_poll(struct link *l, link_done_fn *fn, void *arg)
{
	static const int status[ENDS] = {[END_FAILS] = -EIO, [END_REFUSES] = -EACCES};
	struct stub *s = (struct stub *)l;
	uint32_t n = s->end == END_SILENT ? 0 : l->posted;
	uint64_t done[LINK_DEPTH + LINK_EXTRA];

	memcpy(done, s->tokens, sizeof(done));
	l->posted -= n;
	for (uint32_t i = 0; i < n; i++)
		fn(arg, done[i], status[s->end]);
	return (int)n;
}

static int stub_poll_marks(struct link *l, int max, link_mark_fn *fn, void *arg)
{
	struct stub *s = (struct stub *)l;
	int n = 0;

	while (s->n_marks && n < max) {
		fn(arg, &s->marks[--s->n_marks]);
		n++;
	}
	return n;
}

static int stub_stop(struct link *l)
{
	return ((struct stub *)l)->end == END_FAILS ? -EIO : 0;
}

static void stub_end(const struct link *l, struct link_end *end_p)
{
	memset(end_p, 0, sizeof(*end_p));
}

static int stub_connect(struct link *l, const struct link_end *peer)
{
	((struct stub *)l)->end = peer->bytes[0] % ENDS;
	return peer->bytes[0] % ENDS == END_NONE ? -EINVAL : 0;
}

#define COMMON .poll = stub_poll, .post = stub_post, .post_probe = stub_probe, .destroy = link_free

static const struct link_ops plain_ops = {COMMON, .now = stub_now};
static const struct link_ops full_ops = {COMMON, .end = stub_end, .connect = stub_connect,
	.post_mark = stub_mark, .poll_marks = stub_poll_marks, .stop = stub_stop};

static int stub_new(const struct link_ops *ops, struct link **l_p)
{
	struct stub *s = calloc(1, sizeof(*s));

	must(s);
	s->link = (struct link){.ops = ops, .fds = {-1, -1}};
	*l_p = &s->link;
	return 0;
}

static int plain_new(struct port *p, const struct desc *d, struct link **l_p)
{
	return stub_new(&plain_ops, l_p);
}

static int full_new(struct port *p, const struct desc *d, struct link **l_p)
{
	return stub_new(&full_ops, l_p);
}

/* The target's end, with marks that have arrived. */
static int full_accept(struct port *p, const struct link_end *theirs, struct link_end *mine_p,
	struct link **l_p)
{
	struct stub *s;

	if (theirs->bytes[0] % ENDS == END_NONE)
		return -ECONNREFUSED;
	stub_new(&full_ops, l_p);
	s = (struct stub *)*l_p;
	s->end = theirs->bytes[0] % ENDS;
	s->n_marks = theirs->bytes[1] % 3;
	memcpy(s->marks, theirs->bytes + 2, sizeof(s->marks));
	stub_end(*l_p, mine_p);
	return 0;
}

static const char *const plain_kinds[] = {"plain", NULL}, *const full_kinds[] = {"full", NULL};
static const struct transport plain = {.rails = "plain",
	.kinds = plain_kinds,
	.spares = true,
	.stall_ns = SCHED_NEVER,
	.at_once = LEN / 8,
	.close = port_free,
	.link = plain_new};
static const struct transport full = {.rails = "full",
	.kinds = full_kinds,
	.marks = true,
	.bars = true,
	.blames = true,
	.close = port_free,
	.link = full_new,
	.accept = full_accept};
const struct transport *const transports[] = {&plain, &full, NULL};

/* ---- the peers ---- */

static int new_pair(int i)
{
	int pair[2];

	must(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair));
	it.fds[i] = pair[1];
	return pair[0];
}

int __wrap_tcp_take(int listener, int *fd_p)
{
	if (it.scarce && it.takes++ % 3 == 0)
		return -EMFILE;
	for (int i = 0; i < PEERS; i++) {
		if (it.coming[i] < 0)
			continue;
		*fd_p = it.coming[i];
		it.coming[i] = -1;
		return 0;
	}
	return -EAGAIN;
}

int __wrap_tcp_connect(const char *host, uint16_t port, bool patient, uint64_t limit_ns, int *fd_p)
{
	*fd_p = new_pair(0);
	return 0;
}

/* Sends a message. The input has a few bytes of it; the others are 0. The engine's key is 0. */
static void send_message(struct input *in, int fd)
{
	struct ctl_msg m = {.magic = CTL_MAGIC,
		.type = (uint16_t)take(in, 1),
		.status = (uint16_t)take(in, 1),
		.pair = (uint32_t)(int8_t)take(in, 1),
		.rail = (uint32_t)(int8_t)take(in, 1),
		.epoch = (uint32_t)(int8_t)take(in, 1)};
	size_t n = take(in, 1) % (CTL_TEXT + 1);

	n = n < input_left(in) ? n : input_left(in);
	memcpy(m.text, in->at, n);
	in->at += n;
	if (fd >= 0)
		send(fd, &m, sizeof(m), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/*
 * Checks the types of the engine's messages. A peer that the engine has not let in gets only
 * WELCOME.
 */
static void hear(int i)
{
	const uint32_t initiator = 1u << CTL_HELLO | 1u << CTL_MORE | 1u << CTL_CONNECT |
				   1u << CTL_FENCE | 1u << CTL_NOTICE | 1u << CTL_UNREGISTERED |
				   1u << CTL_STAGE | 1u << CTL_SKIP;
	const uint32_t any = (1u << (CTL_SKIP + 1)) - 2;
	struct ctl_msg m;

	while (it.fds[i] >= 0 && recv(it.fds[i], &m, sizeof(m), MSG_DONTWAIT) == sizeof(m)) {
		must(m.magic == CTL_MAGIC && m.type <= CTL_SKIP);
		must((it.target ? any & ~initiator : initiator) >> m.type & 1);
		it.welcome[i] |= m.type == CTL_WELCOME && !m.status;
		must(!it.target || it.welcome[i] || m.type == CTL_WELCOME);
	}
}

static void part(int i)
{
	if (it.fds[i] >= 0)
		close(it.fds[i]);
	it.fds[i] = -1;
}

/* ---- the engine's program ---- */

static void submit(struct input *in)
{
	uint8_t what = (uint8_t)take(in, 1);
	uint64_t from = take(in, 2) % LEN, len = take(in, 2) % (LEN + 1);
	const struct tent_request r = {.op = what & 1 ? TENT_READ : TENT_WRITE,
		.local = memory + from,
		.segment = it.s,
		.remote = ADDR + (what & 2 ? LEN : 0) + from,
		.len = len,
		.notify = what & 4 ? 7 : 0,
		.note = memory,
		.note_len = what >> 3 & 7};

	if (it.batch && tent_batch_free(it.batch)) {
		tent_cancel(it.batch);
		return;
	}
	it.batch = NULL;
	if (it.s)
		tent_submit(it.t, &r, 1, &it.batch);
}

static void take_notices(void)
{
	struct tent_note note;

	while (!tent_note_take(it.t, &note, sizeof(note)))
		must(note.len <= TENT_NOTE_MAX);
}

static void look(void)
{
	struct tent_remote r;
	uint64_t end = 0;

	for (uint32_t i = 0; it.s && !tent_segment_remote(it.s, i, &r, sizeof(r)); i++) {
		must(r.len && r.addr >= end);
		end = r.addr + r.len;
	}
	must(!it.s || !tent_segment_await(it.s, it.s->growth.version, 0));
	must(tent_version(it.t) >= it.t->n_by_id);
}

static void program(struct input *in)
{
	struct tent *t = it.t;
	uint8_t what = (uint8_t)take(in, 1);

	switch (what % 4) {
	case 0:
		tent_register(t, memory, LEN, NULL, NULL);
		break;
	case 1:
		tent_unregister(t, memory);
		break;
	case 2:
		for (struct tent_segment *s = t->segments; s; s = s->next)
			move_port(s, fuzz_peer.ns, true, what >> 3 & 1, what & 4);
		serve_port(t, what >> 3 & 1, what & 4);
		break;
	default:
		look();
		take_notices();
		submit(in);
	}
}

static bool progress(struct tent *t, uint64_t now, bool all)
{
	bool some = serve_progress(t, now);

	for (struct tent_segment *s = t->segments; s; s = s->next)
		some |= move_progress(s, now, true);
	must(t->notice_tail - t->notice_head <= NOTICE_RING);
	return some;
}

/* A step is a byte (kind | 4 * peer | 8 to close the peer's socket at the end | 16 * time) and, by
 * its kind, bytes that the peer sends, a message, or an action of the engine's program. */
static void do_step(struct input *in)
{
	uint8_t what = (uint8_t)take(in, 1);
	int i = what >> 2 & 1;

	fuzz_peer.ns += (what >> 4) * 10ull * NSEC_PER_MSEC;
	if (what % 4 == 0)
		fuzz_send(it.fds[i], take(in, 1) % 65);
	else if (what % 4 < 3)
		send_message(in, it.fds[i]);
	else
		program(in);
	if (what & 8)
		part(i);
}

static void run(void)
{
	pthread_mutex_lock(&it.t->lock);
	progress(it.t, fuzz_peer.ns, true);
	pthread_mutex_unlock(&it.t->lock);
	for (int i = 0; i < PEERS; i++)
		hear(i);
}

/* While the program waits, does the next step of the input and the engine's work. */
int fuzz_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until)
{
	if (!input_left(&fuzz_peer.in))
		return ETIMEDOUT;
	pthread_mutex_unlock(mutex);
	do_step(&fuzz_peer.in);
	run();
	pthread_mutex_lock(mutex);
	return 0;
}

/* ---- one input ---- */

static struct tent *engine(const struct transport *tr)
{
	struct tent *t = calloc(1, sizeof(*t));

	must(t && !slab_init(&t->importer_ids, MAX_IMPORTERS) && !slab_init(&t->task_ids, 16));
	must(!slab_init(&t->chunk_ids, STAGE_CHUNKS));
	t->tasks = calloc(16 + STAGE_CHUNKS, sizeof(*t->tasks));
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->ended, NULL);
	t->progress = progress;
	t->epoll = t->kick = t->listener = -1;
	t->ctls = epoll_create1(EPOLL_CLOEXEC);
	must(t->ctls >= 0);
	t->conns_due = SCHED_NEVER;
	config_init(&t->config);
	topo_init(&t->topo);
	t->transport = tr;
	t->part_len = 4096;
	t->no_rail_ns = NSEC_PER_SEC;
	for (uint32_t i = 0; i < 2; i++) {
		char name[] = {'r', (char)('0' + i), 0};

		must(!topo_add_rail(&t->topo, name, NULL) &&
			!port_new(*tr->kinds, name, &t->ports[i]));
		t->ports[i]->transport = tr;
		t->rails[i] = t->ports[i]->id;
		t->gbps[i] = 100;
		t->n_ports++;
	}
	return t;
}

static void engine_end(struct tent *t)
{
	if (it.batch)
		must(!tent_batch_free(it.batch));
	if (it.s)
		must(!tent_release(it.s));
	must(!t->batches && !t->task_ids.used && !t->chunk_ids.used && !t->n_conns &&
		!t->importer_ids.used);
	buffers_free(t);
	for (uint32_t i = 0; i < t->n_ports; i++)
		port_free(t->ports[i]);
	close(t->notice_fd);
	close(t->ctls);
	slab_fini(&t->importer_ids);
	slab_fini(&t->task_ids);
	slab_fini(&t->chunk_ids);
	free(t->tasks);
	pthread_cond_destroy(&t->ended);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

/* The description of a segment with two buffers, the second one of which is staged. */
static char *description(struct tent *t)
{
	struct desc_buffer b[] = {{.addr = ADDR,
					  .len = LEN,
					  .part_len = 4096,
					  .n_parts = 2,
					  .id = 1,
					  .location = "*"},
		{.addr = ADDR + LEN,
			.len = LEN,
			.part_len = LEN,
			.n_parts = 1,
			.id = 2,
			.staged = true,
			.location = "*"},
		{.addr = ADDR + 2 * LEN,
			.len = 2 * STAGE_SLOT_LEN,
			.part_len = STAGE_SLOT_LEN,
			.n_parts = 2,
			.id = 3,
			.location = "*"}};
	struct desc d = {.host = "h",
		.port = 1,
		.boot = "b",
		.pid = 1,
		.n_rails = 2,
		.n_buffers = 2,
		.stage = &b[2],
		.buffers = (struct desc_buffer *[]){&b[0], &b[1]}};
	char *text;

	memcpy(d.rails, t->rails, sizeof(d.rails));
	must(!desc_write(&d, &text));
	return text;
}

static void import(struct tent *t)
{
	struct tent_why why = {""};
	char *text = description(t);

	if (tent_import(t, text, &why, &it.s)) {
		must(why.text[0]);
		it.s = NULL;
	}
	free(text);
}

static void start(const uint8_t *data, size_t size, uint8_t what)
{
	uint32_t notices = what & 8 ? NOTICE_RING - 1 : what & 4 ? NOTICES - 2 : 0;

	fuzz_peer.in = (struct input){data, data + size};
	fuzz_peer.ns = NSEC_PER_SEC;
	fuzz_peer.step = do_step;
	memset(&it, 0, sizeof(it));
	for (int i = 0; i < PEERS; i++)
		it.fds[i] = it.coming[i] = -1;
	it.target = !(what & 1);
	it.scarce = what & 16;
	it.t = engine(what & 2 ? &full : &plain);
	it.t->notice_fd = eventfd(notices, EFD_NONBLOCK | EFD_SEMAPHORE);
	it.t->notice_tail = notices;
	must(!tent_register(it.t, memory, LEN, NULL, NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t what = size ? data[0] : 0;

	start(data + !!size, size - !!size, what);
	if (!it.target)
		import(it.t);
	for (int i = 0; i < PEERS && it.target; i++)
		it.coming[i] = new_pair(i);
	while (input_left(&fuzz_peer.in)) {
		run();
		do_step(&fuzz_peer.in);
	}
	run();
	for (int i = 0; i < PEERS; i++)
		part(i);
	/* Once there is room for notices, all requests end within their time limits. */
	for (int i = 0; i < 8; i++) {
		fuzz_peer.ns += 5 * NSEC_PER_SEC;
		take_notices();
		run();
	}
	must(!it.s || (it.s->lost && !it.s->open));
	engine_end(it.t);
	return 0;
}
