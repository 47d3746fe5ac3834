/* SPDX-License-Identifier: MIT */
#include "run/record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/capture.h"
#include "fabric/fabric.h"

#define LOOK_MS 50 /* time between two checks of the capture */
#define CHUNK (1 << 20)
#define STALL_MS 1000 /* after a signal, the reader of a pipe must read within this time */

/*
 * All members of the fabric write the capture, which must be a regular file. So a capture for a
 * pipe is written to a file in the fabric's directory, from which this process copies it.
 */
struct recording {
	const char *name; /* name of the output in messages */
	char path[256]; /* of the file in the fabric's directory; "": none */
	int out, in; /* descriptors of the output and of this file; -1: none */
	int signals; /* signalfd */
	uint64_t copied;
};

static int report(int r, const char *name, char *err, size_t errlen)
{
	if (r == -EBUSY)
		snprintf(err, errlen, "the fabric is being captured already");
	else if (r == -ETIMEDOUT)
		snprintf(err, errlen, "%s: the reader does not read", name);
	else
		snprintf(err, errlen, "%s: %s", name, strerror(-r));
	return r;
}

static bool is_stream(const char *file)
{
	struct stat st;

	return !strcmp(file, "-") || (!stat(file, &st) && !S_ISREG(st.st_mode));
}

static int open_stream(struct recording *rec, const char *file)
{
	rec->out = strcmp(file, "-") ? open(file, O_WRONLY | O_CLOEXEC) : STDOUT_FILENO;
	if (rec->out < 0)
		return -errno;
	snprintf(rec->path, sizeof(rec->path), "%s/capture", fabric_self.dir);
	return 0;
}

static int start(struct recording *rec, const char *file, uint32_t qpn)
{
	struct capture c;
	sigset_t saved;
	bool busy;
	int r = 0;

	if (fabric_enter(&saved))
		_exit(1); /* the reason was printed; exit() might wait for a lock of libc */
	busy = arena()->capture.on; /* checked before the file is emptied */
	fabric_leave(&saved);
	if (busy)
		return -EBUSY;
	if (is_stream(file))
		r = open_stream(rec, file);
	if (!r)
		r = capture_create(rec->path[0] ? rec->path : file, &arena()->topo, &c);
	if (!r && rec->path[0]) {
		rec->in = open(rec->path, O_RDWR | O_CLOEXEC);
		r = rec->in < 0 ? -errno : 0;
	}
	if (r)
		return r;
	if (fabric_enter(&saved))
		_exit(1); /* the reason was printed; exit() might wait for a lock of libc */
	r = capture_start(arena(), &c, fabric_self.slot, qpn);
	fabric_leave(&saved);
	return r;
}

static bool alone(void)
{
	for (uint32_t slot = 0; slot < arena()->procs_high; slot++)
		if (slot != fabric_self.slot && arena()->procs[slot].used)
			return false;
	return true;
}

/* Waits until a write of PIPE_BUF bytes does not block. Returns 0 or -errno. */
static int wait_for_reader(const struct recording *rec)
{
	struct pollfd p[2] = {{.fd = rec->out, .events = POLLOUT},
		{.fd = rec->signals, .events = POLLIN}};
	int n = poll(p, 2, -1);

	if (n > 0 && !p[0].revents)
		n = poll(p, 1, STALL_MS); /* the signal stays pending */
	if (n < 0)
		return -errno;
	return n ? 0 : -ETIMEDOUT;
}

/* Writes all bytes. Signals are blocked, so a write that waits for the reader would not end. */
static int put(const struct recording *rec, const char *bytes, size_t n)
{
	while (n) {
		int r = wait_for_reader(rec);
		ssize_t w;

		if (r == -EINTR)
			continue;
		if (r)
			return r;
		w = write(rec->out, bytes, n < PIPE_BUF ? n : PIPE_BUF);
		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			return w ? -errno : -EIO;
		bytes += w;
		n -= (size_t)w;
	}
	return 0;
}

/* Copies the file up to offset @end to the output, and frees the memory of the copied part. */
static int copy_to(struct recording *rec, uint64_t end)
{
	static char buf[CHUNK];

	while (rec->in >= 0 && rec->copied < end) {
		uint64_t left = end - rec->copied;
		ssize_t n = pread(rec->in, buf, left < CHUNK ? left : CHUNK, (off_t)rec->copied);

		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		r = put(rec, buf, (size_t)n);
		if (r)
			return r;
		fallocate(rec->in, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
			(off_t)(rec->copied += (uint64_t)n));
	}
	return 0;
}

static int run(struct recording *rec)
{
	/* poll(2) reports an error for a pipe whose reader has closed it. */
	struct pollfd p[2] = {{.fd = rec->signals, .events = POLLIN}, {.fd = rec->out}};
	struct capture c;
	sigset_t saved;
	bool last, ended;
	int r;

	do {
		ended = poll(p, 2, LOOK_MS) > 0;
		if (fabric_enter(&saved))
			_exit(1); /* the reason was printed; exit() might wait for a lock of libc */
		fabric_reap();
		last = alone();
		if (ended || last)
			capture_stop(arena());
		c = arena()->capture;
		fabric_leave(&saved);
		r = copy_to(rec, c.end);
	} while (!r && c.on);
	return r == -EPIPE ? 0 : r ? r : c.error;
}

/*
 * Removes the file in the fabric's directory, if there is one, and prints the counts, however the
 * capture has ended.
 */
static void finish(struct recording *rec)
{
	struct capture c;
	sigset_t saved;

	if (fabric_enter(&saved))
		_exit(1); /* the reason was printed; exit() might wait for a lock of libc */
	capture_leave(fabric_self.slot);
	c = arena()->capture;
	fabric_leave(&saved);
	if (rec->path[0])
		unlink(rec->path);
	if (rec->in >= 0)
		close(rec->in);
	if (rec->out > STDERR_FILENO)
		close(rec->out);
	fprintf(stderr,
		"softhcactl: %" PRIu64 " packets, %" PRIu64 " messages, %" PRIu64 " bytes\n",
		c.packets, c.messages, c.bytes);
}

int record(const char *file, uint32_t qpn, char *err, size_t errlen)
{
	struct recording rec = {.name = strcmp(file, "-") ? file : "standard output",
		.out = -1,
		.in = -1};
	sigset_t ends;
	int r;

	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGHUP);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	signal(SIGPIPE, SIG_IGN);
	rec.signals = signalfd(-1, &ends, SFD_CLOEXEC);
	if (rec.signals < 0)
		return report(-errno, "signalfd", err, errlen);
	r = start(&rec, file, qpn);
	if (!r) {
		fputs("softhcactl: capturing\n", stderr);
		r = run(&rec);
		finish(&rec);
	}
	close(rec.signals);
	return r ? report(r, rec.name, err, errlen) : 0;
}
