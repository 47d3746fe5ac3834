/* SPDX-License-Identifier: MIT */
/* Faults that no call must notice. After most of them an endpoint is connected again. */
#ifndef COPYRPC_TEST_FAULTS_H
#define COPYRPC_TEST_FAULTS_H

#include "support/hcacall.h"

/* Small calls are sent with WRITE_IMM, and positions are read with READ. The first MESSAGE_RULES of
 * fault_rules concern only these. */
enum { MESSAGE_RULES = 8 };

static const char *const fault_rules[] = {
	"action=error opcode=write_imm syndrome=retry_exceeded",
	"action=error opcode=write_imm syndrome=rnr_exceeded",
	"action=error opcode=write_imm syndrome=remote_op",
	"action=error opcode=read syndrome=remote_op",
	"action=partial opcode=write_imm bytes=40 syndrome=remote_op",
	"action=partial opcode=write_imm bytes=200 syndrome=retry_exceeded",
	"action=no_answer opcode=write_imm count=6",
	"action=late opcode=write_imm delay_ns=2000000",
	"action=no_answer count=6",
	"action=error opcode=read syndrome=retry_exceeded",
	"action=error opcode=write syndrome=retry_exceeded",
	"action=partial opcode=read bytes=100 syndrome=retry_exceeded",
	"action=partial opcode=write bytes=1000 syndrome=remote_op",
};

/* Removes the rule, if there is one. */
static inline void rule_remove(int *rule)
{
	if (*rule)
		HCA(softhca_fault_remove)(*rule);
	*rule = 0;
}

/* Adds a rule for the @nth message from now on. It replaces the former rule, because the number of
 * rules is limited. */
static inline void rule_replace(int *rule, const char *text, uint32_t nth)
{
	char full[160];

	rule_remove(rule);
	snprintf(full, sizeof(full), "%s nth=%u", text, nth);
	*rule = hca_fault(full);
}

/* Gives the adapter another IPv4 address, which was not used before. The library prefers IPv4,
 * which is at index 1. Returns the last byte of the address. */
static inline uint8_t replace_address(const char *device)
{
	static uint32_t host;
	char address[32];

	host++;
	snprintf(address, sizeof(address), "10.7.%u.%u", host >> 8 & 255, host & 255);
	CHECK_EQ(HCA(softhca_gid_set)(device, 1, address), 0);
	return host & 255;
}

#endif
