/* SPDX-License-Identifier: MIT */
/* How a client gets the server's description: over a TCP connection that lasts as long as it. */
#ifndef TENTBENCH_MEET_H
#define TENTBENCH_MEET_H

#include <stdbool.h>
#include <stdint.h>

/* Gives each client the text, all at once. @once: until one that has it has gone. 0 or -errno. */
int meet_serve(int listener, const char *text, bool once);
/* Connects, and gets the text, to be freed. The descriptor, to be kept open, or -errno. */
int meet_fetch(const char *host, uint16_t port, int timeout_ms, char **text_p);

#endif
