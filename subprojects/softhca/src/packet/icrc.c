/* SPDX-License-Identifier: MIT */
#include "packet/icrc.h"

#include <string.h>

#define POLYNOMIAL 0xedb88320u /* 0x04c11db7, bits reversed */

/*
 * The CRC is linear, so the entry of a byte is the XOR of the entries of the byte's bits: SLICE()
 * makes all 256 entries from the entries for 1, 2, 4 ... 128.
 */
#define ENTRY(b, k0, k1, k2, k3, k4, k5, k6, k7)                                                   \
	(((b)&1 ? k0 : 0u) ^ ((b)&2 ? k1 : 0u) ^ ((b)&4 ? k2 : 0u) ^ ((b)&8 ? k3 : 0u) ^           \
		((b)&16 ? k4 : 0u) ^ ((b)&32 ? k5 : 0u) ^ ((b)&64 ? k6 : 0u) ^                     \
		((b)&128 ? k7 : 0u))
#define ENTRIES4(b, ...)                                                                           \
	ENTRY(b, __VA_ARGS__), ENTRY(b + 1, __VA_ARGS__), ENTRY(b + 2, __VA_ARGS__),               \
		ENTRY(b + 3, __VA_ARGS__)
#define ENTRIES16(b, ...)                                                                          \
	ENTRIES4(b, __VA_ARGS__), ENTRIES4(b + 4, __VA_ARGS__), ENTRIES4(b + 8, __VA_ARGS__),      \
		ENTRIES4(b + 12, __VA_ARGS__)
#define ENTRIES64(b, ...)                                                                          \
	ENTRIES16(b, __VA_ARGS__), ENTRIES16(b + 16, __VA_ARGS__), ENTRIES16(b + 32, __VA_ARGS__), \
		ENTRIES16(b + 48, __VA_ARGS__)
#define SLICE(...)                                                                                 \
	ENTRIES64(0, __VA_ARGS__), ENTRIES64(64, __VA_ARGS__), ENTRIES64(128, __VA_ARGS__),        \
		ENTRIES64(192, __VA_ARGS__)

/* table[k][b]: the CRC of byte b and k bytes of zeros after it. */
static const uint32_t table[8][256] = {
	{SLICE(0x77073096, 0xee0e612c, 0x076dc419, 0x0edb8832, 0x1db71064, 0x3b6e20c8, 0x76dc4190,
		0xedb88320)},
	{SLICE(0x191b3141, 0x32366282, 0x646cc504, 0xc8d98a08, 0x4ac21251, 0x958424a2, 0xf0794f05,
		0x3b83984b)},
	{SLICE(0x01c26a37, 0x0384d46e, 0x0709a8dc, 0x0e1351b8, 0x1c26a370, 0x384d46e0, 0x709a8dc0,
		0xe1351b80)},
	{SLICE(0xb8bc6765, 0xaa09c88b, 0x8f629757, 0xc5b428ef, 0x5019579f, 0xa032af3e, 0x9b14583d,
		0xed59b63b)},
	{SLICE(0x3d6029b0, 0x7ac05360, 0xf580a6c0, 0x30704bc1, 0x60e09782, 0xc1c12f04, 0x58f35849,
		0xb1e6b092)},
	{SLICE(0xcb5cd3a5, 0x4dc8a10b, 0x9b914216, 0xec53826d, 0x03d6029b, 0x07ac0536, 0x0f580a6c,
		0x1eb014d8)},
	{SLICE(0xa6770bb4, 0x979f1129, 0xf44f2413, 0x33ef4e67, 0x67de9cce, 0xcfbd399c, 0x440b7579,
		0x8816eaf2)},
	{SLICE(0xccaa009e, 0x4225077d, 0x844a0efa, 0xd3e51bb5, 0x7cbb312b, 0xf9766256, 0x299dc2ed,
		0x533b85da)},
};

uint32_t crc_add(uint32_t crc, const void *bytes, size_t len)
{
	const uint8_t *p = bytes;

	for (; len >= 8; len -= 8, p += 8) {
		uint32_t a, b;

		memcpy(&a, p, sizeof(a));
		memcpy(&b, p + sizeof(a), sizeof(b));
		a ^= crc;
		crc = table[7][a & 0xff] ^ table[6][a >> 8 & 0xff] ^ table[5][a >> 16 & 0xff] ^
		      table[4][a >> 24] ^ table[3][b & 0xff] ^ table[2][b >> 8 & 0xff] ^
		      table[1][b >> 16 & 0xff] ^ table[0][b >> 24];
	}
	while (len--)
		crc = crc >> 8 ^ table[0][(crc ^ *p++) & 0xff];
	return crc;
}

uint32_t crc_undo(uint32_t crc, size_t len)
{
	for (size_t i = 0; i < 8 * len; i++)
		crc = crc & UINT32_C(1) << 31 ? (crc ^ POLYNOMIAL) << 1 | 1 : crc << 1;
	return crc;
}
