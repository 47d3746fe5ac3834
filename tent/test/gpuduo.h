/* SPDX-License-Identifier: MIT */
/*
 * Two processes with memory of a GPU or of the host: a child that registers its memory, and the
 * test, which reads and writes it. Only the driver reaches the memory of a GPU, so the child itself
 * fills and compares its memory.
 *
 * TENT_RAILS=gpu:N, shm:N or tcp:N: N rails of this kind; mix:N: the adapters and N rails over TCP;
 * otherwise the adapters.
 */
#ifndef TENT_TEST_GPUDUO_H
#define TENT_TEST_GPUDUO_H

#include "duopipe.h"
#include "gputest.h"

enum place {
	ON_GPU,
	IN_POOL, /* memory of a GPU that has no handle */
	ALLOCATED, /* from tent_alloc() */
	ON_HOST,
};

struct part;

struct duo_attr {
	size_t len; /* of the memory of each side */
	size_t before; /* bytes of the allocation before the registered memory */
	enum place mine, theirs;
	bool no_import;
	int rail_wait_ms; /* of the test's side */
	uint64_t parts; /* max_registration of both sides; 0: the default */
	/* The child calls this function for EXCHANGE, with the address of the test's memory. */
	void (*exchange)(const struct part *mine, struct tent *t, const char *text, uint64_t there,
		uint32_t i);
};

/* One side's memory. */
struct part {
	enum place place;
	uint64_t base, at; /* at: base + before */
	size_t len;
};

static struct {
	struct tent *t;
	struct tent_segment *s;
	struct part mine;
	uint64_t at; /* of the child's memory, in the child */
	char *text; /* the child's description */
	pid_t child;
	int fd;
} d;

/* ---- memory ---- */

/* Returns pseudorandom bytes that depend on @seed only. The caller must free them. */
static inline uint8_t *duo_bytes(uint64_t seed, size_t len)
{
	uint64_t *bytes = malloc(len + 8);

	CHECK(bytes);
	for (size_t i = 0; i < len / 8 + 1; i++)
		bytes[i] = test_rand(&seed);
	return (uint8_t *)bytes;
}

static inline void part_fill(const struct part *p, size_t at, size_t len, uint64_t seed)
{
	uint8_t *bytes = duo_bytes(seed, len);

	CHECK(at + len <= p->len);
	gpu_write(p->at + at, bytes, len);
	free(bytes);
}

static inline bool part_has(const struct part *p, size_t at, size_t len, uint64_t seed)
{
	uint8_t *bytes = duo_bytes(seed, len), *has = malloc(len);
	bool same;

	CHECK(has && at + len <= p->len);
	gpu_read(has, p->at + at, len);
	same = !memcmp(has, bytes, len);
	free(bytes);
	free(has);
	return same;
}

static inline uint64_t duo_sum(const uint8_t *bytes, size_t len)
{
	uint64_t sum = len;

	for (size_t i = 0; i < len; i += 8) {
		uint64_t word = 0;

		memcpy(&word, bytes + i, len - i < 8 ? len - i : 8);
		sum = (sum ^ word) * 1099511628211ull;
	}
	return sum;
}

static inline uint64_t part_sum(const struct part *p, size_t at, size_t len)
{
	uint8_t *has = malloc(len);
	uint64_t sum;

	CHECK(has && at + len <= p->len);
	gpu_read(has, p->at + at, len);
	sum = duo_sum(has, len);
	free(has);
	return sum;
}

/* Makes memory and registers it with the engine. */
static inline struct part part_new(struct tent *t, enum place place, size_t before, size_t len)
{
	struct part p = {.place = place, .len = len};
	struct tent_why why = {""};
	void *m = NULL;

	if (place == ON_GPU)
		p.base = gpu_alloc(before + len);
	else if (place == IN_POOL)
		CHECK_EQ(gpu.cuMemAllocAsync(&p.base, before + len, NULL), 0);
	else if (place == ALLOCATED)
		CHECK_EQ(tent_alloc(t, before + len, NULL, NULL, &m), 0);
	else
		CHECK(!posix_memalign(&m, 4096, before + len + 4096));
	p.base = m ? (uintptr_t)m : p.base;
	p.at = p.base + before;
	if (place != ALLOCATED && tent_register(t, (void *)(uintptr_t)p.at, len, NULL, &why)) {
		fprintf(stderr, "%s\n", why.text);
		exit(1);
	}
	return p;
}

/* Ends the registration, and frees the memory. */
static inline void part_free(struct tent *t, const struct part *p)
{
	void *registered = (void *)(uintptr_t)(p->place == ALLOCATED ? p->base : p->at);

	CHECK_EQ(tent_unregister(t, registered), 0);
	if (p->place <= IN_POOL)
		CHECK_EQ(gpu.cu.mem_free(p->base), 0);
	else if (p->place == ON_HOST)
		free((void *)(uintptr_t)p->base);
}

/* ---- engines ---- */

