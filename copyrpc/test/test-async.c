/* SPDX-License-Identifier: MIT */
/*
 * Asynchronous events of the device. meson.build sets the faults: the first attempt of a raw WRITE
 * takes the link down, its second attempt brings the link up again, and a raw READ makes the device
 * fail.
 */
#include <dlfcn.h>
#include <infiniband/verbs.h>

#include "timed.h"

static uint64_t word[2] = {4711};

/*
 * The functions below replace those of libibverbs. The next reader of events gets, once, the event
 * `made_up`.
 */
static int made_up = -1; /* enum ibv_event_type; -1: none */
static bool is_made_up;
static struct ibv_context *asked; /* device whose events were read last */

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	static int (*real)(struct ibv_context *, struct ibv_async_event *);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "ibv_get_async_event");
	is_made_up = made_up >= 0;
	asked = context;
	if (!is_made_up)
		return real(context, event);
	*event = (struct ibv_async_event){.event_type = (enum ibv_event_type)made_up};
	event->element.port_num = 1;
	made_up = -1;
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	static void (*real)(struct ibv_async_event *);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "ibv_ack_async_event");
	if (!is_made_up)
		real(event);
}

/* If not 0, the port's LID that the device reports. */
static uint16_t moved_to;
static int (*query_port)(struct ibv_context *, uint8_t, struct ibv_port_attr *, size_t);

static int query_moved_port(struct ibv_context *context, uint8_t port_num,
	struct ibv_port_attr *port_attr, size_t port_attr_len)
{
	int r = query_port(context, port_num, port_attr, port_attr_len);

	if (!r && moved_to)
		port_attr->lid = moved_to;
	return r;
}

/* Replaces the provider's function, which ibv_query_port() calls. */
static void replace_query_port(struct ibv_context *context)
{
	struct verbs_context *v = verbs_get_ctx_op(context, query_port);

	CHECK(v);
	query_port = v->query_port;
	v->query_port = query_moved_port;
}

static void settle(struct pair *p, struct heard *h)
{
	for (int i = 0; i < 2; i++) {
		stop_clock(p->ctx[i]);
		copyrpc_poll(p->ctx[i], hear, h);
	}
}

/* The event is reported once; pending operations complete when the port is active again. */
static void a_port_goes_down_and_up(struct pair *p, uint32_t lkey, uint32_t rkey, struct heard *h)
{
	struct copyrpc_raw_done done;

	CHECK_EQ(copyrpc_ctx_arm(p->ctx[1]), 0);
	CHECK_EQ(copyrpc_write(p->ep[0], &word[0], lkey, (uintptr_t)&word[1], rkey, 8, 1), 0);
	CHECK_EQ(readable(p->ctx[1], 0), 1); /* a sleeper wakes up although no message was sent to
					     it */
	copyrpc_poll(p->ctx[1], hear, h);
	CHECK_EQ(ctx_stats_of(p->ctx[1]).port_downs, 1);
	while (!copyrpc_raw_recv(p->ctx[0], &done))
		copyrpc_poll(p->ctx[0], hear, h);
	CHECK_EQ(done.status, 0);
	CHECK_EQ(word[1], 4711);
	/* No context is armed here: the event is found at the next periodic check. */
	CHECK_EQ(ctx_stats_of(p->ctx[0]).port_downs, 0);
	now += 100 * NSEC_PER_MSEC;
	copyrpc_poll(p->ctx[0], hear, h);
	CHECK_EQ(ctx_stats_of(p->ctx[0]).port_downs, 1);
	CHECK_EQ(copyrpc_ep_status(p->ep[0]), 0);
	CHECK_EQ(copyrpc_ep_status(p->ep[1]), 0);
}

static void everything_ends_with_the_device(struct pair *p, uint32_t lkey, uint32_t rkey,
	struct heard *h)
{
	struct copyrpc_ep *ep;

	CHECK_EQ(copyrpc_call(p->ep[1], "x", 1, 1, 0), 0);
	copyrpc_poll(p->ctx[1], hear, h);
	CHECK_EQ(copyrpc_read(p->ep[0], &word[1], lkey, (uintptr_t)&word[0], rkey, 8, 1), 0);
	CHECK_EQ(h->failed, 0);
	now += 100 * NSEC_PER_MSEC;
	for (int i = 0; i < 2; i++) {
		copyrpc_poll(p->ctx[i], hear, h);
		CHECK_EQ(copyrpc_ep_status(p->ep[i]), -EIO);
		CHECK_EQ(copyrpc_ep_create(p->ctx[i], NULL, &ep), -EIO);
	}
	CHECK_EQ(h->failed, 1);
	CHECK_EQ(h->status, -EIO);
}

