/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer: peers write arbitrary bytes into the sockets over which endpoints are connected. The
 * first byte selects one of three cases: three peers connect to copyrpc_accept(); a peer accepts
 * copyrpc_connect(); or polls serve two peers that connect and two dials (with or without
 * `single`). Then each step has a byte (the peer's number | 4 to close its socket | 8 for traffic
 * of the context | 16 * time), a byte with a length, and that many bytes, which the peer sends. The
 * test replaces the functions of endpoints; blob.c decodes the blob.
 */
#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/un.h>

#include "support/fuzzpeer.h"
#include "blob.h"
#include "copyrpc_tcp.h"
#include "lobby.h"

#define PEERS 3
#define LIMIT_MS 2000
#define NODE 0x4d0000u /* number of the context */
#define OWNER 0x77 /* owner number of its endpoints; fixed, so that the input can contain it */

static int listener = -1, peers[PEERS + 1], dialed, turn; /* turn: number of attempts of dials */
static struct sockaddr_un address;
static socklen_t address_len = sizeof(address);
static uint8_t cqe[64];
static struct mlx5dvl_cq cq = {.next = cqe};

/* ---- the library without a device ---- */

int copyrpc_ep_create(struct copyrpc_ctx *ctx, const struct copyrpc_ep_attr *attr,
	struct copyrpc_ep **ep_p)
{
	static const struct live_type type;
	struct copyrpc_ep *ep = calloc(1, sizeof(*ep));

	must(ep);
	ep->live = live_add(&type, ep, "");
	ep->ch.status = -ENOTCONN;
	ep->ctx = ctx;
	ep->owner = OWNER;
	ep->next = ctx->eps;
	ctx->eps = ep;
	*ep_p = ep;
	return 0;
}

void copyrpc_ep_info(const struct copyrpc_ep *ep, void *bytes)
{
	memset(bytes, 0xab, COPYRPC_INFO_SIZE);
}

int copyrpc_ep_connect(struct copyrpc_ep *ep, const void *bytes, size_t len)
{
	struct blob b;
	int err = blob_decode(&b, bytes, len);

	must(ep->ch.status == -ENOTCONN);
	if (!err && b.ring_size != 1u << 16)
		err = -EMSGSIZE;
	if (!err) {
		ep->ch.status = 0;
		ep->qp = (struct mlx5dvl_qp *)ep; /* the endpoint exists */
	}
	return err;
}

void ep_free(struct copyrpc_ep *ep)
{
	struct copyrpc_ep **link = &ep->ctx->eps;

	while (*link != ep)
		link = &(*link)->next;
	*link = ep->next;
	for (struct copyrpc_ep *other = ep->ctx->dirty; other; other = other->dirty_next)
		other->dirty = FLUSHED;
	ep->ctx->dirty = NULL;
	news_remove(ep->ctx, &ep->up);
	news_remove(ep->ctx, &ep->down);
	live_remove(ep->live);
	free(ep);
}

void copyrpc_ep_destroy(struct copyrpc_ep *ep)
{
	ep_free(ep);
}

void ep_break(struct copyrpc_ep *ep, int status)
{
	if (ep->ch.status)
		return;
	ep->ch.status = status;
	ep->down.status = status;
	if (ep->down.kind)
		news_add(ep->ctx, &ep->down);
}

void ep_leave(struct copyrpc_ep *ep, int status)
{
	ep->stopped = ep->drained = true;
}

void ep_tell_down(struct copyrpc_ep *ep, int status)
{
}

bool ep_is_drained(struct copyrpc_ep *ep)
{
	return ep->drained;
}

int ep_renew(struct copyrpc_ep *ep)
{
	ep->stopped = false;
	return 0;
}

int ep_rejoin(struct copyrpc_ep *ep, const void *bytes, size_t len, uint64_t received)
{
	struct blob b;

	return blob_decode(&b, bytes, len);
}

void ep_return(struct copyrpc_ep *ep)
{
}

int ctx_check_path(const struct copyrpc_ctx *ctx, const struct copyrpc_path *path)
{
	return 0;
}

void ctx_device_events(struct copyrpc_ctx *ctx)
{
}

int path_read(struct copyrpc_path *path, const struct copyrpc_path *given)
{
	*path = *given;
	return 0;
}

int ctx_add_side(struct copyrpc_ctx *ctx, struct ctx_side *side, int fd)
{
	ctx->side = side;
	return 0;
}

int copyrpc_ctx_timeout(const struct copyrpc_ctx *ctx)
{
	return -1;
}

struct addrinfo *__wrap_tcp_resolve(const char *host, uint16_t port);
int __wrap_tcp_connect_begin(const struct addrinfo *a, int *fd_p);

struct addrinfo *__wrap_tcp_resolve(const char *host, uint16_t port)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
	struct addrinfo *list;

	must(!getaddrinfo("127.0.0.1", "1", &hints, &list));
	return list;
}

/* A new attempt replaces the last one of the same peer. */
int __wrap_tcp_connect_begin(const struct addrinfo *a, int *fd_p)
{
	int pair[2], *peer = &peers[dialed ? turn++ % dialed : 0];

	must(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair));
	if (*peer >= 0)
		close(*peer);
	*peer = pair[1];
	*fd_p = pair[0];
	return 0;
}

/* ---- the peers ---- */

static void step(struct input *in)
{
	uint8_t what = (uint8_t)take(in, 1);
	int *fd = &peers[dialed ? what & 3 : (what & 3) % PEERS];

	fuzz_peer.ns += (what >> 4) * NSEC_PER_MSEC * 16;
	cq.usual = what & 8 ? 0 : MLX5DVL_CQE_OWNER_; /* 0: a completion is ready */
	fuzz_send(*fd, take(in, 1));
	if ((what & 4) && *fd >= 0) {
		close(*fd);
		*fd = -1;
	}
}

