/* SPDX-License-Identifier: MIT */
#ifndef SOFTHCA_FAULT_FAULT_H
#define SOFTHCA_FAULT_FAULT_H

/*
 * fault.h - faults on demand
 *
 * A rule selects messages, or packets to another host, and determines what happens to them. Rules
 * for messages are applied before each attempt to execute a work request, rules for packets when
 * the packet is sent. They are kept in the fabric's arena, and are read and changed under its
 * mutex. A rule cannot cause what RC forbids: no message arrives twice, and the completions of a QP
 * do not change their order.
 *
 *	# of all WRITEs of the QPs of mlx5_0 together, the third is refused
 *	device=mlx5_0 opcode=write nth=3 action=error syndrome=remote_access
 *	# the next two attempts of QP 0x41 find no receive
 *	qpn=0x41 count=2 action=rnr
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/arena.h"

#define FAULT_TEXT 320 /* room for a rule's text, 305 characters at most */

/*
 * Adds the rules of @text (lines, or parts of a line between ';') to the free entries of @rules.
 * Returns 0, or -EINVAL, -ENOSPC or -ENOMEM with @rules unchanged and one line in @err, which
 * begins with @name.
 */
int fault_parse(const char *text, const char *name, struct fault_rule rules[FAULT_RULES], char *err,
	size_t errlen);

/*
 * Adds the rules of the environment: those of the file SOFTHCA_FAULT_FILE and of the text
 * SOFTHCA_FAULTS. Returns 0, or -errno with one line in err.
 */
int fault_load_env(struct fault_rule rules[FAULT_RULES], char *err, size_t errlen);

/*
 * Returns the name of the first adapter that does not exist although a rule names it, or NULL if all
 * of them exist.
 */
const char *fault_stray(const struct fault_rule rules[FAULT_RULES],
	const struct softhca_topology *t);

/*
 * Records whether the arena has any rules. Must be called under the mutex after a rule was added or
 * removed.
 */
void fault_changed(struct arena *a);

/* Writes a rule in the format that fault_parse() reads. */
void fault_format(const struct fault_rule *rule, char text[FAULT_TEXT]);

#endif
