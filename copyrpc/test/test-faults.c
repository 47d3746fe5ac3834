/* SPDX-License-Identifier: MIT */
/*
 *	test-copyrpc-faults STATUS [again]
 *
 * Calls while the HCA is made to fail (SOFTHCA_FAULTS). STATUS is what pending calls must
 * end with, as a negative errno, or 0: it must not be noticed. With "again" a new pair of
 * endpoints in the same contexts must work afterwards.
 */
#include <errno.h>
#include <sched.h>

#include "support/test.h"
#include "copyrpc.h"

#define CALLS 2000

struct side {
	struct copyrpc_ctx *ctx;
	struct copyrpc_ep *ep;
};

struct calls {
	uint32_t made, ok, failed;
	int status; /* that failed ones must have */
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

static void connect_pair(struct side s[2])
{
	const struct copyrpc_ep_attr attr = {.name = "the peer"};
	uint8_t blob[2][COPYRPC_INFO_SIZE];

	for (int i = 0; i < 2; i++) {
		CHECK_EQ(copyrpc_ep_create(s[i].ctx, &attr, &s[i].ep), 0);
		copyrpc_ep_info(s[i].ep, blob[i]);
	}
	for (int i = 0; i < 2; i++)
		CHECK_EQ(copyrpc_ep_connect(s[i].ep, blob[!i], COPYRPC_INFO_SIZE), 0);
}

/* Until all calls have ended, or the endpoint has failed and all that were made have. */
static void run(struct side s[2], struct calls *c)
{
	struct copyrpc_req *req;

	while (c->ok + c->failed < c->made || (!c->failed && c->made < CALLS)) {
		for (int i = 0; i < 8 && c->made < CALLS; i++) {
			uint64_t token = c->made;
			int rc = copyrpc_call(s[0].ep, &token, sizeof(token), 8, token);

			CHECK(rc == 0 || rc == -EAGAIN || rc == -ENOBUFS || rc == c->status);
			if (rc)
				break;
			c->made++;
		}
		if (!copyrpc_poll(s[0].ctx, on_response, c))
			sched_yield();
		copyrpc_poll(s[1].ctx, on_response, c);
		while (copyrpc_recv(s[1].ctx, &req))
			copyrpc_reply(req, copyrpc_req_data(req), 8);
	}
}

/* Device, queue pairs, address, name, and the HCA's syndrome if it failed. */
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

int main(int argc, char **argv)
{
	struct side s[2];
	static struct calls first, second;

	alarm(100);
	CHECK(argc == 2 || argc == 3);
	first.status = atoi(argv[1]);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(copyrpc_ctx_create(NULL, &s[i].ctx), 0);
	connect_pair(s);
	run(s, &first);
	printf("%u calls made, %u answered, %u failed\n", first.made, first.ok, first.failed);
	CHECK_EQ(first.failed > 0, first.status != 0);
	CHECK_EQ(copyrpc_ep_status(s[0].ep), first.status);
	check_words(s[0].ep, first.status);
	if (argc == 3) {
		for (int i = 0; i < 2; i++) {
			copyrpc_ep_destroy(s[i].ep);
			copyrpc_poll(s[i].ctx, on_response, &first);
		}
		connect_pair(s);
		run(s, &second);
		CHECK_EQ(second.ok, CALLS);
	}
	for (int i = 0; i < 2; i++)
		copyrpc_ctx_destroy(s[i].ctx);
	return 0;
}