static inline struct tent *duo_create(int rail_wait_ms, uint64_t parts)
{
	return duo_engine((struct tent_attr){
		.max_registration = parts,
		.rail_wait_ms = rail_wait_ms,
	});
}

/* ---- the child ---- */

enum what { FILL, HAS, SUM, UNREGISTER, NOTICE, FAIL_COPY, HEAL, EXCHANGE, END };

struct command {
	enum what what;
	uint64_t at, len,
		seed; /* FAIL_COPY: seed: the error; at: copies before the one that fails */
};

static inline uint64_t duo_obey(const struct duo_attr *a, struct tent *t, const struct part *p,
	const struct command *c, int fd)
{
	uint16_t none;
	char *text;

	/*
	 * tent_notice() takes the engine's lock, which shows ThreadSanitizer that the engine has
	 * ended its copies.
	 */
	if (c->what <= SUM)
		CHECK_EQ(tent_notice(t, &none), -EAGAIN);
	switch (c->what) {
	case FILL:
		part_fill(p, c->at, c->len, c->seed);
		return 0;
	case HAS:
		return part_has(p, c->at, c->len, c->seed);
	case SUM:
		return part_sum(p, c->at, c->len);
	case UNREGISTER:
		part_free(t, p);
		return 0;
	case NOTICE:
		return duo_take_notice(t);
	case FAIL_COPY:
		gpu.softgpu_fail_copy(1 + (unsigned)c->at, (int)c->seed);
		return 0;
	case HEAL:
		gpu.softgpu_fail_copy(0, 0);
		gpu.softgpu_heal();
		return 0;
	case EXCHANGE: /* the description of the test's engine follows */
		text = duo_read_text(fd);
		a->exchange(p, t, text, c->at, 1);
		free(text);
		return 0;
	case END:
		tent_destroy(t);
		return gpu.softgpu_registered ? gpu.softgpu_registered() : 0;
	}
	return 1;
}

static inline void duo_child(const struct duo_attr *a, int fd)
{
	struct command c = {.what = FILL};
	struct part p;
	struct tent *t;

	gpu_open();
	t = duo_create(0, a->parts);
	p = part_new(t, a->theirs, a->before, a->len);
	duo_write(fd, &p.at, sizeof(p.at));
	duo_write_text(fd, t);
	while (c.what != END) {
		uint64_t reply;

		duo_read(fd, &c, sizeof(c));
		reply = duo_obey(a, t, &p, &c, fd);
		duo_write(fd, &reply, sizeof(reply));
	}
	exit(0);
}

static inline void duo_tell(enum what what, uint64_t at, uint64_t len, uint64_t seed)
{
	const struct command c = {what, at, len, seed};

	duo_write(d.fd, &c, sizeof(c));
}

static inline uint64_t duo_reply(void)
{
	uint64_t reply;

	duo_read(d.fd, &reply, sizeof(reply));
	return reply;
}

static inline uint64_t duo_ask(enum what what, uint64_t at, uint64_t len, uint64_t seed)
{
	duo_tell(what, at, len, seed);
	return duo_reply();
}

/* ---- the test ---- */

/* No handle or host registration of the driver may be left. */
static inline void duo_close(void)
{
	tent_destroy(d.t);
	if (gpu.softgpu_opened) {
		CHECK_EQ(gpu.softgpu_opened(), 0);
		CHECK_EQ(gpu.softgpu_registered(), 0);
	}
	if (d.child) {
		CHECK_EQ(duo_ask(END, 0, 0, 0), 0);
		CHECK_EQ(test_reap(d.child), 0);
	}
	close(d.fd);
	free(d.text);
}

/* Opens both sides, which are closed at the end of the case. */
static inline void duo_open(const struct duo_attr *a)
{
	test_finally(duo_close);
	d.child = duo_fork(&d.fd);
	if (!d.child)
		duo_child(a, d.fd);
	gpu_open();
	d.t = duo_create(a->rail_wait_ms, a->parts);
	d.mine = part_new(d.t, a->mine, a->before, a->len);
	duo_read(d.fd, &d.at, sizeof(d.at));
	d.text = duo_read_text(d.fd);
	if (!a->no_import)
		d.s = duo_import(d.t, d.text);
}

static inline struct tent_request duo_request(enum tent_op op, size_t at, size_t len)
{
	return (struct tent_request){.size = sizeof(struct tent_request),
		.op = op,
		.local = (void *)(uintptr_t)(d.mine.at + at),
		.segment = d.s,
		.remote = d.at + at,
		.len = len};
}

static inline struct tent_batch *duo_start(enum tent_op op, size_t at, size_t len)
{
	const struct tent_request r = duo_request(op, at, len);
	struct tent_batch *b;

	CHECK_EQ(tent_submit(d.t, &r, 1, &b), 0);
	return b;
}

static inline int duo_move(enum tent_op op, size_t at, size_t len)
{
	return duo_end(duo_start(op, at, len));
}

#endif
