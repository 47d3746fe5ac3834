/* SPDX-License-Identifier: MIT */
/* Tests the search for a device, with functions instead of those of libibverbs and libmlx5. */
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "support/test.h"
#include "hca.h"

#define DEVICES 100

static struct ibv_device devices[DEVICES];
static struct ibv_device *list[DEVICES + 1];

struct ibv_device **__wrap_ibv_get_device_list(int *n);
void __wrap_ibv_free_device_list(struct ibv_device **of);
const char *__wrap_ibv_get_device_name(struct ibv_device *device);
bool __wrap_mlx5dv_is_supported(struct ibv_device *device);

struct ibv_device **__wrap_ibv_get_device_list(int *n)
{
	for (int i = 0; i < DEVICES; i++) {
		list[i] = &devices[i];
		snprintf(devices[i].name, sizeof(devices[i].name), "%s_%d", i ? "mlx5" : "rxe", i);
	}
	return list;
}

void __wrap_ibv_free_device_list(struct ibv_device **of)
{
	CHECK(of == list);
}

const char *__wrap_ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

bool __wrap_mlx5dv_is_supported(struct ibv_device *device)
{
	return device != &devices[0];
}

TEST(devices_are_found)
{
	char name[HCA_NAME_MAX], why[400];

	CHECK_EQ(hca_find(NULL, name, why, sizeof(why)), 0);
	CHECK(!strcmp(name, "mlx5_1"));
	CHECK_EQ(hca_find("mlx5_99", name, why, sizeof(why)), 0);
	CHECK(!strcmp(name, "mlx5_99"));
}

/* Not all names fit into the message. */
TEST(no_such_device)
{
	static const char begin[] =
		"no mlx5 device 'rxe_0': give auto, or one of: mlx5_1, mlx5_2, ";
	char name[HCA_NAME_MAX], why[400];

	CHECK_EQ(hca_find("rxe_0", name, why, sizeof(why)), -ENODEV);
	CHECK(!strncmp(why, begin, strlen(begin)));
}
