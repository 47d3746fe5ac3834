/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi/wire.h"
#include "fault/fault.h"
#include "topo/keyvalue.h"

struct name {
	const char *name;
	uint32_t value;
};

static const struct name actions[] = {
	{"error", FAULT_ERROR},
	{"rnr", FAULT_RNR},
	{"no_answer", FAULT_NO_ANSWER},
	{"delay", FAULT_DELAY},
	{"partial", FAULT_PARTIAL},
	{"kill", FAULT_KILL},
	{"kill_peer", FAULT_KILL_PEER},
	{"link_down", FAULT_LINK_DOWN},
	{"link_up", FAULT_LINK_UP},
	{"hold_receive", FAULT_HOLD_RECEIVE},
	{"device_fatal", FAULT_DEVICE_FATAL},
	{"late", FAULT_LATE},
	{"packet_lost", FAULT_PACKET_LOST},
	{"packet_twice", FAULT_PACKET_TWICE},
	{"packet_late", FAULT_PACKET_LATE},
	{0},
};

static const struct name opcodes[] = {
	{"send", OP_SEND},
	{"send_imm", OP_SEND_IMM},
	{"write", OP_WRITE},
	{"write_imm", OP_WRITE_IMM},
	{"read", OP_READ},
	{"cmp_swap", OP_ATOMIC_CS},
	{"fetch_add", OP_ATOMIC_FA},
	{0},
};

/* Short forms of the names of ibv_wc_status_str(). */
static const struct name syndromes[] = {
	{"local_length", SYN_LOCAL_LENGTH},
	{"local_qp_op", SYN_LOCAL_QP_OP},
	{"local_protection", SYN_LOCAL_PROT},
	{"flush", SYN_FLUSH},
	{"remote_invalid", SYN_REMOTE_INVAL_REQ},
	{"remote_access", SYN_REMOTE_ACCESS},
	{"remote_op", SYN_REMOTE_OP},
	{"retry_exceeded", SYN_RETRY_EXC},
	{"rnr_exceeded", SYN_RNR_EXC},
	{0},
};

static bool by_name(const struct name *names, const char *value, uint32_t *out_p)
{
	for (; names->name; names++) {
		if (strcmp(names->name, value))
			continue;
		*out_p = names->value;
		return true;
	}
	return false;
}

static const char *name_of(const struct name *names, uint32_t value)
{
	while (names->name && names->value != value)
		names++;
	return names->name ? names->name : "?";
}

static bool set_name(char name[16], const char *value)
{
	if (!*value || strlen(value) >= 16)
		return false;
	strcpy(name, value);
	return true;
}

static bool set_device(void *object, const char *value)
{
	return set_name(((struct fault_rule *)object)->device, value);
}

static bool set_peer(void *object, const char *value)
{
	return set_name(((struct fault_rule *)object)->peer, value);
}

static bool set_opcode(void *object, const char *value)
{
	struct fault_rule *r = object;
	uint32_t opcode;

	if (!by_name(opcodes, value, &opcode))
		return false;
	r->opcodes |= UINT64_C(1) << opcode;
	return true;
}

static bool set_action(void *object, const char *value)
{
	return by_name(actions, value, &((struct fault_rule *)object)->action);
}

static bool set_syndrome(void *object, const char *value)
{
	return by_name(syndromes, value, &((struct fault_rule *)object)->syndrome);
}

static const struct kv_key keys[] = {
	{"action",
		"error, rnr, no_answer, delay, partial, kill, kill_peer, "
		"link_down, link_up, hold_receive, device_fatal, late, "
		"packet_lost, packet_twice or packet_late",
		.set = set_action},
	{"device", "the name of an adapter", .set = set_device},
	{"peer", "the name of an adapter", .set = set_peer},
	{"qpn", "a QP number, 1 to 0xffffff",
		.field = KV_FIELD(struct fault_rule, qpn, 1, 0xffffff)},
	{"pid", "the number of a process", .field = KV_FIELD(struct fault_rule, pid, 1, INT32_MAX)},
	{"opcode",
		"send, send_imm, write, write_imm, read, cmp_swap or "
		"fetch_add",
		.repeats = true, .set = set_opcode},
	{"nth", "the number of the first message, 1 or more",
		.field = KV_FIELD(struct fault_rule, nth, 1, UINT64_MAX)},
	{"count", "a number of messages, 0 for all",
		.field = KV_FIELD(struct fault_rule, count, 0, UINT64_MAX)},
	{"percent", "1 to 100", .field = KV_FIELD(struct fault_rule, percent, 1, 100)},
	{"seed", "a number", .field = KV_FIELD(struct fault_rule, random, 0, UINT64_MAX)},
	{"syndrome",
		"local_length, local_qp_op, local_protection, flush, "
		"remote_invalid, remote_access, remote_op, retry_exceeded or rnr_exceeded",
		.set = set_syndrome},
	{"bytes", "a number of bytes", .field = KV_FIELD(struct fault_rule, bytes, 0, UINT64_MAX)},
	{"delay_ns", "nanoseconds, 1 or more",
		.field = KV_FIELD(struct fault_rule, delay_ns, 1, UINT64_MAX)},
};

