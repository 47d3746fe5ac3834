/* SPDX-License-Identifier: MIT */
/* A client reads the server's description over TCP, and stays connected until the client ends. */
#ifndef TENTBENCH_MEET_H
#define TENTBENCH_MEET_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Sends the text to all clients. @once: returns when a client that has read the text disconnects.
 * Returns 0 or -errno.
 */
int meet_serve(int listener, const char *text, bool once);
/*
 * Connects, and reads the text, which the caller must free. Returns the connection's descriptor or
 * -errno.
 */
int meet_fetch(const char *host, uint16_t port, int timeout_ms, char **text_p);

#endif
