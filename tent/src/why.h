/* SPDX-License-Identifier: MIT */
/* Error messages of one line. */
#ifndef TENT_WHY_H
#define TENT_WHY_H

#include "tent.h"

/* Returns err, so that a check can end with it. why may be NULL. */
__attribute__((format(printf, 3, 4))) int why_say(struct tent_why *why, int err, const char *format,
	...);

/* Text of a file or a peer must neither break the line nor reach a terminal unchanged. */
void why_printable(const char *text, char *to, size_t size);

#endif
