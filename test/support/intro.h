/* SPDX-License-Identifier: MIT */
/* Sends introductions (base/wakefd.h) as a hostile process might. */
#ifndef SUPPORT_INTRO_H
#define SUPPORT_INTRO_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/wakefd.h"
#include "support/test.h"

/*
 * Too many descriptors: an introduction has one. A receiver has room for two, and the kernel closes
 * the others. qemu-user, by which the tests of arm64 are run, would leave these open.
 */
#ifdef __aarch64__
#define INTRO_MANY 2
#else
#define INTRO_MANY 8
#endif

/* Sends @len bytes of an introduction with @n copies of fd and the cookie XOR @forge. */
static inline void intro_send(const struct wakefd_addr *door, uint32_t index, int fd, int n,
	size_t len, uint64_t forge)
{
	struct {
		uint64_t cookie;
		uint32_t index, zero;
	} bytes = {door->cookie ^ forge, index, 0};
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(INTRO_MANY * sizeof(int))] = {0};
	struct iovec iov = {&bytes, len};
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	struct msghdr m = {.msg_name = &sa, .msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *c = (struct cmsghdr *)control;
	AT_END(end_close_fd) int sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	CHECK(sock >= 0);
	m.msg_namelen = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				    (size_t)sprintf(sa.sun_path + 1, "wakefd.%016llx",
					    (unsigned long long)door->name));
	*c = (struct cmsghdr){CMSG_LEN((size_t)n * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
	for (int i = 0; i < n; i++)
		memcpy(CMSG_DATA(c) + (size_t)i * sizeof(int), &fd, sizeof(fd));
	m.msg_control = n ? control : NULL;
	m.msg_controllen = n ? CMSG_SPACE((size_t)n * sizeof(int)) : 0;
	CHECK(sendmsg(sock, &m, MSG_DONTWAIT) >= 0);
}

#endif
