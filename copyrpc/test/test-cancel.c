/* SPDX-License-Identifier: MIT */
/* Calls are canceled at each stage. Each call ends once, its response is delivered to no call, and
 * its entry and its credit become free again. */
#include "pair.h"

/* With two pending calls at most, an entry that is lost is noticed soon. */
static const struct copyrpc_ctx_attr small = {.ring_size = 4096, .max_pending = 2};

struct log {
	uint32_t ok, canceled, failed;
	uint64_t last; /* token of the last response */
	uint64_t cancel; /* the callback cancels the call with this token; 0: none */
};

static void on_end(void *arg, struct copyrpc_ep *ep, uint64_t token, int status, const void *data,
	uint32_t len)
{
	struct log *l = arg;

	l->ok += !status;
	l->canceled += status == -ECANCELED;
	l->failed += status && status != -ECANCELED;
	if (!status) {
		CHECK(len == sizeof(token) && !memcmp(data, &token, len));
		l->last = token;
	}
	if (l->cancel) {
		CHECK_EQ(copyrpc_cancel(ep, l->cancel), 0);
		l->cancel = 0;
	}
}

static int call(struct pair *p, uint64_t token, bool timed)
{
	return copyrpc_call_timed(p->ep[0], &token, sizeof(token), sizeof(token), token,
		timed ? 60000 : 0);
}

enum stage { COLLECTED, SENT, ARRIVED, HELD, REPLIED, STAGES };

static void serve(struct pair *p, struct copyrpc_req *req)
{
	CHECK_EQ(copyrpc_reply(req, copyrpc_req_data(req), copyrpc_req_len(req)), 0);
	copyrpc_poll(p->ctx[1], NULL, NULL);
}

/* Brings the latest call to this stage. Returns the request if the server holds it. */
static struct copyrpc_req *proceed(struct pair *p, enum stage stage)
{
	struct copyrpc_req *req = NULL;

	if (stage >= SENT)
		copyrpc_flush(p->ctx[0]);
	if (stage >= ARRIVED)
		copyrpc_poll(p->ctx[1], NULL, NULL);
	if (stage >= HELD)
		CHECK_EQ(copyrpc_recv(p->ctx[1], &req), 1);
	if (stage < REPLIED)
		return req;
	serve(p, req);
	return NULL;
}

static uint32_t pending(const struct pair *p)
{
	struct copyrpc_ep_load load;

	copyrpc_ep_get_load(p->ep[0], &load, sizeof(load));
	return load.pending;
}

static void finish(struct pair *p, struct log *l, struct copyrpc_req *held)
{
	if (held)
		serve(p, held);
	for (int i = 0; i < 4; i++) {
		copyrpc_poll(p->ctx[1], NULL, NULL);
		echo_all(p->ctx[1]);
		copyrpc_poll(p->ctx[0], on_end, l);
	}
}

static void cancel_at(struct pair *p, struct log *l, enum stage stage, bool timed, uint64_t token)
{
	struct copyrpc_req *held;
	uint32_t canceled = l->canceled, ok = l->ok;

	CHECK_EQ(call(p, token, timed), 0);
	held = proceed(p, stage);
	CHECK_EQ(copyrpc_cancel(p->ep[0], token), 0);
	CHECK_EQ(copyrpc_cancel(p->ep[0], token), -ENOENT);
	CHECK_EQ(l->canceled, canceled);
	CHECK_EQ(copyrpc_poll(p->ctx[0], on_end, l), 1);
	CHECK_EQ(l->canceled, canceled + 1);
	CHECK_EQ(pending(p), 0);
	/* The next call gets its own response, whichever comes first. */
	CHECK_EQ(call(p, token + 1, false), 0);
	finish(p, l, held);
	CHECK(l->ok == ok + 1 && l->last == token + 1 && l->canceled == canceled + 1);
	CHECK_EQ(copyrpc_cancel(p->ep[0], token), -ENOENT);
}

/* In a ring of the smallest size, 200 rounds use each id and each byte of credit many times. */
TEST(at_each_stage)
{
	struct log l = {0};
	PAIR p = pair_open(&small);

	for (uint64_t i = 0; i < 200; i++)
		cancel_at(&p, &l, (enum stage)(i % STAGES), i / STAGES % 2, 2 * i + 1);
	CHECK_EQ(l.failed, 0);
}

/* As long as the response is missing, the call counts in max_pending. */
TEST(the_entry_waits_for_the_response)
{
	struct log l = {0};
	PAIR p = pair_open(&small);

	for (uint64_t token = 1; token <= 2; token++) {
		CHECK_EQ(call(&p, token, false), 0);
		CHECK_EQ(copyrpc_cancel(p.ep[0], token), 0);
	}
	copyrpc_poll(p.ctx[0], on_end, &l);
	CHECK_EQ(l.canceled, 2);
	CHECK_EQ(call(&p, 3, false), -EAGAIN);
	finish(&p, &l, NULL);
	CHECK_EQ(call(&p, 3, false), 0);
	finish(&p, &l, NULL);
	CHECK(l.ok == 1 && l.last == 3);
}

/* The responses of both calls are in one batch. The callback of the first cancels the second. */
TEST(inside_a_callback)
{
	struct log l = {.cancel = 2};
	struct copyrpc_stats s;
	PAIR p = pair_open(&small);

	CHECK_EQ(call(&p, 1, false), 0);
	CHECK_EQ(call(&p, 2, false), 0);
	finish(&p, &l, NULL);
	CHECK(l.ok == 1 && l.last == 1 && l.canceled == 1);
	s = ep_stats_of(p.ep[0]);
	CHECK(s.calls == 2 && s.responses == 1 && s.failed_calls == 1);
}

TEST(of_an_endpoint_that_ends)
{
	struct log l = {0};
	PAIR p = pair_open(&small);

	CHECK_EQ(call(&p, 1, false), 0);
	CHECK_EQ(copyrpc_cancel(p.ep[0], 1), 0);
	CHECK_EQ(call(&p, 2, false), 0);
	copyrpc_ep_destroy(p.ep[0]);
	CHECK_EQ(copyrpc_cancel(p.ep[0], 2), -ECANCELED);
	copyrpc_poll(p.ctx[0], on_end, &l);
	CHECK(l.canceled == 2 && !l.ok && !l.failed);
}

TEST(a_sleeper_is_not_late)
{
	struct log l = {0};
	PAIR p = pair_open(&small);

	CHECK_EQ(call(&p, 1, false), 0);
	copyrpc_flush(p.ctx[0]);
	CHECK_EQ(copyrpc_ctx_arm(p.ctx[0]), 0);
	CHECK_EQ(copyrpc_cancel(p.ep[0], 1), 0);
	CHECK_EQ(copyrpc_ctx_arm(p.ctx[0]), 1);
	CHECK_EQ(copyrpc_poll(p.ctx[0], on_end, &l), 1);
	CHECK_EQ(l.canceled, 1);
}
