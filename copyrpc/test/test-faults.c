/* SPDX-License-Identifier: MIT */
/*
 * Makes calls while the HCA injects a fault. Checks the status with which pending calls end (none
 * fails if the HCA hides the fault), and that a new pair of endpoints in the same contexts works
 * afterwards.
 */
#include <sched.h>

#include "pair.h"
#include "support/hcacall.h"

#define CALLS 2000

struct calls {
	uint32_t made, ok, failed;
	int status; /* the status that failed calls must have */
	uint8_t ended[CALLS];
};

static void on_response(void *arg, struct copyrpc_ep *ep, uint64_t token, int status,
	const void *data, uint32_t len)
{
	struct calls *c = arg;

	CHECK(token < c->made && !c->ended[token]);
	c->ended[token] = 1;
	if (status) {
		CHECK_EQ(status, c->status);
		c->failed++;
		return;
	}
	CHECK(len == sizeof(token) && memcmp(data, &token, len) == 0);
	c->ok++;
}

static void connect_pair(struct pair *p)
{
	const struct copyrpc_ep_attr attr = {.name = "the peer"};

	for (int i = 0; i < 2; i++)
		CHECK_EQ(copyrpc_ep_create(p->ctx[i], &attr, &p->ep[i]), 0);
	connect_eps(p->ep);
}

/* Makes and answers calls until all CALLS have ended. After the endpoint has failed, makes no more
 * calls and runs until those that were made have ended. */
static void run(struct pair *p, struct calls *c)
{
	struct copyrpc_req *req;

	while (c->ok + c->failed < c->made || (!c->failed && c->made < CALLS)) {
		for (int i = 0; i < 8 && c->made < CALLS; i++) {
			uint64_t token = c->made;
			int rc = copyrpc_call(p->ep[0], &token, sizeof(token), 8, token);

			CHECK(rc == 0 || rc == -EAGAIN || rc == -ENOBUFS || rc == c->status);
			if (rc)
				break;
			c->made++;
		}
		if (!copyrpc_poll(p->ctx[0], on_response, c))
			sched_yield();
		copyrpc_poll(p->ctx[1], on_response, c);
		while (copyrpc_recv(p->ctx[1], &req))
			copyrpc_reply(req, copyrpc_req_data(req), 8);
	}
}

/* Checks that the description of the endpoint has the device, both QP numbers, the address, the
 * name and, after a failure, the HCA's syndrome. */
static void check_words(struct copyrpc_ep *ep, int status)
{
	char line[256], part[20];
	unsigned from, to, lid, syndrome;
	int len = copyrpc_ep_describe(ep, line, sizeof(line));
	const char *at;

	printf("%s\n", line);
	CHECK_EQ(len, strlen(line));
	CHECK_EQ(sscanf(line, "mlx5_%*d QP 0x%x to QP 0x%x of LID %u (the peer): ", &from, &to,
			 &lid),
		3);
	CHECK(strstr(line, "(the peer): ") && from && to && lid);
	CHECK_EQ(!!strstr(line, "(the peer): connected"), !status);
	at = strstr(line, "syndrome 0x");
	CHECK_EQ(!!at, !!status);
	if (at)
		CHECK(sscanf(at, "syndrome 0x%x, vendor", &syndrome) == 1 && syndrome);
	CHECK_EQ(copyrpc_ep_describe(ep, part, sizeof(part)), len);
	CHECK(!memcmp(part, line, sizeof(part) - 1) && !part[sizeof(part) - 1]);
	CHECK_EQ(copyrpc_ep_describe(ep, NULL, 0), len);
}

static void connect_anew(struct pair *p, struct calls *c)
{
	for (int i = 0; i < 2; i++) {
		copyrpc_ep_destroy(p->ep[i]);
		copyrpc_poll(p->ctx[i], on_response, c);
	}
	connect_pair(p);
}

/* @status: the status of the calls that fail; 0: none fails. */
static void ends_with(int status, const char *rule)
{
	const struct copyrpc_ctx_attr attr = {.path = &impatient};
	struct calls first = {.status = status}, second = {0};
	struct pair p;
	int number;

	for (int i = 0; i < 2; i++)
		CHECK_EQ(copyrpc_ctx_create(&attr, &p.ctx[i]), 0);
	connect_pair(&p);
	number = hca_fault(rule);
	run(&p, &first);
	CHECK(HCA(softhca_fault_remove)(number) > 0);
	CHECK_EQ(first.failed > 0, status != 0);
	CHECK_EQ(copyrpc_ep_status(p.ep[0]), status);
	check_words(p.ep[0], status);
	if (strstr(rule, "link_down"))
		hca_fault("action=link_up");
	connect_anew(&p, &first);
	run(&p, &second);
	CHECK_EQ(second.ok, CALLS);
	pair_close(&p);
}

TEST_WITH(refused, ends_with, -EACCES,
	"opcode=write_imm nth=50 action=error syndrome=remote_access");
TEST_WITH(no_answer, ends_with, -ECONNRESET,
	"opcode=write_imm nth=50 action=error syndrome=retry_exceeded");
TEST_WITH(no_receive, ends_with, -ECONNRESET,
	"opcode=write_imm nth=50 action=error syndrome=rnr_exceeded");
TEST_WITH(part_of_a_message, ends_with, -ECONNRESET,
	"opcode=write_imm nth=50 bytes=40 action=partial syndrome=remote_op");
TEST_WITH(slow_receiver, ends_with, 0, "opcode=write_imm nth=50 count=3 action=rnr");
TEST_WITH(delay, ends_with, 0, "opcode=write_imm nth=50 count=3 action=delay delay_ns=2000000");
TEST_WITH(link_down, ends_with, -ECONNRESET, "opcode=write_imm nth=50 action=link_down");
