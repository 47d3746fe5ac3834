/* SPDX-License-Identifier: MIT */
/* tentbench server and client. Both functions return the exit status. */
#ifndef TENTBENCH_MOVE_H
#define TENTBENCH_MOVE_H

#include "move_options.h"

int move_server(const struct move_options *o);
int move_client(const struct move_options *o);

#endif
