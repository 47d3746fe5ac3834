/* SPDX-License-Identifier: MIT */
/*
 * The commands that make the traffic of a point (space.h). If both ends of a flow are on one
 * machine, a command with --fork starts both engines of a pair of processes; otherwise there is a
 * command for the server and one for the client. A command for another machine is run by ssh.
 */
#ifndef RDMABENCH_COMMANDS_H
#define RDMABENCH_COMMANDS_H

#include "remote.h"
#include "space.h"

#define ENDS_MAX 16 /* other machines */
#define COMMAND_WORDS 48
#define COMMAND_WORD 320 /* bytes of a word */
#define COMMAND_LINE 8192 /* bytes of a command for another machine */
#define COMMANDS_MAX (4 * SPACE_PROCESSES)

/* A machine at the other end of a flow. */
struct far_end {
	char host[256]; /* [USER@]HOST for ssh; "": the user has started engine --serve */
	char address[256]; /* the address to which engines connect */
};

struct trial_attr {
	const char *program; /* the path of rdmabench */
	const char *far_program; /* the path of rdmabench on machines that ssh reaches */
	const struct space *space;
	const char *host; /* [USER@]HOST of the measured device; NULL: this machine */
	const char *address; /* of the device's machine; NULL: other machines send nothing */
	struct far_end end[ENDS_MAX]; /* pairs of processes use them in turn */
	uint32_t n_ends; /* 0: both ends are on the machine of the measured device */
	uint32_t port; /* TCP port of engine --serve, and of the first server that is started */
	const char *device; /* the measured device; NULL: the first */
	const char *peer; /* device at the other end; NULL: the same, or another machine's first */
	const char *cpus, *nodes; /* of each engine, see place_bind(); NULL: any */
	double seconds; /* seconds of traffic */
	bool compat; /* statistics are written and merged by the compatible method */
	const char *stats_dir; /* for the statistics files; not used if is_far() */
};

/*
 * Returns true if a measurement needs other machines. Then the engines write their histograms to
 * their reports, otherwise to files.
 */
static inline bool is_far(const struct trial_attr *a)
{
	return a->host || a->n_ends;
}

/* A command, and the traffic that it makes. */
struct command {
	char text[COMMAND_WORDS][COMMAND_WORD], line[COMMAND_LINE], timeout[40];
	const char *argv[COMMAND_WORDS + 1];
	int n;
	bool fits; /* no text is too long */
	const char *host; /* where it runs; NULL: here */
	bool is_near; /* it runs on the machine of the measured device */
	bool is_client; /* the client; with --fork also the server */
	/* The traffic, if this is the client. */
	bool bidirectional;
	bool sends, receives; /* directions of the traffic at the measured device */
	/*
	 * Payload and packets of one pass of the pattern: [0] leave the side that posts the
	 * requests, [1] come back to it (READs).
	 */
	struct {
		double bytes, packets;
	} way[2];
	uint32_t batch; /* requests */
	bool has_rate;
};

/* Returns true if a command has room for this directory of statistics files. */
bool commands_fit(const char *stats_dir);

/*
 * Calls fn() for each command of a point; a server comes before its client. @name: of the run.
 * Returns false as soon as fn() does, or if a command is too long.
 */
bool commands_of(const struct trial_attr *a, const struct point *p, const char *name,
	bool (*fn)(void *arg, const struct command *c), void *arg);

#endif