static int check(const struct kv_source *src, const struct fault_rule *r)
{
	bool fails = r->action == FAULT_ERROR || r->action == FAULT_PARTIAL;
	bool cuts = r->action == FAULT_PARTIAL || r->action == FAULT_KILL;
	bool waits = r->action == FAULT_DELAY || r->action == FAULT_LATE;

	if (!r->action)
		return kv_fail(src, "no action: give %s", keys[0].want);
	if (waits && !r->delay_ns)
		return kv_fail(src, "action=%s: give delay_ns, too", name_of(actions, r->action));
	if (r->delay_ns && !waits)
		return kv_fail(src, "delay_ns is for action=delay and late: leave it out");
	if (r->syndrome && !fails && r->action != FAULT_LATE)
		return kv_fail(src, "syndrome is for action=error, partial and late: leave it out");
	if (r->action >= FAULT_PACKET_LOST && (r->opcodes || r->peer[0]))
		return kv_fail(src,
			"opcode and peer are for messages, not for packets: leave them out");
	if (r->bytes && !cuts)
		return kv_fail(src, "bytes is for action=partial and kill: leave it out");
	return 0;
}

static int add(const struct kv_source *src, const struct fault_rule *r,
	struct fault_rule rules[FAULT_RULES])
{
	for (size_t i = 0; i < FAULT_RULES; i++) {
		if (rules[i].action)
			continue;
		rules[i] = *r;
		return 0;
	}
	kv_fail(src, "more than %d rules: remove one", FAULT_RULES);
	return -ENOSPC;
}

static int parse_rule(const struct kv_source *src, char *text, struct fault_rule *rules)
{
	struct fault_rule r = {.nth = 1, .count = 1, .percent = 100};
	int rc = kv_line(src, text, keys, sizeof(keys) / sizeof(keys[0]), &r);

	if (rc <= 0)
		return rc;
	rc = check(src, &r);
	if (rc)
		return rc;
	if (!r.syndrome && (r.action == FAULT_ERROR || r.action == FAULT_PARTIAL))
		r.syndrome = SYN_RETRY_EXC;
	return add(src, &r, rules);
}

static int parse_line(const struct kv_source *src, char *line, struct fault_rule *rules)
{
	char *rule;
	int rc = 0;

	line[strcspn(line, "#")] = '\0'; /* first, because a comment may contain ';' */
	while (!rc && (rule = strsep(&line, ";")))
		rc = parse_rule(src, rule, rules);
	return rc;
}

int fault_parse(const char *text, const char *name, struct fault_rule rules[FAULT_RULES], char *err,
	size_t errlen)
{
	struct kv_source src = {.name = name, .err = err, .errlen = errlen};
	struct fault_rule *all = malloc(sizeof(*all) * FAULT_RULES);
	char *copy = strdup(text), *rest = copy, *line;
	int rc = all && copy ? 0 : -ENOMEM;

	if (rc) {
		snprintf(err, errlen, "%s: %s", name, strerror(ENOMEM));
	} else {
		memcpy(all, rules, sizeof(*all) * FAULT_RULES);
		while (!rc && (line = strsep(&rest, "\n"))) {
			src.line++;
			rc = parse_line(&src, line, all);
		}
		if (!rc)
			memcpy(rules, all, sizeof(*all) * FAULT_RULES);
	}
	free(all);
	free(copy);
	return rc;
}

int fault_load_env(struct fault_rule rules[FAULT_RULES], char *err, size_t errlen)
{
	const char *path = getenv("SOFTHCA_FAULT_FILE"), *text = getenv("SOFTHCA_FAULTS");
	char *file;
	int rc = 0;

	if (path && *path) {
		file = kv_read_file(path, "a file of fault rules", err, errlen, &rc);
		if (!file)
			return rc;
		rc = fault_parse(file, path, rules, err, errlen);
		free(file);
	}
	if (!rc && text)
		rc = fault_parse(text, "SOFTHCA_FAULTS", rules, err, errlen);
	return rc;
}

const char *fault_stray(const struct fault_rule rules[FAULT_RULES],
	const struct softhca_topology *t)
{
	for (size_t i = 0; i < FAULT_RULES; i++) {
		const struct fault_rule *r = &rules[i];

		if (!r->action)
			continue;
		if (r->device[0] && softhca_topology_find(t, r->device) == t->nrails)
			return r->device;
		if (r->peer[0] && softhca_topology_find(t, r->peer) == t->nrails)
			return r->peer;
	}
	return NULL;
}

void fault_changed(struct arena *a)
{
	a->attention &= ~(uint32_t)ATTEND_FAULTS;
	for (size_t i = 0; i < FAULT_RULES; i++)
		if (a->faults[i].action)
			a->attention |= ATTEND_FAULTS;
}

/* Appends to the text. FAULT_TEXT is enough for every key with its longest value. */
__attribute__((format(printf, 2, 3))) static void append(char text[FAULT_TEXT], const char *fmt,
	...)
{
	size_t n = strlen(text);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text + n, FAULT_TEXT - n, fmt, ap);
	va_end(ap);
}

void fault_format(const struct fault_rule *r, char text[FAULT_TEXT])
{
	text[0] = '\0';
	append(text, "action=%s", name_of(actions, r->action));
	if (r->device[0])
		append(text, " device=%.15s", r->device);
	if (r->peer[0])
		append(text, " peer=%.15s", r->peer);
	if (r->qpn)
		append(text, " qpn=0x%x", r->qpn);
	if (r->pid)
		append(text, " pid=%u", r->pid);
	for (uint32_t op = 0; op < 64; op++)
		if (r->opcodes >> op & 1)
			append(text, " opcode=%s", name_of(opcodes, op));
	append(text, " nth=%llu count=%llu", (unsigned long long)r->nth,
		(unsigned long long)r->count);
	if (r->percent != 100)
		append(text, " percent=%u", r->percent);
	if (r->syndrome)
		append(text, " syndrome=%s", name_of(syndromes, r->syndrome));
	if (r->bytes)
		append(text, " bytes=%llu", (unsigned long long)r->bytes);
	if (r->delay_ns)
		append(text, " delay_ns=%llu", (unsigned long long)r->delay_ns);
}
