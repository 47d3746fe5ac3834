/* SPDX-License-Identifier: MIT */
/* The two processes of duo.h and gpuduo.h exchange bytes of a pipe, and notices. */
#ifndef TENT_TEST_DUOPIPE_H
#define TENT_TEST_DUOPIPE_H

#include <poll.h>
#include <unistd.h>

#include "support/test.h"
#include "tent.h"

static inline void duo_write(int fd, const void *bytes, size_t n)
{
	CHECK_EQ(write(fd, bytes, n), n);
}

static inline void duo_read(int fd, void *bytes, size_t n)
{
	for (size_t got = 0; got < n;) {
		ssize_t m = read(fd, (char *)bytes + got, n - got);

		CHECK(m > 0);
		got += (size_t)m;
	}
}

static inline uint16_t duo_take_notice(struct tent *t)
{
	struct pollfd p = {.fd = tent_notice_fd(t), .events = POLLIN};
	uint16_t value = 0;

	while (tent_notice(t, &value) == -EAGAIN)
		CHECK(poll(&p, 1, 60000) == 1);
	return value;
}

#endif
