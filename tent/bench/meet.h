/* SPDX-License-Identifier: MIT */
/* How a client gets the server's description: over a TCP connection that lasts as long as it. */
#ifndef TENTBENCH_MEET_H
#define TENTBENCH_MEET_H

#include <stdint.h>

/* Listens on all addresses of @host, port. The descriptor, or -errno. */
int meet_listen(const char *host, uint16_t port);
/* Waits for a client, gives it the text, and waits until it has gone. 0 or -errno. */
int meet_serve(int listener, const char *text);
/* Connects, and gets the text, to be freed. The descriptor, to be kept open, or -errno. */
int meet_fetch(const char *host, uint16_t port, char **text_p);

#endif
