/* SPDX-License-Identifier: MIT */
/* rdmabench collect: statistics of many files and machines as one. */
#ifndef RDMABENCH_COLLECT_H
#define RDMABENCH_COLLECT_H

/* The sub-command: its exit status. */
int collect_main(int argc, char **argv);

#endif
