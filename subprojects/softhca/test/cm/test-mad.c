/* SPDX-License-Identifier: MIT */
/* Encodes and decodes management datagrams, and checks the offsets of their fields. */
#include <errno.h>
#include <sys/socket.h>

#include "check.h"
#include "cm/cm.h"
#include "cm/mad.h"

/* Returns a message in which every field is set. */
static struct mad full(uint16_t type, uint8_t len)
{
	struct mad m = {.type = type,
		.tid = 0x1122334455667788,
		.local = 0xa1a2a3a4,
		.remote = 0xb1b2b3b4,
		.service = UINT64_C(0x106) << 16 | 4791,
		.guid = 0xc1c2c3c4c5c6c7c8,
		.pkey = 0x8001,
		.transport = 1,
		.mtu = 5,
		.ack_timeout = 18,
		.traffic_class = 0x68,
		.rejected = 2,
		.status = 0x1c,
		.remote_qpn = 0xd1d2d3,
		.src = {.family = AF_INET, .port = 1000},
		.dst = {.family = AF_INET, .port = 4791},
		.param = {.qpn = 0xe1e2e3,
			.qkey = 0x01234567,
			.psn = 0xf1f2f3,
			.ece_vendor = 0x15b3,
			.ece_options = 0x9192,
			.srq = 1,
			.responder_resources = 3,
			.initiator_depth = 5,
			.flow_control = 1,
			.retry_count = 6,
			.rnr_retry_count = 4,
			.data_len = len}};

	memcpy(m.src.ip, (uint8_t[16]){[10] = 0xff, 0xff, 10, 0, 0, 1}, 16);
	memcpy(m.dst.ip, (uint8_t[16]){[10] = 0xff, 0xff, 10, 0, 0, 2}, 16);
	for (int i = 0; i < 16; i++) {
		m.src_gid[i] = (uint8_t)(0x20 + i);
		m.dst_gid[i] = (uint8_t)(0x40 + i);
	}
	for (int i = 0; i < len; i++)
		m.param.data[i] = (uint8_t)(i + 1);
	return m;
}

static struct mad through(const struct mad *m, uint8_t bytes[MAD_BYTES])
{
	struct mad back;

	mad_encode(m, bytes);
	CHECK_EQ(mad_decode(bytes, MAD_BYTES, &back), 0);
	CHECK_EQ(back.type, m->type);
	CHECK_EQ(back.tid, m->tid);
	CHECK_EQ(back.param.data_len, m->param.data_len);
	CHECK(!memcmp(back.param.data, m->param.data, m->param.data_len));
	return back;
}

#define SAME(field) CHECK_EQ(back.field, m.field)

static void at(const uint8_t *bytes, size_t offset, const void *want, size_t len)
{
	CHECK(!memcmp(bytes + offset, want, len));
}

TEST(request)
{
	struct mad m = full(MAD_REQ, CM_REQ_DATA), back;
	uint8_t bytes[MAD_BYTES];

	for (int v6 = 0; v6 < 2; v6++) {
		if (v6) {
			m.src.family = m.dst.family = AF_INET6;
			memset(m.src.ip, 0x61, sizeof(m.src.ip));
			memset(m.dst.ip, 0x62, sizeof(m.dst.ip));
		}
		back = through(&m, bytes);
		SAME(local);
		SAME(service);
		SAME(guid);
		SAME(pkey);
		SAME(transport);
		SAME(mtu);
		SAME(ack_timeout);
		SAME(traffic_class);
		SAME(param.qpn);
		SAME(param.psn);
		SAME(param.ece_vendor);
		SAME(param.ece_options);
		SAME(param.srq);
		SAME(param.responder_resources);
		SAME(param.initiator_depth);
		SAME(param.flow_control);
		SAME(param.retry_count);
		SAME(param.rnr_retry_count);
		CHECK(!memcmp(back.src_gid, m.src_gid, 16) && !memcmp(back.dst_gid, m.dst_gid, 16));
		CHECK(!memcmp(&back.src, &m.src, sizeof(m.src)));
		CHECK(!memcmp(&back.dst, &m.dst, sizeof(m.dst)));
	}
}

/*
 * The offsets in InfiniBand's tables of the messages, and in the annex on IP addresses, count from
 * the end of the MAD's header, which has 24 bytes.
 */
