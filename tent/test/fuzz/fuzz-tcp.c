/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer: the connections of links over TCP. Bit 0 of the first byte decides whether the link is
 * the target's (0) or the initiator's end (1). The steps that follow are those of target_step() and
 * initiator_step().
 */
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/fuzz.h"
#include "tcplink.h"

#define PEERS 6 /* sockets */
#define LEN 1024u
#define CALLS 200 /* maximum number of posts of an input */
#define NOWHERE 1024u /* LEN bytes from here on are not mapped */

int fuzz_socket(int domain, int type, int protocol);
int fuzz_connect(int fd, const struct sockaddr *to, socklen_t len);
ssize_t fuzz_recv(int fd, void *to, size_t len, int flags);
int fuzz_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int fuzz_clock_gettime(clockid_t id, struct timespec *ts);
int fuzz_accept4(int listener, struct sockaddr *from, socklen_t *len, int flags);
int __wrap_tcp_listen(const char *host, uint16_t port, int *fd_p);

extern const struct transport tcp_transport;

static struct {
	struct port *port;
	struct region region, nowhere;
	struct link *link;
	struct link_end mine; /* of the target */
	int fds[PEERS]; /* the peer's ends of connections; -1: closed */
	int n; /* sockets that were made */
	int listener, coming; /* coming: the connection that fuzz_accept4() returns */
	uint32_t posts, ended, marks;
	time_t now; /* the clock's seconds */
	bool silent; /* the peer's host does not reply */
} it;

/* Three parts of LEN bytes: the second is registered, the third is the initiator's local memory. */
static uint8_t memory[3 * LEN];

static int new_socket(void)
{
	int pair[2];

	if (it.n == PEERS || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair))
		return -1;
	it.fds[it.n++] = pair[1];
	return pair[0];
}

int fuzz_socket(int domain, int type, int protocol)
{
	int fd = new_socket();

	errno = EMFILE;
	return fd;
}

int fuzz_connect(int fd, const struct sockaddr *to, socklen_t len)
{
	return 0;
}

int fuzz_clock_gettime(clockid_t id, struct timespec *ts)
{
	*ts = (struct timespec){.tv_sec = 1 + it.now};
	return 0;
}

int fuzz_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	must(name == TCP_INFO && *len == sizeof(struct tcp_info));
	*(struct tcp_info *)value = (struct tcp_info){.tcpi_probes = it.silent ? SILENT_PROBES : 0};
	return 0;
}

/* Discards bytes by reading them, because only TCP sockets can discard bytes. */
ssize_t fuzz_recv(int fd, void *to, size_t len, int flags)
{
	uint8_t nowhere[4096];

	if (to)
		return recvfrom(fd, to, len, flags, NULL, NULL);
	return recvfrom(fd, nowhere, len < sizeof(nowhere) ? len : sizeof(nowhere), MSG_DONTWAIT,
		NULL, NULL);
}

int __wrap_tcp_listen(const char *host, uint16_t port, int *fd_p)
{
	*fd_p = it.listener = eventfd(0, EFD_NONBLOCK);
	return *fd_p < 0 ? -errno : 0;
}

int fuzz_accept4(int listener, struct sockaddr *from, socklen_t *len, int flags)
{
	eventfd_t n;

	must(!eventfd_read(listener, &n));
	return it.coming;
}

/* ---- both peers ---- */