TEST(device_events)
{
	struct copyrpc_ctx_attr attr = {.ring_size = COPYRPC_RING_MIN};
	struct copyrpc_mr ours, theirs;
	struct heard h = {0};
	PAIR p = pair_open(&attr);

	CHECK_EQ(copyrpc_mr_reg(p.ctx[0], word, sizeof(word), 0, &ours), 0);
	CHECK_EQ(copyrpc_mr_reg(p.ctx[1], word, sizeof(word),
			 COPYRPC_REMOTE_READ | COPYRPC_REMOTE_WRITE, &theirs),
		0);
	settle(&p, &h);
	a_port_goes_down_and_up(&p, ours.lkey, theirs.rkey, &h);
	everything_ends_with_the_device(&p, ours.lkey, theirs.rkey, &h);
	copyrpc_mr_dereg(&ours);
	copyrpc_mr_dereg(&theirs);
}

/* Checks the status of an endpoint after an event, and whether another endpoint can be created. */
static void after_event(int type, int status)
{
	struct copyrpc_ctx_attr attr = {.ring_size = COPYRPC_RING_MIN};
	struct heard h = {0};
	struct copyrpc_ep *ep;
	PAIR p = pair_open(&attr);

	settle(&p, &h);
	CHECK_EQ(copyrpc_call(p.ep[0], "x", 1, 1, 0), 0);
	copyrpc_poll(p.ctx[0], hear, &h);
	now += 100 * NSEC_PER_MSEC;
	made_up = type;
	copyrpc_poll(p.ctx[0], hear, &h);
	CHECK_EQ(made_up, -1);
	CHECK_EQ(copyrpc_ep_status(p.ep[0]), status);
	CHECK_EQ(h.failed, !!status);
	CHECK_EQ(copyrpc_ep_status(p.ep[1]), 0); /* it belongs to another context */
	CHECK_EQ(copyrpc_ep_create(p.ctx[0], NULL, &ep), status);
}

/* A sleeping server must wake up, although the destruction of an endpoint has already read the
 * event. */
TEST(a_sleeper_hears_what_a_destruction_has_read)
{
	struct copyrpc_ctx_attr attr = {.ring_size = COPYRPC_RING_MIN};
	struct copyrpc_ep *more[2];
	struct heard h = {0};
	PAIR p = pair_open(&attr);

	join(p.ctx[0], p.ctx[1], more);
	settle(&p, &h);
	CHECK_EQ(readable(p.ctx[0], 0), 0);
	made_up = IBV_EVENT_DEVICE_FATAL;
	copyrpc_ep_destroy(more[0]);
	CHECK_EQ(made_up, -1);
	copyrpc_poll(p.ctx[0], hear, &h);
	CHECK_EQ(copyrpc_ep_status(p.ep[0]), 0);
	if (!copyrpc_ctx_arm(p.ctx[0]))
		CHECK_EQ(readable(p.ctx[0], 0), 1);
	copyrpc_poll(p.ctx[0], hear, &h);
	CHECK_EQ(copyrpc_ep_status(p.ep[0]), -EIO);
	CHECK_EQ(copyrpc_ctx_arm(p.ctx[0]), 0);
	CHECK_EQ(readable(p.ctx[0], 0), 0);
}

TEST(failed_queues)
{
	after_event(IBV_EVENT_CQ_ERR, -EIO);
	after_event(IBV_EVENT_SRQ_ERR, -EIO);
}

/* No endpoint fails, and new ones can be created. */
TEST(changed_addresses)
{
	after_event(IBV_EVENT_LID_CHANGE, 0);
	after_event(IBV_EVENT_GID_CHANGE, 0);
	after_event(IBV_EVENT_PKEY_CHANGE, 0);
}

static uint16_t lid_of(const struct copyrpc_ep *ep)
{
	uint8_t blob[COPYRPC_INFO_SIZE];

	copyrpc_ep_info(ep, blob);
	return (uint16_t)(blob[20] | blob[21] << 8); /* see copyrpc.h */
}

/* The subnet manager assigns another LID to the port: endpoints created afterwards use it. */
TEST(a_new_lid)
{
	struct copyrpc_ctx_attr attr = {.ring_size = COPYRPC_RING_MIN};
	struct copyrpc_ep *before, *after;
	struct heard h = {0};
	PAIR p = pair_open(&attr);
	uint16_t lid;

	settle(&p, &h);
	lid = lid_of(p.ep[0]);
	CHECK(lid != 0);
	now += 100 * NSEC_PER_MSEC;
	copyrpc_poll(p.ctx[0], hear, &h); /* reads the events, which sets `asked` */
	replace_query_port(asked);
	moved_to = lid + 100;
	CHECK_EQ(copyrpc_ep_create(p.ctx[0], NULL, &before), 0);
	CHECK_EQ(lid_of(before), lid); /* the event was not reported yet */
	now += 100 * NSEC_PER_MSEC;
	made_up = IBV_EVENT_LID_CHANGE;
	copyrpc_poll(p.ctx[0], hear, &h);
	CHECK_EQ(made_up, -1);
	CHECK_EQ(copyrpc_ep_create(p.ctx[0], NULL, &after), 0);
	CHECK_EQ(lid_of(after), lid + 100);
	CHECK_EQ(copyrpc_ep_status(p.ep[0]), 0);
	moved_to = 0;
}
