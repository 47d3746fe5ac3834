/* SPDX-License-Identifier: MIT */
/*
 * Which mlx5 device. Without a real one the program is executed again under the software
 * HCA, which makes one appear to the unmodified vendor library.
 */
#ifndef BENCHKV_HCA_H
#define BENCHKV_HCA_H

#include <stdbool.h>

#define HCA_NAME_MAX 64

/* Is it the software HCA that we run under? */
bool hca_is_software(void);

/*
 * Finds the device called want, or, with NULL, the first mlx5 device. 0 and its name, or
 * -ENODEV, and why[] names those that there are.
 */
int hca_find(const char *want, char name[HCA_NAME_MAX], char *why, int size);

/*
 * Executes this program again, with the same arguments, under the software HCA. Returns
 * only if that cannot be done: -errno, and why[] says what is missing.
 */
int hca_reexec(char **argv, char *why, int size);

#endif
