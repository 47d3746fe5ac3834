/* SPDX-License-Identifier: MIT */
/* Output of the objects of a process. */
#ifndef SHMLS_LIVETEXT_H
#define SHMLS_LIVETEXT_H

#include "live.h"

/* Prints the process, its threads, and a line for each object. */
void live_print(const struct live_process *p);
/* Prints one JSON object in a line. Returns 0 or -ENOMEM. */
int live_print_json(const struct live_process *p);

#endif