TEST(places)
{
	struct mad m = full(MAD_REQ, CM_REQ_DATA);
	uint8_t bytes[MAD_BYTES];

	mad_encode(&m, bytes);
	at(bytes, 0,
		"\x01\x07\x02\x03\0\0\0\0\x11\x22\x33\x44\x55\x66\x77\x88\0\x10\0\0\0\0\x91\x92",
		24);
	at(bytes, 24, "\xa1\xa2\xa3\xa4\0\0\x15\xb3\0\0\0\0\x01\x06\x12\xb7", 16);
	at(bytes, 24 + 32, "\xe1\xe2\xe3\x03\0\0\0\x05", 8);
	at(bytes, 24 + 43, "\x83\xf1\xf2\xf3\x86\x80\x01\x54\xf8\xff\xff\xff\xff\x20", 14);
	at(bytes, 24 + 91, "\x0f\x68\x40\x08\x90", 5);
	at(bytes, 24 + 140,
		"\0\x40\x03\xe8\0\0\0\0\0\0\0\0\0\0\0\0\x0a\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\x0a\0\0\x02\x01",
		37);
	m = full(MAD_REP, CM_REP_DATA);
	mad_encode(&m, bytes);
	at(bytes, 24,
		"\xa1\xa2\xa3\xa4\xb1\xb2\xb3\xb4\0\0\0\0\xe1\xe2\xe3\0\0\0\0\x15\xf1\xf2\xf3\xb3\x03\x05\x01\x90\xc1",
		29);
	at(bytes, 24 + 36, "\x01", 1);
	m = full(MAD_REJ, CM_REJ_DATA);
	mad_encode(&m, bytes);
	at(bytes, 24, "\xa1\xa2\xa3\xa4\xb1\xb2\xb3\xb4\x80\0\0\x1c", 12);
	at(bytes, 24 + 84, "\x01", 1);
	m = full(MAD_DREQ, 0);
	mad_encode(&m, bytes);
	at(bytes, 24 + 8, "\xd1\xd2\xd3\0", 4);
	m = full(MAD_SIDR_REQ, CM_SIDR_REQ_DATA);
	mad_encode(&m, bytes);
	at(bytes, 24, "\xa1\xa2\xa3\xa4\x80\x01\0\0\0\0\0\0\x01\x06\x12\xb7\0\x40", 18);
	m = full(MAD_SIDR_REP, CM_SIDR_REP_DATA);
	mad_encode(&m, bytes);
	at(bytes, 24,
		"\xb1\xb2\xb3\xb4\x1c\0\0\0\xe1\xe2\xe3\0\0\0\0\0\x01\x06\x12\xb7\x01\x23\x45\x67",
		24);
	at(bytes, 24 + 96, "\x01", 1);
}

TEST(answers)
{
	static const uint16_t types[] = {MAD_REP, MAD_REJ, MAD_RTU, MAD_DREQ, MAD_DREP};
	static const uint8_t lens[] = {CM_REP_DATA, CM_REJ_DATA, 0, 0, 0};
	uint8_t bytes[MAD_BYTES];

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct mad m = full(types[i], lens[i]), back = through(&m, bytes);

		SAME(local);
		SAME(remote);
	}
	through(&(struct mad){.type = MAD_SIDR_REP, .param.data_len = CM_SIDR_REP_DATA}, bytes);
}

/* A message with a flipped bit is refused or decoded. A decoded message can be encoded. */
TEST(refused)
{
	struct mad m = full(MAD_REQ, CM_REQ_DATA), back;
	uint8_t bytes[MAD_BYTES + 1] = {0}, copy[MAD_BYTES];

	mad_encode(&m, bytes);
	CHECK_EQ(mad_decode(bytes, MAD_BYTES - 1, &back), -EINVAL);
	CHECK_EQ(mad_decode(bytes, MAD_BYTES + 1, &back), -EINVAL);
	for (size_t i = 0; i < 8 * MAD_BYTES; i++) {
		memcpy(copy, bytes, sizeof(copy));
		copy[i / 8] ^= (uint8_t)(1 << i % 8);
		if (mad_decode(copy, MAD_BYTES, &back)) {
			CHECK(i / 8 < 24 || i / 8 == 24 + 140 || i / 8 == 24 + 141);
			continue;
		}
		CHECK(i / 8 > 3); /* the constants of the header */
		mad_encode(&back, copy);
	}
	bytes[24 + 140] = 1; /* another version of the addresses */
	CHECK_EQ(mad_decode(bytes, MAD_BYTES, &back), -EINVAL);
	bytes[24 + 140] = 0;
	bytes[24 + 141] = 0x50; /* neither IPv4 nor IPv6 */
	CHECK_EQ(mad_decode(bytes, MAD_BYTES, &back), -EINVAL);
}
