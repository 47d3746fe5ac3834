/* SPDX-License-Identifier: MIT */
/* Compares packets with scapy's, encodes and decodes each opcode, cuts messages into packets. */
#include <errno.h>
#include <stdint.h>

#include "check.h"
#include "packet/frame.h"
#include "packet/icrc.h"
#include "packet/message.h"
#include "packet/packet.h"

static size_t from_hex(const char *hex, uint8_t *out)
{
	size_t n = strlen(hex) / 2;

	for (size_t i = 0; i < n; i++) {
		unsigned v;

		CHECK_EQ(sscanf(hex + 2 * i, "%2x", &v), 1);
		out[i] = (uint8_t)v;
	}
	return n;
}

static struct flow ipv4_flow(uint8_t a, uint8_t b, uint8_t c, uint8_t from, uint8_t to)
{
	struct flow f = {.src = {[10] = 0xff, [11] = 0xff, a, b, c, from},
		.dst = {[10] = 0xff, [11] = 0xff, a, b, c, to},
		.hop_limit = 64,
		.src_port = 49152};

	return f;
}

static struct flow ipv6_flow(void)
{
	return (struct flow){
		.src = {0xfe, 0x80, [9] = 0x45, 0x03, 0xff, 0xfe, 0, 0, 1, [8] = 2},
		.dst = {0xfe, 0x80, [9] = 0x45, 0x03, 0xff, 0xfe, 0, 0, 2, [8] = 2},
		.src_port = 0xc001,
		.traffic_class = 0x1b,
		.flow_label = 0x12345,
		.hop_limit = 255,
	};
}

/* Sets the identification in the IPv4 header of a frame, and the ICRC that fits it. */
static void set_identification(uint8_t *frame, size_t n, uint8_t id)
{
	uint8_t masked[8 + 256];
	uint32_t crc;

	frame[4] = id;
	memset(masked, 0xff, 8);
	memcpy(masked + 8, frame, n);
	masked[8 + 1] = masked[8 + 8] = masked[8 + 10] = masked[8 + 11] = 0xff;
	masked[8 + 26] = masked[8 + 27] = masked[8 + 32] = 0xff;
	crc = ~crc_add(CRC_START, masked, 8 + n - ICRC_BYTES);
	for (size_t i = 0; i < ICRC_BYTES; i++)
		frame[n - ICRC_BYTES + i] = (uint8_t)(crc >> 8 * i);
}

/*
 * With IPv4, 1 of 65,536 random ICRCs passes, because frame_check() accepts an ICRC that fits any
 * identification; with IPv6, none.
 */
static void random_icrcs(const struct flow *f, uint8_t *frame, size_t n)
{
	size_t head = frame_head_bytes(f);
	uint8_t icrc[ICRC_BYTES];
	uint64_t seed = 1;
	uint32_t passed = 0;

	memcpy(icrc, frame + n - ICRC_BYTES, ICRC_BYTES);
	for (int i = 0; i < 400000; i++) {
		uint32_t value;

		seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		value = (uint32_t)(seed >> 32);
		memcpy(frame + n - ICRC_BYTES, &value, ICRC_BYTES);
		passed += frame_check(f, frame + head, n - head);
	}
	CHECK(gid_is_ipv4(f->src) ? passed > 0 && passed < 25 : !passed);
	memcpy(frame + n - ICRC_BYTES, icrc, ICRC_BYTES);
}

/*
 * An intact frame passes, even if byte 4 of the BTH, which the ICRC does not cover, has changed. A
 * frame that is damaged elsewhere, or has another address or source port, does not pass.
 */