static void say(uint8_t peer, const void *bytes, size_t len)
{
	if (it.fds[peer % PEERS] >= 0)
		send(it.fds[peer % PEERS], bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Sends bytes of the input; if there are none, shuts the socket down. */
static void say_bytes(struct input *in, uint8_t peer)
{
	size_t len = take(in, 1);

	len = len < input_left(in) ? len : input_left(in);
	if (len)
		say(peer, in->at, len);
	else if (it.fds[peer % PEERS] >= 0)
		shutdown(it.fds[peer % PEERS], SHUT_RDWR);
	in->at += len;
}

static void hear(void)
{
	uint8_t bytes[4096];

	for (int i = 0; i < PEERS; i++) {
		while (it.fds[i] >= 0 && recv(it.fds[i], bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
			;
	}
}

/* ---- a target ---- */

static void on_mark(void *arg, const struct notice_mark *mark)
{
	it.marks++;
}

static void come(struct input *in)
{
	struct greeting g = {.magic = TCP_MAGIC};
	struct tcp_end end;
	bool up;

	if (it.n == PEERS)
		return;
	memcpy(&end, it.mine.bytes, sizeof(end));
	memcpy(g.token, end.token, TOKEN_LEN);
	g.token[0] ^= (uint8_t)take(in, 1);
	it.coming = new_socket();
	say((uint8_t)(it.n - 1), &g, sizeof(g));
	must(it.coming >= 0 && !eventfd_write(it.listener, 1));
	tcp_transport.event(it.port, &up);
}

static void say_frame(struct input *in, uint8_t peer)
{
	struct frame f = {.type = (uint32_t)take(in, 1), .token = 1};
	uint8_t what = (uint8_t)take(in, 1);

	f.key = (what & 4 ? it.nowhere.rkey : it.region.rkey) + (what & 1);
	f.addr = what & 4 ? NOWHERE : (uintptr_t)memory + LEN;
	f.addr += (uint64_t)(int16_t)take(in, 2);
	f.len = (uint64_t)(int16_t)take(in, 2) & (what & 2 ? UINT64_MAX : UINT16_MAX);
	say(peer, &f, sizeof(f));
}

static void end_region(void)
{
	if (it.region.own)
		tcp_transport.remove(&it.region);
	it.region.own = NULL;
}

static void target_step(struct input *in)
{
	uint8_t what = (uint8_t)take(in, 1), peer = what >> 3;

	switch (what % 8) {
	case 0:
		come(in);
		break;
	case 1:
		say_bytes(in, peer);
		break;
	case 2:
	case 3:
		say_frame(in, peer);
		break;
	case 4:
		end_region();
		break;
	case 5:
		if (peer == 31)
			it.link->ops->stop(it.link);
		break;
	default:
		it.link->ops->poll_marks(it.link, peer, on_mark, NULL);
		hear();
	}
}

static void target_begin(void)
{
	const struct link_end theirs = {{0}};

	must(!tcp_transport.add(it.port, (uintptr_t)memory + LEN, LEN, &it.region));
	must(!tcp_transport.add(it.port, NOWHERE, LEN, &it.nowhere));
	must(!tcp_transport.accept(it.port, &theirs, &it.mine, &it.link));
}

/* ---- an initiator ---- */

static void on_done(void *arg, uint64_t token, int status)
{
	must(token == 1 && status <= 0);
	it.ended++;
}

static void post(uint8_t what, uint8_t len)
{
	const struct notice_mark mark = {.lap = 1};
	const struct link_move m = {.write = what & 1,
		.local = what & 4 ? (void *)NOWHERE : memory + 2 * LEN,
		.remote = 1,
		.len = (uint64_t)len + 1,
		.token = 1};
	int err;

	if (it.posts == CALLS)
		return;
	if (what % 4 == 3)
		err = it.link->ops->post_mark(it.link, &mark, 1);
	else if (what % 4 == 2)
		err = it.link->ops->post_probe(it.link, 1);
	else
		err = it.link->ops->post(it.link, &m);
	it.posts += !err;
}

static void say_reply(struct input *in, uint8_t peer)
{
	uint8_t what = (uint8_t)take(in, 1);
	const struct reply r = {TCP_MAGIC, what >> 4, what % 16};

	say(peer, &r, sizeof(r));
}

static void initiator_step(struct input *in)
{
	uint8_t what = (uint8_t)take(in, 1), peer = what >> 3;

	switch (what % 8) {
	case 0:
	case 1:
		post(peer, (uint8_t)take(in, 1));
		break;
	case 2:
		say_bytes(in, peer);
		break;
	case 3:
	case 4:
		say_reply(in, peer);
		break;
	case 5:
		it.now++;
		it.silent = peer >= 28;
		if (peer == 31)
			it.link->ops->stop(it.link);
		break;
	default:
		it.link->ops->disarm(it.link);
		it.link->ops->poll(it.link, on_done, NULL);
		hear();
	}
	must(it.posts - it.ended == it.link->posted);
}

static void initiator_begin(void)
{
	struct desc peer = {.at.ss_family = AF_INET};

	must(!tcp_transport.link(it.port, &peer, &it.link));
	must(!it.link->ops->connect(it.link, &it.mine));
}

/* ---- one input ---- */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct tent_attr attr = {.address = "127.0.0.1"};
	struct input in = {data, data + size};
	bool initiator = take(&in, 1) & 1;

	memset(&it, 0, sizeof(it));
	for (int i = 0; i < PEERS; i++)
		it.fds[i] = -1;
	memset(memory, 'm', sizeof(memory));
	must(!tcp_transport.open(&attr, "tcp0", false, &it.port, NULL));
	(initiator ? initiator_begin : target_begin)();
	while (input_left(&in))
		(initiator ? initiator_step : target_step)(&in);
	if (initiator) {
		it.link->ops->stop(it.link);
		it.link->ops->poll(it.link, on_done, NULL);
		must(!it.link->posted && it.ended == it.posts);
	}
	for (uint32_t i = 0; i < LEN; i++)
		must(memory[i] == 'm' && (initiator || memory[2 * LEN + i] == 'm'));
	it.link->ops->destroy(it.link);
	end_region();
	if (it.nowhere.own)
		tcp_transport.remove(&it.nowhere);
	tcp_transport.close(it.port);
	for (int i = 0; i < it.n; i++)
		close(it.fds[i]);
	return 0;
}
