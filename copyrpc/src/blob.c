/* SPDX-License-Identifier: MIT */
#include "blob.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "copyrpc.h"

static const char magic[8] = {'C', 'P', 'R', 'P', 'C', 'I', 'N', 'F'};

struct blob_bytes {
	char magic[8];
	uint16_t version, len;
	uint32_t qpn, psn;
	uint16_t lid;
	uint8_t mtu, rd_atomic;
	uint8_t nested;
	uint8_t zero[15];
	uint8_t gid[16];
	uint64_t ring_addr, word_addr;
	uint32_t ring_rkey, word_rkey;
	uint32_t ring_size, credit;
	uint64_t number;
};
static_assert(sizeof(struct blob_bytes) == COPYRPC_INFO_SIZE, "no holes");
static_assert(offsetof(struct blob_bytes, lid) == 20, "");
static_assert(offsetof(struct blob_bytes, gid) == 40, "");
static_assert(offsetof(struct blob_bytes, ring_rkey) == 72, "");
static_assert(offsetof(struct blob_bytes, number) == 88, "");

void blob_encode(const struct blob *b, void *bytes)
{
	struct blob_bytes w = {
		.version = htole16(BLOB_VERSION),
		.len = htole16(sizeof(w)),
		.qpn = htole32(b->qp.qpn),
		.psn = htole32(b->qp.psn),
		.lid = htole16(b->qp.lid),
		.mtu = b->qp.mtu,
		.rd_atomic = b->qp.rd_atomic,
		.nested = b->nested,
		.ring_addr = htole64(b->ring_addr),
		.word_addr = htole64(b->word_addr),
		.ring_rkey = htole32(b->ring_rkey),
		.word_rkey = htole32(b->word_rkey),
		.ring_size = htole32(b->ring_size),
		.credit = htole32(b->credit),
		.number = htole64(b->number),
	};

	memcpy(w.magic, magic, sizeof(magic));
	memcpy(w.gid, b->qp.gid, sizeof(w.gid));
	memcpy(bytes, &w, sizeof(w));
}

int blob_decode(struct blob *b, const void *bytes, size_t len)
{
	static const uint8_t zero[16];
	struct blob_bytes w;

	if (len != sizeof(w))
		return -EINVAL;
	memcpy(&w, bytes, sizeof(w));
	if (memcmp(w.magic, magic, sizeof(magic)))
		return -EINVAL;
	if (le16toh(w.version) != BLOB_VERSION)
		return -EPROTONOSUPPORT;
	if (le16toh(w.len) != sizeof(w) || w.nested > 1 || memcmp(w.zero, zero, sizeof(w.zero)))
		return -EINVAL;
	*b = (struct blob){
		.qp = {.qpn = le32toh(w.qpn),
			.psn = le32toh(w.psn),
			.lid = le16toh(w.lid),
			.mtu = w.mtu,
			.rd_atomic = w.rd_atomic},
		.nested = w.nested,
		.ring_addr = le64toh(w.ring_addr),
		.word_addr = le64toh(w.word_addr),
		.ring_rkey = le32toh(w.ring_rkey),
		.word_rkey = le32toh(w.word_rkey),
		.ring_size = le32toh(w.ring_size),
		.credit = le32toh(w.credit),
		.number = le64toh(w.number),
	};
	memcpy(b->qp.gid, w.gid, sizeof(b->qp.gid));
	return 0;
}