static void is_checked(const struct flow *f, uint8_t *frame, size_t n)
{
	size_t head = frame_head_bytes(f);
	struct flow other = *f;

	CHECK(frame_check(f, frame + head, n - head));
	for (size_t i = head; i < n; i++)
		for (int bit = 1; bit < 256; bit <<= 1) {
			frame[i] ^= (uint8_t)bit;
			CHECK_EQ(frame_check(f, frame + head, n - head), i == head + 4);
			frame[i] ^= (uint8_t)bit;
		}
	for (size_t len = 0; len < n - head; len++)
		CHECK(!frame_check(f, frame + head, len));
	other.src_port ^= 1;
	CHECK(!frame_check(&other, frame + head, n - head));
	other = *f;
	other.dst[15] ^= 1;
	CHECK(!frame_check(&other, frame + head, n - head));
	other = *f;
	other.traffic_class ^= 0xff;
	other.flow_label ^= 0xfffff;
	other.hop_limit ^= 0xff;
	CHECK(frame_check(&other, frame + head, n - head)); /* what routers change */
	random_icrcs(f, frame, n);
	if (!gid_is_ipv4(f->src))
		return;
	set_identification(frame, n, 0x5a);
	CHECK(frame_check(f, frame + head, n - head));
	frame[n - 1] ^= 1;
	CHECK(!frame_check(f, frame + head, n - head));
}

/* The frame of packet @p of flow @f is exactly @hex, and decodes to the packet again. */
static void is_frame(const struct flow *f, const struct packet *p, const char *payload,
	const char *hex)
{
	uint8_t frame[256] = {0}, want[256];
	size_t head = frame_head_bytes(f), n = from_hex(hex, want), len;
	struct packet back;
	int r;

	len = packet_encode(p, frame + head);
	CHECK_EQ(len, packet_header_bytes(p->opcode));
	memcpy(frame + head + len, payload, p->payload);
	len += p->payload + packet_padding(p->payload);
	CHECK_EQ(frame_seal(f, frame, len), n);
	CHECK(!memcmp(frame, want, n));
	r = packet_decode(frame + head, len, &back);
	CHECK_EQ(r, packet_header_bytes(p->opcode));
	CHECK(!memcmp(p, &back, sizeof(back)));
	CHECK(!memcmp(frame + head + r, payload, p->payload));
	is_checked(f, frame, n);
}

TEST(frames)
{
	struct flow f = ipv4_flow(10, 0, 0, 1, 2);

	f.src_port = 0xc123;
	f.traffic_class = 8;
	is_frame(&f,
		&(struct packet){.opcode = PO_ACK,
			.pkey = 0xffff,
			.dest_qpn = 0x123456,
			.psn = 0xabcdef,
			.syndrome = AETH_ACK,
			.msn = 7},
		"",
		"4508003000004000401126b30a0000010a000002c12312b7001c00001140ffff0012345600abcdef"
		"1f0000072b69cc89");
	f = ipv4_flow(192, 168, 1, 7, 9);
	f.hop_limit = 1;
	is_frame(&f,
		&(struct packet){.opcode = PO_WRITE_ONLY_IMM,
			.solicited = true,
			.ack_requested = true,
			.pkey = 0xffff,
			.dest_qpn = 0x11,
			.psn = 1,
			.raddr = 0x1122334455667788,
			.rkey = 0x99aabbcc,
			.length = 5,
			.imm = 0xefbeadde, /* deadbeef on the wire */
			.payload = 5},
		"hello",
		"45000048000040000111f644c0a80107c0a80109c00012b7003400000bf0ffff0000001180000001"
		"112233445566778899aabbcc00000005deadbeef68656c6c6f0000004a5b7d3d");
	f = ipv6_flow();
	is_frame(&f,
		&(struct packet){.opcode = PT_UD | PO_SEND_ONLY,
			.pkey = 0xffff,
			.dest_qpn = 0x42,
			.psn = 9,
			.qkey = 0x11111111,
			.src_qpn = 0x77,
			.payload = 2},
		"ab",
		"61b12345002411fffe80000000000000024503fffe000001fe80000000000000024503fffe000002"
		"c00112b70024e08a6460ffff0000004200000009111111110000007761620000d0cb8d61");
}

