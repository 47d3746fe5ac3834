/* SPDX-License-Identifier: MIT */
#include "costs.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>

#include "base/rand.h"
#include "support/test.h"
#include "client.h"
#include "daemon.h"
#include "tasks.h"

#define ADAPTER_LOOK_NS 25 /* time between two steps of the adapters */
#define COLLECTS 8 /* from this depth on delegrpc may delay replies, see delegrpc.h */
#define CLIENT_LOOK_NS (100 * NSEC_PER_USEC) /* time between polls of a client that is not woken */

static struct {
	struct machine m;
	uint32_t clients, sq_depth;
	uint64_t single_until_ns, random;
	uint64_t answered
		[COSTS_RANKS]; /* a bit for each client that the daemon has answered in this loop */
	/* By rank: calls of other ranks that this loop has served, and the last loop has left. */
	uint32_t served[COSTS_RANKS], left[COSTS_RANKS];
	uint64_t loops_left; /* number of loops that left calls */
	bool stop;
} costs;

void costs_begin_job(const struct machine *m, uint32_t clients, uint32_t sq_depth)
{
	CHECK(clients <= COSTS_CLIENTS);
	memset(&costs, 0, sizeof(costs));
	costs.m = *m;
	costs.clients = clients;
	costs.sq_depth = sq_depth;
}

void costs_begin_run(uint64_t single_until_ns)
{
	costs.single_until_ns = single_until_ns;
	costs.random = 1;
}

static void spend(double ns)
{
	task_spend((uint64_t)ns);
}

/* ---- the adapters ---- */

void *costs_adapters(void *arg)
{
	int (*step)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "softhca_step");

	CHECK(step);
	while (!costs.stop) {
		int n = step();

		CHECK(n >= 0 || n == -ENODEV); /* no rank has opened its device yet */
		task_spend(ADAPTER_LOOK_NS);
	}
	return NULL;
}

void costs_stop_adapters(void)
{
	costs.stop = true;
}

/* ---- clients ---- */

__typeof__(sched_yield) __wrap_sched_yield;
__typeof__(nanosleep) __wrap_nanosleep;
__typeof__(delegrpc_client_wait) __wrap_delegrpc_client_wait;
__typeof__(shmipc_client_wait) __wrap_shmipc_client_wait;
__typeof__(check_open) __real_check_open, __wrap_check_open;

/* A client polls without a pause; instead of polls that find nothing, its task rests. */
static bool client_rests(void)
{
	if (task_body() != client_main)
		return false;
	task_rest(CLIENT_LOOK_NS);
	return true;
}

int __wrap_sched_yield(void)
{
	client_rests();
	return 0;
}

int __wrap_nanosleep(const struct timespec *ns, struct timespec *left)
{
	if (!client_rests())
		task_spend((uint64_t)ns->tv_sec * NSEC_PER_SEC + (uint64_t)ns->tv_nsec);
	return 0;
}

int __wrap_delegrpc_client_wait(struct delegrpc_client *c, uint64_t timeout_ns)
{
	client_rests();
	return 0;
}

int __wrap_shmipc_client_wait(struct shmipc_client *c, uint64_t timeout_ns)
{
	client_rests();
	return 0;
}

const struct op *__wrap_check_open(struct checker *c, uint64_t i, uint64_t now_ns,
	struct kv_req *req)
{
	spend(costs.m.client_ns);
	return __real_check_open(c, i, now_ns, req);
}

/* ---- replies ---- */

__typeof__(daemon_answer) __real_daemon_answer, __wrap_daemon_answer;

static struct task *task_of(const struct daemon *d, uint32_t client)
{
	return (struct task *)(uintptr_t)d->node->clients[client].thread;
}

/*
 * The client sees a reply after reply_ns, and the daemon sees the next request half of that time
 * later. Both times are added here.
 */
static void wake_client(const struct daemon *d, uint32_t client)
{
	double ns = 1.5 * costs.m.reply_ns + rand_unit(&costs.random) * costs.m.reply_jitter_ns;

	task_wake(task_of(d, client), task_now() + (uint64_t)ns);
}

void __wrap_daemon_answer(struct daemon *d, const struct asker *who, const struct kv_resp *resp)
{
	uint32_t client = resp->origin % costs.clients;

	__real_daemon_answer(d, who, resp);
	costs.answered[d->node->rank] |= 1ull << client;
	wake_client(d, client);
}

/* ---- a daemon's work ---- */

__typeof__(store_serve) __real_store_serve, __wrap_store_serve;
__typeof__(errand_arrived) __real_errand_arrived, __wrap_errand_arrived;
__typeof__(network_call) __real_network_call, __wrap_network_call;
__typeof__(network_observe) __real_network_observe, __wrap_network_observe;

struct kv_resp __wrap_store_serve(struct store *s, const struct kv_req *req)
{
	const struct daemon *d = task_arg();
	bool local = req->origin / costs.clients == d->node->rank;

