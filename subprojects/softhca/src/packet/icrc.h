/* SPDX-License-Identifier: MIT */
/* The CRC-32 of Ethernet (IEEE 802.3), which the ICRC uses too. */
#ifndef SOFTHCA_PACKET_ICRC_H
#define SOFTHCA_PACKET_ICRC_H

#include <stddef.h>
#include <stdint.h>

#define CRC_START 0xffffffffu

/* Continues @crc, initially CRC_START, over @len bytes. The CRC is the complement of the result. */
uint32_t crc_add(uint32_t crc, const void *bytes, size_t len);

/* Moves the difference @crc of two CRCs back to before @len bytes that are equal in both. */
uint32_t crc_undo(uint32_t crc, size_t len);

#endif