/* An IPv4 address is not possible in an IPv6 header. */
TEST(mixed_families)
{
	struct flow v4 = ipv4_flow(10, 0, 0, 1, 2), f = ipv6_flow();
	uint8_t frame[FRAME_HEAD_MAX + 16 + ICRC_BYTES] = {0};
	size_t n;

	memcpy(f.src, v4.src, sizeof(f.src));
	n = frame_seal(&f, frame, 16);
	CHECK(!frame_check(&f, frame + FRAME_HEAD_MAX, n - FRAME_HEAD_MAX));
	f = ipv6_flow();
	memcpy(f.dst, v4.dst, sizeof(f.dst));
	n = frame_seal(&f, frame, 16);
	CHECK(!frame_check(&f, frame + FRAME_HEAD_MAX, n - FRAME_HEAD_MAX));
}

/* The published check value of CRC-32, computed in one call, and in two with each possible cut. */
TEST(crc)
{
	static const char digits[] = "123456789";

	CHECK_EQ(~crc_add(CRC_START, digits, 9), 0xcbf43926);
	for (size_t cut = 0; cut <= 9; cut++)
		CHECK_EQ(~crc_add(crc_add(CRC_START, digits, cut), digits + cut, 9 - cut),
			0xcbf43926);
}

/* The struct's padding is 0, as from packet_decode(), because packets are compared as bytes. */
static void fill(struct packet *p, uint8_t opcode, uint32_t payload)
{
	uint32_t t = packet_traits(opcode);

	memset(p, 0, sizeof(*p));
	p->opcode = opcode;
	p->solicited = opcode & 1;
	p->ack_requested = opcode & 2;
	p->pkey = 0x8001;
	p->dest_qpn = 0xabcdef;
	p->psn = 0xfedcba;
	p->payload = t & PK_PAYLOAD ? payload : 0;

	if (t & PK_DETH) {
		p->qkey = 0x80010203;
		p->src_qpn = 0x123456;
	}
	if (t & (PK_RETH | PK_ATOMIC)) {
		p->raddr = 0x0102030405060708;
		p->rkey = 0x11121314;
	}
	if (t & PK_RETH)
		p->length = 0x21222324;
	if (t & PK_ATOMIC) {
		p->swap_add = 0x3132333435363738;
		p->compare = 0x4142434445464748;
	}
	if (t & PK_AETH) {
		p->syndrome = AETH_RNR | 12;
		p->msn = 0x515253;
	}
	if (t & PK_ATOMIC_ACK)
		p->original = 0x6162636465666768;
	if (t & PK_IMM)
		p->imm = 0x71727374;
}

/*
 * A packet of each opcode decodes to what was encoded. Packets that are shorter than their headers
 * and padding, or have another wrong length, an unknown opcode or another version, are refused.
 */
TEST(there_and_back)
{
	uint8_t bytes[PACKET_HEADERS_MAX + 8] = {0};
	struct packet p, q;
	unsigned known = 0;

	for (unsigned op = 0; op < 256; op++) {
		size_t head = packet_header_bytes((uint8_t)op), len;

		if (!packet_traits((uint8_t)op)) {
			bytes[0] = (uint8_t)op;
			CHECK_EQ(packet_decode(bytes, sizeof(bytes), &q), -EINVAL);
			continue;
		}
		known++;
		CHECK(head <= PACKET_HEADERS_MAX);
		for (uint32_t payload = 0; payload < 5; payload++) {
			fill(&p, (uint8_t)op, payload);
			CHECK_EQ(packet_encode(&p, bytes), head);
			len = head + p.payload + packet_padding(p.payload);
			CHECK_EQ(packet_decode(bytes, len, &q), head);
			CHECK(!memcmp(&p, &q, sizeof(p)));
			for (size_t n = 0; n < head + packet_padding(p.payload); n++)
				CHECK_EQ(packet_decode(bytes, n, &q), -EINVAL);
			CHECK_EQ(packet_decode(bytes, len + 1, &q), -EINVAL);
			if (!(packet_traits((uint8_t)op) & PK_PAYLOAD))
				CHECK_EQ(packet_decode(bytes, len + 4, &q), -EINVAL);
			bytes[1] |= 1; /* another version */
			CHECK_EQ(packet_decode(bytes, len, &q), -EINVAL);
		}
	}
	CHECK_EQ(known, 21 + 12 + 2);
}

