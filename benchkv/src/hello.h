/* SPDX-License-Identifier: MIT */
/*
 * The first message that each rank sends to the others: its version, its options, and the port of
 * its device. Every rank reads all of them and checks that each rank can run with rank 0.
 */
#ifndef BENCHKV_HELLO_H
#define BENCHKV_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control.h"
#include "files.h"
#include "hca.h"
#include "options.h"

#define HELLO_MAGIC 0x62656e63686b7600ull
#define HELLO_VERSION_SIZE 24
#define HOST_NAME_SIZE 64

/* The source of the figures from which the control `auto` (control.h) derives K and B. */
enum basis {
	BY_DEFAULT,
	NOT_MEASURED,
	FROM_FILE,
	MEASURED,
	BASES,
};

/* The beginning of the message. All versions have these fields. */
struct hello_id {
	uint64_t magic; /* the program */
	char version[HELLO_VERSION_SIZE];
	char host[HOST_NAME_SIZE]; /* of struct launch */
};

struct hello {
	struct hello_id id;
	uint64_t options[OPTIONS_FIELDS];
	uint64_t cores; /* topo_cores_id() */
	uint64_t file_errno[FILES]; /* 0: the rank can write the file, or need not */
	uint64_t machine_errno; /* of rank 0; 0: it has read the --machine file, or need not */
	uint64_t port_errno; /* 0: the rank can use its port, or needs none */
	struct hca_port port;
	char device[HCA_NAME_MAX]; /* "": no device was found, and --device names none */
	uint64_t window, full; /* K and B (control.h); those of rank 0 hold if they are derived */
	uint64_t basis; /* enum basis: the source of K and B */
	struct control_times times;
};

/* Fills in h->id. */
void hello_sign(struct hello *h, const char *host);

/*
 * True: the message can come from a rank of this program: K and B are in range, times are finite
 * and not negative, and strings are terminated.
 */
bool hello_valid(const struct hello *h);

/*
 * Reads the message of a rank. 0, or -EPROTO with one line in @why: the rank has another version,
 * or another build of the same one, or is not benchkv.
 */
int hello_read(const void *data, size_t len, uint32_t rank, struct hello *h_p, char *why,
	size_t size);

/* 0, or -EINVAL with one line in @why: why this rank cannot run with rank 0. */
int hello_fits(const struct hello *first, const struct hello *h, uint32_t rank, char *why,
	size_t size);

/* Returns true if this rank has another MTU than rank 0; one line in @why then names both. */
bool hello_mtu_differs(const struct hello *first, const struct hello *h, uint32_t rank, char *why,
	size_t size);

#endif