	spend(local ? costs.m.local_ns : costs.m.incoming_ns);
	costs.served[d->node->rank] += !local;
	return __real_store_serve(s, req);
}

void __wrap_errand_arrived(struct daemon *d, uint32_t index)
{
	spend(costs.m.response_ns);
	__real_errand_arrived(d, index);
}

int __wrap_network_call(struct daemon *d, const struct kv_req *req, uint32_t token)
{
	int err = __real_network_call(d, req, token);

	if (!err)
		spend(costs.m.request_ns);
	return err;
}

/*
 * Checks that the loop has served all calls, or as many as the control allows. Calls that the last
 * loop has left must not be left again.
 */
static void check_served(const struct daemon *d)
{
	uint32_t *left = &costs.left[d->node->rank], *served = &costs.served[d->node->rank];
	uint32_t most = control_serves(&d->net.control, *left);
	uint32_t arrived = *left + d->net.polls.messages - d->net.polls.responses;

	CHECK_EQ(*served, arrived < most ? arrived : most);
	*left = arrived - *served;
	*served = 0;
	costs.loops_left += *left != 0;
}

uint64_t costs_loops_left(void)
{
	return costs.loops_left;
}

/* The end of a loop. delegrpc has now published delayed replies, so their clients poll again. */
void __wrap_network_observe(struct daemon *d)
{
	spend(costs.m.loop_ns * (1 + (2 * rand_unit(&costs.random) - 1) * costs.m.loop_jitter));
	__real_network_observe(d);
	check_served(d);
	if (d->node->o->queue_depth < COLLECTS)
		return;
	for (uint64_t *bits = &costs.answered[d->node->rank]; *bits; *bits &= *bits - 1)
		wake_client(d, (uint32_t)__builtin_ctzll(*bits));
}

/* ---- the network ---- */

__typeof__(copyrpc_ctx_create) __real_copyrpc_ctx_create, __wrap_copyrpc_ctx_create;
__typeof__(copyrpc_poll_recv) __real_copyrpc_poll_recv, __wrap_copyrpc_poll_recv;
__typeof__(copyrpc_flush_if) __real_copyrpc_flush_if, __wrap_copyrpc_flush_if;
__typeof__(copyrpc_flush) __wrap_copyrpc_flush;
__typeof__(copyrpc_call) __real_copyrpc_call, __wrap_copyrpc_call;
__typeof__(copyrpc_reply) __real_copyrpc_reply, __wrap_copyrpc_reply;

int __wrap_copyrpc_poll_recv(struct copyrpc_ctx *ctx, copyrpc_response_fn *fn, void *arg)
{
	const struct daemon *d = arg;
	uint64_t before = network_completions(&d->net);
	int n;

	if (d->net.polls.polls)
		spend(control_observes(&d->net.control) ? costs.m.repoll_ns : costs.m.poll_ns);
	n = __real_copyrpc_poll_recv(ctx, fn, arg);
	spend(costs.m.cqe_ns * (double)(network_completions(&d->net) - before));
	return n;
}

struct asked {
	copyrpc_flush_fn *go;
	void *arg;
};

static bool ask(void *arg, struct copyrpc_ep *ep)
{
	const struct asked *a = arg;

	if (a->go && !a->go(a->arg, ep))
		return false;
	spend(costs.m.write_ns);
	return true;
}

int __wrap_copyrpc_flush_if(struct copyrpc_ctx *ctx, copyrpc_flush_fn *go, void *arg)
{
	return __real_copyrpc_flush_if(ctx, ask, &(struct asked){go, arg});
}

int __wrap_copyrpc_flush(struct copyrpc_ctx *ctx)
{
	return __wrap_copyrpc_flush_if(ctx, NULL, NULL);
}

/* In the initial state "low", sends a message in a WRITE of its own. */
static void send_single(void)
{
	const struct daemon *d = task_arg();

	if (task_now() < costs.single_until_ns)
		__wrap_copyrpc_flush(d->net.ctx);
}

int __wrap_copyrpc_call(struct copyrpc_ep *ep, const void *req, uint32_t len, uint32_t resp_max,
	uint64_t token)
{
	int err = __real_copyrpc_call(ep, req, len, resp_max, token);

	send_single();
	return err;
}

int __wrap_copyrpc_reply(struct copyrpc_req *req, const void *data, uint32_t len)
{
	int err = __real_copyrpc_reply(req, data, len);

	send_single();
	return err;
}

/* Tasks are not pinned. */
void topo_pin_self(const struct topo *t, uint32_t thread)
{
}

/* Sets the depth of the send queues, because those of the simulator are unlimited. */
int __wrap_copyrpc_ctx_create(const struct copyrpc_ctx_attr *attr, struct copyrpc_ctx **ctx_p)
{
	struct copyrpc_ctx_attr with_depth = *attr;

	with_depth.sq_depth = costs.sq_depth;
	return __real_copyrpc_ctx_create(&with_depth, ctx_p);
}
