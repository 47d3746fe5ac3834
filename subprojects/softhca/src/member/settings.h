/* SPDX-License-Identifier: MIT */
/*
 * The variables of the environment that describe the fabric as a whole: adapters, fault rules, link
 * model, chaos mode, capture. The process that makes the fabric applies them; a process that
 * joins must have the same values, or leave the variables unset. The functions write a line without
 * a newline into err if they fail.
 */
#ifndef SOFTHCA_MEMBER_SETTINGS_H
#define SOFTHCA_MEMBER_SETTINGS_H

#include <stddef.h>

#include "fabric/arena.h"

/* Applies all variables to a new arena. Returns 0 or -errno. */
int settings_load(struct arena *a, char *err, size_t errlen);

/*
 * Compares the variables that are set with those with which the fabric of @a was made. Returns 0;
 * -EEXIST if one differs; or -errno if a value is wrong.
 */
int settings_compare(const struct arena *a, char *err, size_t errlen);

/* Removes these variables from the environment, for a program that only inspects a fabric. */
void settings_forget(void);

#endif
