/* SPDX-License-Identifier: MIT */
/* Output of the objects of a process. */
#ifndef SHMLS_LIVETEXT_H
#define SHMLS_LIVETEXT_H

#include "live.h"

/* The process, its threads, and a table of the objects of each kind. */
void live_print(const struct live_process *p);
/* One JSON object in a line. Returns 0 or -ENOMEM. */
int live_print_json(const struct live_process *p);

#endif
