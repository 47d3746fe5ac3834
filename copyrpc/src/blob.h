/* SPDX-License-Identifier: MIT */
/*
 * What an endpoint tells its peer to be connected to: 96 bytes, little-endian.
 *
 *	 0  magic "CPRPCINF"      40  gid, 16 bytes; zero: addressed by LID
 *	 8  version, 2 bytes      56  address of the receive ring, 8
 *	10  length (96), 2        64  address of the consumer word, 8
 *	12  QPN, 4                72  rkey of the ring, 4
 *	16  PSN, 4                76  rkey of the word, 4
 *	20  LID, 2                80  ring size in bytes, 4
 *	22  MTU, 1 (1: 256 ...)   84  initial credit in bytes, 4
 *	23  RDMA reads served, 1  88  zero, 8
 *	24  1: handlers may call, 1
 *	25  zero, 15
 */
#ifndef COPYRPC_BLOB_H
#define COPYRPC_BLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BLOB_VERSION 1

struct blob {
	uint32_t qpn, psn;
	uint16_t lid;
	uint8_t mtu, rd_atomic;
	uint8_t gid[16];
	uint64_t ring_addr, word_addr;
	uint32_t ring_rkey, word_rkey;
	uint32_t ring_size, credit;
	bool nested;
};

void blob_encode(const struct blob *b, void *bytes);

/* -EINVAL: no such blob; -EPROTONOSUPPORT: of another version. What the fields say is
 * checked by those who use them. */
int blob_decode(struct blob *b, const void *bytes, size_t len);

#endif
