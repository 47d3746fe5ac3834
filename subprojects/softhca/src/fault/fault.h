/* SPDX-License-Identifier: MIT */
#ifndef SOFTHCA_FAULT_FAULT_H
#define SOFTHCA_FAULT_FAULT_H

/*
 * fault.h - faults on demand
 *
 * A rule names messages and what happens to them; the message is looked at when its
 * work request is about to be executed, every attempt anew. Rules live in the fabric's
 * arena and are read and changed under its mutex. Nothing that RC forbids can be asked
 * for: no message arrives twice, and no QP's completions change their order.
 *
 *	# the third WRITE of any QP of mlx5_0 is refused
 *	device=mlx5_0 opcode=write nth=3 action=error syndrome=remote_access
 *	# the next two attempts of QP 0x41 find no receive
 *	qpn=0x41 count=2 action=rnr
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAULT_RULES 64
#define FAULT_TEXT 256 /* room for a rule's text */

enum fault_action {
	FAULT_NONE, /* the entry is free */
	FAULT_ERROR, /* error completion with the rule's syndrome */
	FAULT_RNR, /* as if no receive were posted */
	FAULT_NO_ANSWER, /* as if nobody answered */
	FAULT_DELAY, /* executed delay_ns later, what follows on the QP too */
	FAULT_PARTIAL, /* the first bytes are placed, then an error completion */
	FAULT_KILL, /* SIGKILL to the sender, after the first bytes are placed */
	FAULT_KILL_PEER, /* SIGKILL to the receiver, before anything is placed */
	FAULT_LINK_DOWN, /* the link of the sender's adapter */
	FAULT_LINK_UP,
	FAULT_HOLD_RECEIVE, /* the first packet of a SEND has arrived, no more will */
	FAULT_DEVICE_FATAL, /* of the sender's adapter: told, and the message never ends */
};

struct fault_rule {
	uint32_t action; /* enum fault_action */
	uint32_t syndrome; /* ERROR, PARTIAL */
	char device[16]; /* "": any; names are as in the topology */
	uint32_t qpn; /* the sender's; 0: any */
	uint32_t pid; /* the sender's; 0: any */
	uint64_t opcodes; /* a bit per opcode of a work request; 0: any */
	uint64_t nth; /* the first match that is hit, from 1 */
	uint64_t count; /* how many are; 0: all that follow */
	uint32_t percent; /* of these, at random */
	uint32_t reserved;
	uint64_t random; /* state of the generator; "seed" sets it */
	uint64_t bytes; /* PARTIAL, KILL */
	uint64_t delay_ns; /* DELAY */
	uint64_t seen; /* matches */
	uint64_t hits;
};

struct qp;
struct wqe;
struct answer;

/*
 * Adds the rules of text (lines, or parts of a line between ';') to the free entries of
 * rules. Returns 0, or -EINVAL / -ENOSPC with rules unchanged and one line in err.
 */
int fault_parse(const char *text, const char *name, struct fault_rule rules[FAULT_RULES], char *err,
	size_t errlen);

/*
 * Adds what the environment asks for: the file SOFTHCA_FAULT_FILE and the text
 * SOFTHCA_FAULTS. Returns 0, or -errno with one line in err.
 */
int fault_load_env(struct fault_rule rules[FAULT_RULES], char *err, size_t errlen);

/* Writes a rule as fault_parse() reads it. */
void fault_format(const struct fault_rule *rule, char text[FAULT_TEXT]);

/*
 * Judges the message w of qp before it is executed. Returns true when that was it, with
 * what became of it in *answer_p; false when it is to be executed as usual. The
 * fabric's mutex is held; signal safe. FAULT_KILL does not return.
 */
bool fault_hit(struct qp *qp, struct wqe *w, struct answer *answer_p);

#endif