static void start(const uint8_t *data, size_t size)
{
	fuzz_peer.in = (struct input){data, data + size};
	fuzz_peer.ns = NSEC_PER_SEC;
	fuzz_peer.step = step;
	cq.usual = MLX5DVL_CQE_OWNER_;
	turn = 0;
	for (int i = 0; i <= PEERS; i++)
		peers[i] = -1;
}

/* Connects the peers whose number is at least `first`. */
static void come(int first)
{
	if (listener < 0) {
		listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
		address.sun_family = AF_UNIX;
		must(!bind(listener, (struct sockaddr *)&address, sizeof(sa_family_t)));
		must(!listen(listener, PEERS));
		must(!getsockname(listener, (struct sockaddr *)&address, &address_len));
	}
	for (int i = first; i < first + PEERS - !!first; i++) {
		peers[i] = socket(AF_UNIX, SOCK_STREAM, 0);
		must(!connect(peers[i], (struct sockaddr *)&address, address_len));
	}
}

static void leave(void)
{
	for (int i = 0; i <= PEERS; i++) {
		if (peers[i] >= 0)
			close(peers[i]);
		peers[i] = -1;
	}
}

/* ---- the two sides ---- */

static uint64_t now(void)
{
	return fuzz_peer.ns;
}

static void accept_peers(struct copyrpc_ctx *ctx)
{
	const struct copyrpc_ep_attr attr = {.size = sizeof(attr)};
	int fd;

	come(0);
	for (int err = 0; err != -ETIMEDOUT;) {
		struct copyrpc_ep *ep = NULL;

		err = copyrpc_accept(ctx, &attr, listener, LIMIT_MS, &ep);
		must(err <= 0 && !err == !!ep);
		must(!ep || (!ep->ch.status && ep->qp && strnlen(ep->name, EP_NAME_MAX)));
		if (err == -EAGAIN && input_left(&fuzz_peer.in))
			step(&fuzz_peer.in);
		else if (err == -EAGAIN)
			cq.usual = MLX5DVL_CQE_OWNER_; /* the traffic ends */
	}
	leave();
	while ((fd = accept(listener, NULL, NULL)) >= 0)
		close(fd);
}

/* Connects to a peer and, if that succeeds, reconnects. */
static void meet_peer(struct copyrpc_ctx *ctx)
{
	struct copyrpc_ep *ep = NULL;
	int err = copyrpc_connect(ctx, NULL, "host", 1, LIMIT_MS, &ep);

	must(err <= 0 && !err == !!ep);
	leave();
	if (!err)
		must(copyrpc_reconnect(ep, "host", 1, LIMIT_MS, &ep) <= 0 && !ep->ch.status);
	leave();
}

/* Checks that at most one `single` connection to each peer's context is up. */
static void check_singles(const struct copyrpc_ctx *ctx)
{
	for (const struct copyrpc_ep *a = ctx->eps; a; a = a->next)
		for (const struct copyrpc_ep *b = a->next; b; b = b->next)
			must(!a->single || a->single != b->single || !a->is_up || !b->is_up ||
				a->ch.status || b->ch.status);
}

/* Takes the events; returns the number of dials that have ended. */
static int take_events(struct copyrpc_ctx *ctx)
{
	struct copyrpc_event e;
	int ended = 0;

	while (copyrpc_event_recv(ctx, &e, sizeof(e))) {
		must((e.kind == COPYRPC_GONE) == !e.ep && (e.kind == COPYRPC_UP || e.status));
		must(e.token <= 2 && (e.token || e.kind != COPYRPC_GONE));
		ended += e.token && e.kind != COPYRPC_DOWN;
	}
	return ended;
}

/* Polls serve two peers that connect and two dials. */
static void serve_peers(struct copyrpc_ctx *ctx, bool single)
{
	const struct copyrpc_listen_attr listen_attr = {.max_guests = 1, .patience_ms = 500};
	const struct copyrpc_dial_attr dial_attr = {.single = single};
	int ended = 0, fd;

	dialed = 2;
	come(dialed);
	must(!copyrpc_listen(ctx, &listen_attr, listener, 0));
	for (uint64_t token = 1; token <= 2; token++)
		must(!copyrpc_dial(ctx, &dial_attr, "host", 1, LIMIT_MS, token));
	while (ended < 2) {
		if (input_left(&fuzz_peer.in))
			step(&fuzz_peer.in);
		else
			fuzz_peer.ns += NSEC_PER_SEC;
		lobby_step(ctx);
		check_singles(ctx);
		ended += take_events(ctx);
	}
	must(ended == 2 && !copyrpc_unlisten(ctx, listener));
	leave();
	while ((fd = accept(listener, NULL, NULL)) >= 0)
		close(fd);
	dialed = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct copyrpc_ctx ctx = {.recv_cq = &cq, .send_cq = &cq, .clock = now, .node = NODE};

	ctx.news.tail_p = &ctx.news.head;
	ctx.watched.tail_p = &ctx.watched.head;
	ctx.attr.reconnect_ms = 1000;
	start(data + !!size, size - !!size);
	if (size && data[0] % 4 > 1)
		serve_peers(&ctx, data[0] % 2);
	else if (size && data[0] % 2)
		meet_peer(&ctx);
	else
		accept_peers(&ctx);
	ctx.side->close(&ctx);
	must(!ctx.news.head || ctx.news.head->ep);
	while (ctx.eps)
		ep_free(ctx.eps);
	return 0;
}
