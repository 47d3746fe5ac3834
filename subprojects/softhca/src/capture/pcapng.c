/* SPDX-License-Identifier: MIT */
#include "capture/pcapng.h"

#include <string.h>

#define BLOCK_SECTION 0x0a0d0d0au
#define BLOCK_INTERFACE 1u
#define BLOCK_PACKET 6u
#define BYTE_ORDER_MAGIC 0x1a2b3c4du
#define LINKTYPE_RAW 101 /* IPv4 or IPv6; the first four bits tell which */
#define OPT_END 0
#define OPT_COMMENT 1
#define OPT_APPLICATION 4 /* of a section */
#define OPT_NAME 2 /* of an interface */
#define OPT_RESOLUTION 9
#define NANOSECONDS 9 /* 10^-9 s */

/* Numbers have the host's byte order, which the section header shows. */
static uint8_t *put(uint8_t *at, const void *bytes, size_t len)
{
	memcpy(at, bytes, len);
	return at + len;
}

static uint8_t *put16(uint8_t *at, uint16_t v)
{
	return put(at, &v, sizeof(v));
}

static uint8_t *put32(uint8_t *at, uint32_t v)
{
	return put(at, &v, sizeof(v));
}

/* Does the same as put(), and adds zeros up to a multiple of 4 bytes. */
static uint8_t *put_padded(uint8_t *at, const void *bytes, size_t len)
{
	at = put(at, bytes, len);
	for (; len & 3; len++)
		*at++ = 0;
	return at;
}

static uint8_t *put_option(uint8_t *at, uint16_t code, const void *value, size_t len)
{
	return put_padded(put16(put16(at, code), (uint16_t)len), value, len);
}

/* Writes the length at both ends of the block that begins at @out and ends at @at. */
static size_t end_block(uint8_t *out, uint8_t *at)
{
	uint32_t len;

	at = put16(put16(at, OPT_END), 0);
	len = (uint32_t)(at - out) + (uint32_t)sizeof(len);
	put32(at, len);
	put32(out + 4, len);
	return len;
}

size_t pcapng_section(uint8_t *out, const char *application)
{
	static const uint64_t unknown_length = UINT64_MAX;
	uint8_t *at = put32(put32(put32(out, BLOCK_SECTION), 0), BYTE_ORDER_MAGIC);

	at = put(put16(put16(at, 1), 0), &unknown_length, sizeof(unknown_length));
	return end_block(out, put_option(at, OPT_APPLICATION, application, strlen(application)));
}

size_t pcapng_interface(uint8_t *out, const char *name)
{
	static const uint8_t resolution = NANOSECONDS;
	uint8_t *at = put32(put32(out, BLOCK_INTERFACE), 0);

	at = put32(put16(put16(at, LINKTYPE_RAW), 0), 0);
	at = put_option(at, OPT_NAME, name, strlen(name));
	return end_block(out, put_option(at, OPT_RESOLUTION, &resolution, sizeof(resolution)));
}

size_t pcapng_packet(uint8_t *out, uint32_t interface, uint64_t ns, const void *bytes, size_t len,
	const char *comment)
{
	uint8_t *at = put32(put32(put32(out, BLOCK_PACKET), 0), interface);
	size_t n = strnlen(comment, PCAPNG_COMMENT_MAX - 1);

	at = put32(put32(at, (uint32_t)(ns >> 32)), (uint32_t)ns);
	at = put32(put32(at, (uint32_t)len), (uint32_t)len);
	at = put_padded(at, bytes, len);
	return end_block(out, put_option(at, OPT_COMMENT, comment, n));
}
