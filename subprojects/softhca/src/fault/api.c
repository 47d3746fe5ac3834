/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "fabric/fabric.h"
#include "fault/fault.h"
#include "softhca.h"

#define API __attribute__((visibility("default")))

/*
 * Parses @text, which must be one rule. Returns 0 or -errno. The caller must not hold the mutex,
 * because a thread that loses it (fabric/claim.h) would leave the allocator locked.
 */
static int parse_one(const char *text, struct fault_rule *rule_p)
{
	struct fault_rule rules[FAULT_RULES] = {0};
	char err[FAULT_TEXT];
	int r;

	if (strpbrk(text, ";\n"))
		return -EINVAL; /* the result can name only one rule */
	r = fault_parse(text, "rule", rules, err, sizeof(err));
	if (r)
		return r;
	if (!rules[0].action || fault_stray(rules, &arena()->topo))
		return -EINVAL;
	*rule_p = rules[0];
	return 0;
}

/* Returns the rule's number, or -ENOSPC. */
static int add(const struct fault_rule *rule)
{
	struct fault_rule *rules = arena()->faults;

	for (int i = 0; i < FAULT_RULES; i++) {
		if (rules[i].action)
			continue;
		rules[i] = *rule;
		fault_changed(arena());
		return 1 + i;
	}
	return -ENOSPC;
}

API int softhca_fault_add(const char *rule)
{
	struct fault_rule parsed;
	sigset_t saved;
	int r;

	if (!fabric_self.arena)
		return -ENODEV;
	r = parse_one(rule, &parsed);
	if (r)
		return r;
	if (fabric_enter(&saved))
		return -EIO;
	r = add(&parsed);
	fabric_leave(&saved);
	return r;
}

API long long softhca_fault_remove(int number)
{
	struct fault_rule *r;
	long long hits;
	sigset_t saved;

	if (!fabric_self.arena)
		return -ENODEV;
	if (number < 1 || number > FAULT_RULES)
		return -ENOENT;
	if (fabric_enter(&saved))
		return -EIO;
	hits = -ENOENT;
	r = &arena()->faults[number - 1];
	if (r->action) {
		hits = (long long)r->hits;
		*r = (struct fault_rule){0};
		fault_changed(arena());
	}
	fabric_leave(&saved);
	return hits;
}
