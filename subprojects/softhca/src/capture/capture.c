/* SPDX-License-Identifier: MIT */
#include "capture/capture.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/pcapng.h"
#include "fabric/capture_file.h"
#include "fabric/fabric.h"
#include "hca/journal.h"
#include "sys/sys.h"

#define BUFFER (64 * 1024)

/* The group of packets (capture.h) that is being written. The fabric's mutex protects it. */
static struct {
	int fd;
	int error;
	uint64_t at; /* offset in the file at which flush() writes */
	uint64_t packets;
	size_t used; /* filled bytes of the buffer */
	uint8_t buffer[BUFFER];
} group;

static int write_all(int fd, const uint8_t *bytes, size_t len, uint64_t at)
{
	if (!sys_may_make(at + len))
		return -EFBIG;
	while (len) {
		long n = SYS(SYS_pwrite64, fd, bytes, len, (off_t)at);

		if (n == -EINTR)
			continue;
		if (n <= 0)
			return n ? (int)n : -EIO;
		bytes += n;
		len -= (size_t)n;
		at += (uint64_t)n;
	}
	return 0;
}

static int write_head(int fd, const struct softhca_topology *t, struct capture *c)
{
	uint8_t head[PCAPNG_HEADER_MAX];
	int r;

	c->end = pcapng_section(head, "softhca");
	r = write_all(fd, head, c->end, 0);
	for (uint32_t i = 0; !r && i < t->nrails; i++) {
		size_t n = pcapng_interface(head, t->rails[i].name);

		r = write_all(fd, head, n, c->end);
		c->end += n;
	}
	return r;
}

int capture_resolve(const char *path, char absolute[CAPTURE_PATH])
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	char *dir = slash ? strndup(path, (size_t)(name - path)) : strdup(".");
	char *real = dir ? realpath(dir, NULL) : NULL;
	int r = real ? 0 : -errno;

	if (real && snprintf(absolute, CAPTURE_PATH, "%s/%s", strcmp(real, "/") ? real : "",
			    name) >= CAPTURE_PATH)
		r = -ENAMETOOLONG;
	free(real);
	free(dir);
	return r;
}

int capture_create(const char *path, const struct softhca_topology *t, struct capture *c)
{
	int fd = sys_open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0644), r;
	struct stat st;

	if (fd < 0)
		return fd == -ELOOP ? -ESPIPE : fd;
	memset(c, 0, sizeof(*c));
	r = sys_fstat(fd, &st);
	if (!r && !S_ISREG(st.st_mode))
		r = -ESPIPE;
	if (!r)
		r = capture_resolve(path, c->path);
	if (!r)
		r = (int)SYS(SYS_ftruncate, fd, 0);
	c->device = st.st_dev;
	c->inode = st.st_ino;
	if (!r)
		r = write_head(fd, t, c);
	sys_close(fd);
	return r;
}

int capture_start(struct arena *a, const struct capture *c, uint32_t owner, uint32_t qpn)
{
	if (a->capture.on)
		return -EBUSY;
	a->capture = *c;
	a->capture.owner = owner;
	a->capture.qpn = qpn;
	a->capture.on = 1;
	a->attention |= ATTEND_CAPTURE;
	return 0;
}

void capture_stop(struct arena *a)
{
	a->capture.on = 0;
	a->attention &= ~(uint32_t)ATTEND_CAPTURE;
	capture_file_trim(&a->capture);
}

void capture_leave(uint32_t slot)
{
	struct capture *c = &arena()->capture;

	if (c->on && c->owner == slot)
		capture_stop(arena());
	else if (c->on)
		capture_file_trim(c); /* a member may have been killed while it wrote */
}

/* Ends the capture for all members, because a capture with gaps would look complete. */
__attribute__((cold)) static void fail(int error)
{
	struct capture *c = &arena()->capture;
	char text[CAPTURE_PATH + 96];
	int n;

	c->error = error;
	c->failed_pid = fabric_self.pid;
	capture_stop(arena());
	n = snprintf(text, sizeof(text), "softhca: the capture has ended: %s: %s\n", c->path,
		strerrordesc_np(-error));
	sys_write(2, text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

static void flush(void)
{
	if (!group.error)
		group.error = write_all(group.fd, group.buffer, group.used, group.at);
	group.at += group.used;
	group.used = 0;
}

bool capture_begin(void)
{
	const struct capture *c = &arena()->capture;

	group.fd = capture_file_open(c);
	if (group.fd < 0) {
		fail(group.fd);
		return false;
	}
	group.error = 0;
	group.at = c->end;
	group.packets = 0;
	group.used = 0;
	return true;
}

void capture_add(uint32_t rail, uint64_t ns, const struct flow *f, uint8_t *frame, size_t len,
	const char *comment)
{
	size_t n = frame_seal(f, frame, len);

	if (group.used + PCAPNG_PACKET_MAX(n) > BUFFER)
		flush();
	group.used += pcapng_packet(group.buffer + group.used, rail, ns, frame, n, comment);
	group.packets++;
}

void capture_cancel(void)
{
	sys_close(group.fd);
}

void capture_commit(uint32_t messages, uint64_t bytes)
{
	struct capture *c = &arena()->capture;

	flush();
	sys_close(group.fd);
	if (group.error) {
		fail(group.error);
		return;
	}
	journal_begin();
	journal_store64(&c->end, group.at);
	journal_store64(&c->packets, c->packets + group.packets);
	journal_store64(&c->messages, c->messages + messages);
	journal_store64(&c->bytes, c->bytes + bytes);
	journal_commit();
}
