/* SPDX-License-Identifier: MIT */
/* A client gets the server's description over TCP, and stays connected until it ends. */
#ifndef TENTBENCH_MEET_H
#define TENTBENCH_MEET_H

#include <stdbool.h>
#include <stdint.h>

/* Serves the text to all clients. @once: returns when one that has it has gone. 0 or -errno. */
int meet_serve(int listener, const char *text, bool once);
/* Connects, and reads the text, which the caller frees. Returns the connection or -errno. */
int meet_fetch(const char *host, uint16_t port, int timeout_ms, char **text_p);

#endif
