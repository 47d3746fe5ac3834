/* SPDX-License-Identifier: MIT */
/* A user of tent and of nothing else; the exported text describes registered memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tent.h>

static char memory[4096];

int main(void)
{
	struct tent_attr attr = {};
	struct tent_why why;
	struct tent *t = NULL;
	char *text = NULL;
	int found;

	attr.shm_rails = 1;
	if (tent_create(&attr, &why, &t)) {
		puts(why.text);
		return 1;
	}
	if (tent_register(t, memory, sizeof(memory), NULL, &why) || tent_export(t, &text)) {
		puts(why.text);
		return 1;
	}
	found = strstr(text, "\"length\":4096") != NULL;
	free(text);
	tent_destroy(t);
	return found ? 0 : 1;
}
