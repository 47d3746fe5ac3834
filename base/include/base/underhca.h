/* SPDX-License-Identifier: MIT */
/*
 * Helps programs that need an mlx5 device. Without a real device, such a program executes itself
 * again under the software HCA (softhca(7)), which emulates a device for the unmodified vendor
 * library. base/src/underhca.c is compiled into each program that uses it.
 */
#ifndef BASE_UNDERHCA_H
#define BASE_UNDERHCA_H

#include <stdbool.h>

/* Returns true if the program runs under the software HCA. */
bool underhca_is_software(void);

/*
 * Executes this program again, with the same arguments, under softhca-run: the one in the program's
 * directory, the one at @built relative to that directory ("": none), or the one in PATH. Returns
 * only if that fails: -ENODEV if the program was executed in this way already, or another -errno.
 * Writes the reason to why[] (`size` bytes), unless /proc or memory is missing.
 */
int underhca_again(char **argv, const char *built, char *why, int size);

#endif
