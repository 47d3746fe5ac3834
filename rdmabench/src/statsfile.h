/* SPDX-License-Identifier: MIT */
/*
 * Statistics files that are written while a program runs. Each write replaces the old content as a
 * whole (a temporary file is renamed), so that a reader sees either the old or the new content.
 *
 * Beside PATH.txt there is PATH.jsonl: one JSON object per line with the same seven figures, the
 * writer's random number, the clock, the method, and the histogram, from which the figures over
 * several files can be computed. Its lines depend on the attributes:
 *	cumulative	one line, of all samples so far, replaced whenever the text is;
 *	windows		a line per window, which holds the samples of that window;
 *	compatible	one line, written at the end, of the last complete window, without a
 *			histogram.
 *
 * A struct statsfile belongs to one thread. It does I/O only in statsfile_open(), in
 * statsfile_add() when a window or a second is over, and in statsfile_close().
 */
#ifndef RDMABENCH_STATSFILE_H
#define RDMABENCH_STATSFILE_H

#include <stdbool.h>
#include <stdint.h>

#define STATSFILE_VERSION 2
#define STATSFILE_WRITER 32 /* digits of a writer's random number */
#define STATSFILE_INTERVAL_NS 1000000000ull /* between two writes of a cumulative file */

struct statsfile;

struct statsfile_attr {
	/*
	 * Either dir, for a file DIR/RUN/HOST-PROCESS-WRITER-ROLE.txt whose directories are
	 * created, or the exact path. WRITER has the first digits of a random number, because
	 * containers may have the same host name and process numbers. The JSON lines have all
	 * digits.
	 */
	const char *dir, *path;
	const char *run, *role; /* names that name_is_safe() accepts */
	const char *clock; /* name of the clock that measures the latencies; for the JSON lines */
	uint64_t window; /* samples of a window; 0: cumulative */
	bool compat; /* windows of STATS_COMPAT_WINDOW samples, by the compatible method */
};

/*
 * Checks that files can be written at the paths of the text and of the JSON lines, and writes
 * nothing yet. Returns 0. -EINVAL: neither dir nor path is set, or both are, or both window and
 * compat are, or run or role is not a safe name. -ENAMETOOLONG, -EISDIR, -ENOMEM, or -errno of
 * mkdir(2) or open(2).
 */
int statsfile_open(const struct statsfile_attr *attr, struct statsfile **f_p);

/*
 * Adds the latency of a request that completed at @now_ns of any monotonic clock. Returns 0, or
 * -errno if the files could not be written (-ENOSPC, ...); the sample is counted in both cases.
 */
int statsfile_add(struct statsfile *f, uint64_t latency_ns, uint64_t now_ns);

/*
 * Writes the samples that were not written yet, and frees the object. With compat, writes only the
 * JSON line, and drops an incomplete window. @f may be NULL. Returns 0 or -errno.
 */
int statsfile_close(struct statsfile *f);

/* Returns the path of the text; valid until statsfile_close(). */
const char *statsfile_path(const struct statsfile *f);

#endif
