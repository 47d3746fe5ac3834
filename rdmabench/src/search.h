/* SPDX-License-Identifier: MIT */
/* rdmabench search: looks for traffic that a device handles badly. */
#ifndef RDMABENCH_SEARCH_H
#define RDMABENCH_SEARCH_H

/* Runs the sub-command and returns its exit status. */
int search_main(int argc, char **argv);

#endif
