/* SPDX-License-Identifier: MIT */
#include "run/record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
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

/*
 * All members of the fabric write the capture, which must be a regular file. So a capture for a
 * pipe is written to a file in the fabric's directory, from which this process copies it.
 */
struct recording {
	const char *name; /* name of the output in messages */
	char path[256]; /* of the file in the fabric's directory; "": none */
	int out, in; /* descriptors of the output and of this file; -1: none */
	uint64_t copied;
};

static int report(int r, const char *name, char *err, size_t errlen)
{
	if (r == -EBUSY)
		snprintf(err, errlen, "the fabric is being captured already");
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

/* Copies the file up to offset @end to the output, and frees the memory of the copied part. */
static int copy_to(struct recording *rec, uint64_t end)
{
	static char buf[CHUNK];

	while (rec->in >= 0 && rec->copied < end) {
		uint64_t left = end - rec->copied;
		ssize_t n = pread(rec->in, buf, left < CHUNK ? left : CHUNK, (off_t)rec->copied);

		if (n > 0)
			n = write(rec->out, buf, (size_t)n);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		fallocate(rec->in, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
			(off_t)(rec->copied += (uint64_t)n));
	}
	return 0;
}

static int run(struct recording *rec, int signals)
{
	/* poll(2) reports an error for a pipe whose reader has closed it. */
	struct pollfd p[2] = {{.fd = signals, .events = POLLIN}, {.fd = rec->out}};
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
	int fd, r;

	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGHUP);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	signal(SIGPIPE, SIG_IGN);
	fd = signalfd(-1, &ends, SFD_CLOEXEC);
	if (fd < 0)
		return report(-errno, "signalfd", err, errlen);
	r = start(&rec, file, qpn);
	if (!r) {
		fputs("softhcactl: capturing\n", stderr);
		r = run(&rec, fd);
		finish(&rec);
	}
	close(fd);
	return r ? report(r, rec.name, err, errlen) : 0;
}
