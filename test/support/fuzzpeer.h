/* SPDX-License-Identifier: MIT */
/*
 * Simulates a peer whose behaviour is the fuzzer's input, for code that waits for sockets with
 * poll(2). The code is compiled with -Dpoll=fuzz_poll -Dclock_gettime=fuzz_clock_gettime. When the
 * code would wait, the peer does its next step instead. When the input is used up, the clock
 * advances beyond every time limit.
 */
#ifndef SUPPORT_FUZZPEER_H
#define SUPPORT_FUZZPEER_H

#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/fuzz.h"

static struct {
	struct input in;
	uint64_t ns; /* the time that the code reads */
	void (*step)(struct input *in); /* does the peer's next step */
} fuzz_peer;

int fuzz_clock_gettime(clockid_t id, struct timespec *ts);
int fuzz_poll(struct pollfd *fds, nfds_t n, int timeout);

int fuzz_clock_gettime(clockid_t id, struct timespec *ts)
{
	*ts = clock_timespec(fuzz_peer.ns);
	return 0;
}

int fuzz_poll(struct pollfd *fds, nfds_t n, int timeout)
{
	const struct timespec now = {0};
	int ready;

	while (!(ready = ppoll(fds, n, &now, NULL)) && timeout && input_left(&fuzz_peer.in))
		fuzz_peer.step(&fuzz_peer.in);
	if (!ready && timeout)
		fuzz_peer.ns += 10 * NSEC_PER_SEC; /* beyond every limit */
	return ready;
}

/* Sends up to @len bytes of the input. If the socket is closed or full, they are lost. */
static inline void fuzz_send(int fd, size_t len)
{
	len = len < input_left(&fuzz_peer.in) ? len : input_left(&fuzz_peer.in);
	if (fd >= 0)
		send(fd, fuzz_peer.in.at, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	fuzz_peer.in.at += len;
}

#endif