/* The packets of a message cover it, once and in order. */
static void covers(enum message_kind kind, uint32_t length, uint32_t mtu)
{
	struct message m = {.kind = kind,
		.length = length,
		.mtu = mtu,
		.psn = 0xfffffe,
		.has_imm = kind != MSG_READ,
		.solicited = true,
		.imm = 5};
	uint32_t n = message_packets(&m), at = 0;
	struct packet p;

	CHECK_EQ(n, length ? (length + mtu - 1) / mtu : 1);
	CHECK_EQ(message_requests(&m), kind == MSG_READ ? 1 : n);
	for (uint32_t i = 0; i < n; i++) {
		if (kind == MSG_READ)
			message_response(&m, i, &p);
		else
			message_request(&m, i, &p);
		CHECK_EQ(p.psn, (0xfffffe + i) & 0xffffff);
		CHECK_EQ(!!(packet_traits(p.opcode) & PK_FIRST), i == 0);
		CHECK_EQ(!!(packet_traits(p.opcode) & PK_LAST), i + 1 == n);
		CHECK_EQ(!!(packet_traits(p.opcode) & PK_IMM), kind != MSG_READ && i + 1 == n);
		CHECK_EQ(p.ack_requested, kind != MSG_READ && i + 1 == n);
		CHECK_EQ(p.solicited, kind != MSG_READ && i + 1 == n);
		CHECK(p.payload == mtu || i + 1 == n);
		at += p.payload;
	}
	CHECK_EQ(at, length);
}

TEST(messages)
{
	static const uint32_t lengths[] = {0, 1, 255, 256, 257, 512, 1000, 65536, 65537};
	struct message m = {.kind = MSG_FETCH_ADD, .length = 8, .mtu = 256, .swap_add = 3};
	struct packet p;

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++)
		for (uint32_t mtu = 256; mtu <= 4096; mtu *= 2)
			for (int kind = MSG_SEND; kind <= MSG_READ; kind++)
				covers(kind, lengths[i], mtu);
	message_request(&m, 0, &p);
	CHECK_EQ(p.opcode, PO_FETCH_ADD);
	CHECK_EQ(p.swap_add, 3);
	CHECK_EQ(p.payload, 0);
	message_response(&m, 0, &p);
	CHECK_EQ(p.opcode, PO_ATOMIC_ACK);
	m.kind = MSG_NOP;
	CHECK_EQ(message_packets(&m), 0);
	m.kind = MSG_COMPARE_SWAP;
	message_request(&m, 0, &p);
	CHECK_EQ(p.opcode, PO_COMPARE_SWAP);
	m = (struct message){.transport = PT_UD, .length = 4, .mtu = 256, .qkey = 6, .src_qpn = 7};
	message_request(&m, 0, &p);
	CHECK_EQ(p.opcode, PT_UD | PO_SEND_ONLY);
	CHECK_EQ(p.qkey, 6);
	CHECK_EQ(p.src_qpn, 7);
	CHECK(!p.ack_requested);
}

TEST(distances)
{
	CHECK_EQ(psn_distance(0xfffffe, 3), 5);
	CHECK_EQ(psn_distance(3, 0xfffffe), -5);
	CHECK_EQ(psn_distance(0, 0x7fffff), 0x7fffff);
	CHECK_EQ(psn_distance(0, 0x800000), -0x800000);
}
