/* SPDX-License-Identifier: MIT */
/* Texts of histograms with right check sums, which are computed here, not by latrec. */
#ifndef SUPPORT_HISTTEXT_H
#define SUPPORT_HISTTEXT_H

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define HISTTEXT_START 0xcbf29ce484222325ull /* FNV-1a, 64 bits */

/* Copies the text and adds the check sum to each line "end". Returns the length of the result,
 * which is at most six times that of the text. */
static inline size_t histtext_sign(const void *from, size_t size, char *to)
{
	const uint8_t *text = from, *end = text + size;
	uint64_t hash = HISTTEXT_START;
	char *at = to;

	while (text < end) {
		const uint8_t *stop = memchr(text, '\n', (size_t)(end - text));
		size_t len = stop ? (size_t)(stop + 1 - text) : (size_t)(end - text);

		if (len == 4 && !memcmp(text, "end\n", 4)) {
			at += sprintf(at, "end %016" PRIx64 "\n", hash);
			hash = HISTTEXT_START;
		} else {
			for (size_t i = 0; i < len; i++)
				hash = (hash ^ text[i]) * 0x100000001b3ull;
			memcpy(at, text, len);
			at += len;
		}
		text += len;
	}
	return (size_t)(at - to);
}

#endif
