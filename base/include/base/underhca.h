/* SPDX-License-Identifier: MIT */
/*
 * For programs that need an mlx5 device: without a real one, the program is executed again under
 * the software HCA, which makes one appear to the unmodified vendor library. The source file is
 * compiled into each program (base_underhca).
 */
#ifndef BASE_UNDERHCA_H
#define BASE_UNDERHCA_H

#include <stdbool.h>

/* Returns true if the program runs under the software HCA. */
bool underhca_is_software(void);

/*
 * Executes this program again, with the same arguments, by softhca-run: the one beside the program,
 * the one at `built` relative to the program's directory ("": none), or the one in PATH. Returns
 * only if that cannot be done: -errno, and why[] says what is missing.
 */
int underhca_again(char **argv, const char *built, char *why, int size);

#endif
