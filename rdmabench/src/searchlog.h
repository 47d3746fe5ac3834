/* SPDX-License-Identifier: MIT */
/*
 * The directory of a search:
 *
 *	journal.jsonl			a header, then a line per measurement, which a resumed
 *					search replays
 *	result/N			the result of try N, from 0
 *	reproduce/N.sh			the commands that try N ran
 *	result/again/N/I-WHAT		a measurement for certainty about the anomaly of try N
 *	reproduce/again/N/I-WHAT.sh
 *	result/mfs_help/A/I-WHAT	a measurement for the conditions of anomaly A
 *	reproduce/mfs_help/A/I-WHAT.sh
 *	target/A			anomaly A: try, point, features, whole
 *	stats/RUN/			statistics files of the engines
 *
 * I is explore_ask.part, and WHAT is explore_ask.what (explore.h).
 */
#ifndef RDMABENCH_SEARCHLOG_H
#define RDMABENCH_SEARCHLOG_H

#include <jansson.h>

#include "explore.h"

#define SEARCHLOG_VERSION 7 /* of the journal; changes if a replay would lead to other decisions */

struct searchlog;

enum searchlog_mode { SEARCHLOG_NEW, SEARCHLOG_RESUME, SEARCHLOG_FORCE };

/*
 * Opens a directory. A new search needs a directory that does not exist, or is empty; FORCE removes
 * only the files of an earlier search; RESUME needs the same header (borrowed) in the directory.
 * The directory is locked until searchlog_close(). Returns 0, or -errno with a line in @why.
 * -EBUSY: another search writes there.
 */
int searchlog_open(const char *dir, enum searchlog_mode mode, const struct space *space,
	json_t *header, struct searchlog **log_p, char *why, size_t size);
void searchlog_close(struct searchlog *log);

/*
 * Reads the next measurement from the journal. Returns 1 with the result and *err_p, or 0 if there
 * are no more. -EBADMSG: the next measurement is of another point.
 */
int searchlog_replay(struct searchlog *log, const struct explore_ask *ask, struct measure *m_p,
	int *err_p);

/* Empties the journal, so that a resumed search repeats all measurements. Returns 0 or -errno. */
int searchlog_forget(struct searchlog *log);

/*
 * Writes result, script and journal line of a measurement; the caller passes the script's text.
 */
int searchlog_write(struct searchlog *log, const struct explore_ask *ask, const struct measure *m,
	int err, const struct rules *rules, const char *script);

/*
 * Removes the statistics of an interrupted measurement with this name; otherwise the new statistics
 * would be added to them. Returns 0 or -errno.
 */
int searchlog_clear(const struct searchlog *log, const char *name);

/* Names the next measurement: "12", "again-12-3" or "mfs-0-7". */
void searchlog_name(const struct searchlog *log, const struct explore_ask *ask, char *name,
	size_t size);

/* Writes target/A. */
int searchlog_target(struct searchlog *log, uint32_t anomaly, const struct feature_set *f,
	uint32_t found_at);

#endif
