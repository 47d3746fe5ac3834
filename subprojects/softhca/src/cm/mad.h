/* SPDX-License-Identifier: MIT */
/*
 * Encodes and decodes the messages of InfiniBand's communication manager, which are management
 * datagrams (MADs) of QP 1. The functions keep no state.
 */
#ifndef SOFTHCA_CM_MAD_H
#define SOFTHCA_CM_MAD_H

#include <stddef.h>
#include <stdint.h>

#include "fabric/cm_ids.h"

#define MAD_BYTES 256u
#define MAD_QPN 1u /* of both ends */
#define MAD_QKEY 0x80010000u

enum mad_type {
	MAD_REQ = 0x10,
	MAD_REJ = 0x12,
	MAD_REP = 0x13,
	MAD_RTU = 0x14,
	MAD_DREQ = 0x15,
	MAD_DREP = 0x16,
	MAD_SIDR_REQ = 0x17,
	MAD_SIDR_REP = 0x18,
};

/* Values of mad.rejected. */
#define MAD_REJECTED_REQ 0
#define MAD_REJECTED_REP 1
#define MAD_REJECTED_OTHER 2

/* Fields that messages of a type do not have are 0. */
struct mad {
	uint16_t type; /* enum mad_type */
	uint64_t tid;
	uint32_t local, remote; /* communication ids of the sender and of the receiver */
	uint64_t service; /* REQ, SIDR: port space and port */
	uint64_t guid; /* REQ, REP: of the sender's adapter */
	uint16_t pkey; /* REQ, SIDR_REQ */
	uint8_t transport; /* REQ: 0: RC, 1: UC */
	uint8_t mtu; /* REQ: enum ibv_mtu */
	uint8_t ack_timeout; /* REQ */
	uint8_t traffic_class; /* REQ */
	uint8_t rejected; /* REJ */
	uint16_t status; /* REJ: reason; SIDR_REP */
	uint32_t remote_qpn; /* DREQ */
	uint8_t src_gid[16], dst_gid[16]; /* REQ */
	struct cm_addr src, dst; /* REQ, SIDR_REQ */
	struct cm_param param; /* data_len: of the program's private data, without the addresses */
};

void mad_encode(const struct mad *m, uint8_t out[MAD_BYTES]);

/*
 * Returns 0, or -EINVAL if the length, version, class or method is not that of a CM message, the
 * type is unknown, or the RDMA CM's header has another version or other addresses than IPv4 and
 * IPv6.
 */
int mad_decode(const uint8_t *bytes, size_t len, struct mad *m_p);

#endif
