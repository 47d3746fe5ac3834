/* SPDX-License-Identifier: MIT */
#include "hca.h"

#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

int hca_find(const char *want, char name[HCA_NAME_MAX], char *why, int size)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	char list[256] = "none";
	size_t at = 0;
	int err = -ENODEV;

	for (int i = 0; err && devices && devices[i] && at < sizeof(list); i++) {
		const char *n = ibv_get_device_name(devices[i]);

		if (!mlx5dv_is_supported(devices[i]))
			continue;
		at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%s", at ? ", " : "", n);
		if (!want || !strcmp(n, want)) {
			snprintf(name, HCA_NAME_MAX, "%s", n);
			err = 0;
		}
	}
	if (err)
		snprintf(why, (size_t)size, "no mlx5 device '%s': give auto, or one of: %s",
			want ? want : "auto", list);
	if (devices)
		ibv_free_device_list(devices);
	return err;
}
