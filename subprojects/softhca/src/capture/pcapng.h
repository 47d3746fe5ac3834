/* SPDX-License-Identifier: MIT */
/* The blocks of a pcapng file, in memory. Packets begin with their IP header. */
#ifndef SOFTHCA_CAPTURE_PCAPNG_H
#define SOFTHCA_CAPTURE_PCAPNG_H

#include <stddef.h>
#include <stdint.h>

#define PCAPNG_COMMENT_MAX 128 /* with the NUL */
#define PCAPNG_HEADER_MAX 128 /* room for the block of a section or of an interface */

/* Room for a packet of @len bytes with the longest comment. */
#define PCAPNG_PACKET_MAX(len) ((len) + 3 + 32 + 4 + PCAPNG_COMMENT_MAX + 3 + 4)

/* Each function writes a block and returns its length. */
size_t pcapng_section(uint8_t *out, const char *application);
size_t pcapng_interface(uint8_t *out, const char *name);

/* @ns: the time since 1970. @interface: number of the interface, in the order of the file. */
size_t pcapng_packet(uint8_t *out, uint32_t interface, uint64_t ns, const void *bytes, size_t len,
	const char *comment);

#endif
