/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <stdio.h>

#include "topo/topo.h"

bool softhca_gid_read(const char *text, uint8_t gid[16])
{
	if (inet_pton(AF_INET6, text, gid) == 1)
		return true;
	memset(gid, 0, 10);
	memset(gid + 10, 0xff, 2);
	return inet_pton(AF_INET, text, gid + 12) == 1;
}

void softhca_gid_write(const uint8_t gid[16], char text[SOFTHCA_GID_TEXT])
{
	for (int i = 0; i < 16; i += 2)
		text += sprintf(text, "%s%02x%02x", i ? ":" : "", gid[i], gid[i + 1]);
}
