/* SPDX-License-Identifier: MIT */
/* Error messages of one line. */
#ifndef TENT_WHY_H
#define TENT_WHY_H

#include "tent.h"

/* @why may be NULL. */
void why_clear(struct tent_why *why);

/* Writes the message. Returns @err, for use in a return statement. @why may be NULL. */
__attribute__((format(printf, 3, 4))) int why_say(struct tent_why *why, int err, const char *format,
	...);

/* Copies text of a file or a peer, without characters that end the line or control a terminal. */
void why_printable(const char *text, char *to, size_t size);

#endif
