/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "fabric/fabric.h"
#include "fault/fault.h"
#include "softhca.h"

#define API __attribute__((visibility("default")))

/* Adds the rules of @text. Returns the index of the first one, or -errno. */
static int add_rules(const char *text)
{
	struct fault_rule *rules = arena()->faults;
	char err[FAULT_TEXT];
	int first = 0, r;

	while (first < FAULT_RULES && rules[first].action)
		first++;
	r = fault_parse(text, "rule", rules, err, sizeof(err));
	if (r)
		return r;
	if (first == FAULT_RULES || !rules[first].action)
		return -EINVAL;
	if (!fault_stray(rules, &arena()->topo))
		return first;
	rules[first] = (struct fault_rule){0};
	return -EINVAL;
}

API int softhca_fault_add(const char *rule)
{
	sigset_t saved;
	int r;

	if (!fabric_self.arena)
		return -ENODEV;
	if (strpbrk(rule, ";\n"))
		return -EINVAL; /* the result can name only one rule */
	if (fabric_enter(&saved))
		return -EIO;
	r = add_rules(rule);
	fault_changed(arena());
	fabric_leave(&saved);
	return r < 0 ? r : r + 1;
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
