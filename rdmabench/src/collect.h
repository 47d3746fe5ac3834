/* SPDX-License-Identifier: MIT */
/* rdmabench collect: merges the statistics of many files and machines. */
#ifndef RDMABENCH_COLLECT_H
#define RDMABENCH_COLLECT_H

/* Runs the sub-command and returns its exit status. */
int collect_main(int argc, char **argv);

#endif
