/* SPDX-License-Identifier: MIT */
/* The CRC-32 of Ethernet (IEEE 802.3), which the ICRC uses too. */
#ifndef SOFTHCA_PACKET_ICRC_H
#define SOFTHCA_PACKET_ICRC_H

#include <stddef.h>
#include <stdint.h>

#define CRC_START 0xffffffffu

/* Continues @crc, initially CRC_START, over @len bytes. The CRC is the complement of the result. */
uint32_t crc_add(uint32_t crc, const void *bytes, size_t len);

/*
 * @crc: the XOR of two CRCs whose last @len input bytes were equal. Returns the XOR that the two
 * CRCs had before these bytes.
 */
uint32_t crc_undo(uint32_t crc, size_t len);

#endif
