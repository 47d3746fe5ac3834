/* SPDX-License-Identifier: MIT */
#include "packet/frame.h"

#include <netinet/in.h>
#include <string.h>

#include "packet/icrc.h"
#include "packet/packet.h"

#define IPV4_BYTES 20u
#define IPV6_BYTES 40u
#define UDP_BYTES 8u
#define BTH_RESERVED 4 /* offset of the byte that routers may change */
#define DONT_FRAGMENT 0x40
#define IPV4_ID 4 /* offset of the identification */

static const uint8_t ipv4_prefix[GID_IPV4] = {[10] = 0xff, [11] = 0xff};

bool gid_is_ipv4(const uint8_t *gid)
{
	return !memcmp(gid, ipv4_prefix, sizeof(ipv4_prefix));
}

void gid_set_ipv4(uint8_t *gid, const void *ipv4)
{
	memcpy(gid, ipv4_prefix, sizeof(ipv4_prefix));
	memcpy(gid + GID_IPV4, ipv4, 4);
}

static bool is_ipv4(const struct flow *f)
{
	return gid_is_ipv4(f->src) && gid_is_ipv4(f->dst);
}

size_t frame_head_bytes(const struct flow *f)
{
	return (is_ipv4(f) ? IPV4_BYTES : IPV6_BYTES) + UDP_BYTES;
}

static void put16(uint8_t *at, uint32_t v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
}

/*
 * Returns @sum plus the bytes as 16-bit words, with the carries added, for the checksums of IP and
 * UDP. The result is not complemented yet.
 */
static uint32_t sum16(uint32_t sum, const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i + 1 < len; i += 2)
		sum += (uint32_t)bytes[i] << 8 | bytes[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static void put_ipv4(const struct flow *f, uint8_t *ip, size_t udp_len)
{
	memset(ip, 0, IPV4_BYTES);
	ip[0] = 4 << 4 | IPV4_BYTES / 4;
	ip[1] = f->traffic_class;
	put16(ip + 2, (uint32_t)(IPV4_BYTES + udp_len));
	ip[6] = DONT_FRAGMENT;
	ip[8] = f->hop_limit;
	ip[9] = IPPROTO_UDP;
	memcpy(ip + 12, f->src + GID_IPV4, 4);
	memcpy(ip + 16, f->dst + GID_IPV4, 4);
	put16(ip + 10, ~sum16(0, ip, IPV4_BYTES));
}

static void put_ipv6(const struct flow *f, uint8_t *ip, size_t udp_len)
{
	ip[0] = (uint8_t)(6 << 4 | f->traffic_class >> 4);
	ip[1] = (uint8_t)(f->traffic_class << 4 | (f->flow_label >> 16 & 0xf));
	put16(ip + 2, f->flow_label);
	put16(ip + 4, (uint32_t)udp_len);
	ip[6] = IPPROTO_UDP;
	ip[7] = f->hop_limit;
	memcpy(ip + 8, f->src, 16);
	memcpy(ip + 24, f->dst, 16);
}

static void put_udp(const struct flow *f, uint8_t *udp, size_t udp_len)
{
	put16(udp, f->src_port);
	put16(udp + 2, ROCE_PORT);
	put16(udp + 4, (uint32_t)udp_len);
	put16(udp + 6, 0);
}

/*
 * For IPv6 only: the checksum of IPv4 frames stays 0, which means "none". In IPv6 a checksum must
 * not be 0, so 0xffff replaces it.
 */
static void put_udp_checksum(const struct flow *f, uint8_t *udp, size_t udp_len)
{
	uint32_t sum = sum16(sum16(0, f->src, 16), f->dst, 16) + (uint32_t)udp_len + IPPROTO_UDP;

	sum = sum16(sum, udp, udp_len);
	put16(udp + 6, sum == 0xffff ? 0xffff : ~sum);
}

/*
 * Returns the CRC of the headers, with ones in the fields that routers change, and of the other
 * bytes.
 */
static uint32_t masked_crc(const uint8_t *head, size_t head_len, const uint8_t *bytes, size_t len)
{
	uint8_t masked[8 + FRAME_HEAD_MAX + BTH_RESERVED + 1];
	uint8_t *ip = masked + 8, *end = ip + head_len;

	memset(masked, 0xff, 8);
	memcpy(ip, head, head_len);
	if (ip[0] >> 4 == 4) {
		ip[1] = ip[8] = 0xff;
		put16(ip + 10, 0xffff);
	} else {
		ip[0] |= 0x0f;
		memset(ip + 1, 0xff, 3);
		ip[7] = 0xff;
	}
	put16(end - 2, 0xffff); /* UDP's checksum */
	memcpy(end, bytes, BTH_RESERVED);
	end[BTH_RESERVED] = 0xff;
	return crc_add(crc_add(CRC_START, masked, 8 + head_len + BTH_RESERVED + 1),
		bytes + BTH_RESERVED + 1, len - BTH_RESERVED - 1);
}

size_t frame_ip_header(const struct flow *f, uint8_t *ip, size_t len)
{
	if (is_ipv4(f))
		put_ipv4(f, ip, UDP_BYTES + len + ICRC_BYTES);
	else
		put_ipv6(f, ip, UDP_BYTES + len + ICRC_BYTES);
	return frame_head_bytes(f) - UDP_BYTES;
}

static void put_headers(const struct flow *f, uint8_t *head, size_t len)
{
	size_t ip = frame_ip_header(f, head, len);

	put_udp(f, head + ip, UDP_BYTES + len + ICRC_BYTES);
}

/*
 * Returns true if @diff can be the effect of an IPv4 identification. The ICRC covers the
 * identification, which a receiver does not know. The CRC is linear. @diff: the difference between
 * the packet's CRC and the CRC for identification 0. crc_undo() of @diff over the @behind bytes
 * from the identification on returns the identification itself, which has 16 bits.
 */
static bool differs_by_identification(uint32_t diff, size_t behind)
{
	return !(crc_undo(diff, behind) >> 16);
}

bool frame_check(const struct flow *f, const uint8_t *bytes, size_t len)
{
	uint8_t head[FRAME_HEAD_MAX];
	size_t n = frame_head_bytes(f);
	uint32_t diff = 0;

	if (gid_is_ipv4(f->src) != gid_is_ipv4(f->dst))
		return false;
	if (len < BTH_RESERVED + 1 + ICRC_BYTES)
		return false;
	len -= ICRC_BYTES;
	put_headers(f, head, len);
	for (size_t i = 0; i < ICRC_BYTES; i++)
		diff |= (uint32_t)bytes[len + i] << 8 * i;
	diff ^= ~masked_crc(head, n, bytes, len);
	return !diff || (is_ipv4(f) && differs_by_identification(diff, n - IPV4_ID + len));
}

size_t frame_seal(const struct flow *f, uint8_t *frame, size_t len)
{
	size_t head = frame_head_bytes(f);
	uint32_t crc;

	put_headers(f, frame, len);
	crc = ~masked_crc(frame, head, frame + head, len);
	for (size_t i = 0; i < ICRC_BYTES; i++)
		frame[head + len + i] = (uint8_t)(crc >> 8 * i);
	if (!is_ipv4(f))
		put_udp_checksum(f, frame + head - UDP_BYTES, UDP_BYTES + len + ICRC_BYTES);
	return head + len + ICRC_BYTES;
}
