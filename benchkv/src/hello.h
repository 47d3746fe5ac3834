/* SPDX-License-Identifier: MIT */
/* The first message of each rank to the others. */
#ifndef BENCHKV_HELLO_H
#define BENCHKV_HELLO_H

#include <stdbool.h>
#include <stdint.h>

#include "control.h"
#include "files.h"
#include "report.h"

#define HELLO_MAGIC 0x62656e63686b760aull

/* The figures from which K and B of auto are derived. */
enum basis {
	BY_DEFAULT,
	NOT_MEASURED,
	FROM_FILE,
	MEASURED,
	BASES,
};

struct hello {
	uint64_t magic; /* the program, and its version */
	uint64_t options; /* options_digest() */
	uint64_t cores; /* topo_cores_id() */
	uint64_t file_errno[FILES]; /* 0: it can write the file, or need not */
	uint64_t machine_errno; /* of rank 0; 0: it can use the machine file, or there is none */
	uint64_t window, full; /* K and B of auto, by rank 0, */
	uint64_t basis; /* and what they are derived from */
	struct control_times times;
	char host[HOST_NAME_SIZE]; /* launch_host() */
};

/*
 * True: a rank of this program can have sent it. K and B are then possible numbers, times are finite
 * and not negative, and the name of the host ends.
 */
bool hello_valid(const struct hello *h);

#endif
