/* SPDX-License-Identifier: MIT */
/* Finds the mlx5 device. */
#ifndef BENCHKV_HCA_H
#define BENCHKV_HCA_H

#define HCA_NAME_MAX 64

/*
 * Finds the device with the name @want, or with NULL the first mlx5 device. 0 and the name, or
 * -ENODEV and in @why the names of the existing devices.
 */
int hca_find(const char *want, char name[HCA_NAME_MAX], char *why, int size);

#endif
