/* SPDX-License-Identifier: MIT */
/*
 * Helps programs that need an mlx5 device. Without a real device, such a program executes itself
 * again under the software HCA, which emulates a device for the unmodified vendor library. The
 * source file is compiled into each program (base_underhca).
 */
#ifndef BASE_UNDERHCA_H
#define BASE_UNDERHCA_H

#include <stdbool.h>

/* Returns true if the program runs under the software HCA. */
bool underhca_is_software(void);

/*
 * Executes this program again, with the same arguments, under softhca-run: the one in the program's
 * directory, the one at @built relative to that directory ("": none), or the one in PATH. Returns
 * only if that fails: -errno, and why[] says what is missing.
 */
int underhca_again(char **argv, const char *built, char *why, int size);

#endif
