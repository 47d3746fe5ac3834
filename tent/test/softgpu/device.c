/* SPDX-License-Identifier: MIT */
/* Devices, contexts and errors of the software GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"

#define STACK 8

struct gpu gpu = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static __thread struct cu_context *stack[STACK];
static __thread int depth;

struct cu_context *current(void)
{
	return depth ? stack[depth - 1] : NULL;
}

int begin(const char *name)
{
	pthread_mutex_lock(&gpu.lock);
	if (gpu.pid != getpid())
		return CU_NOT_INITIALIZED;
	if (strcmp(gpu.fail_name, name))
		return 0;
	gpu.fail_name[0] = 0;
	return gpu.call_error;
}

int finish(int result)
{
	pthread_mutex_unlock(&gpu.lock);
	return result;
}

int begin_current(const char *name)
{
	int result = begin(name);

	if (result)
		return result;
	return current() ? current()->error : CU_INVALID_CONTEXT;
}

int cuInit(unsigned flags)
{
	const char *devices = getenv("SOFTGPU_DEVICES");

	pthread_mutex_lock(&gpu.lock);
	if (gpu.pid && gpu.pid != getpid())
		return finish(CU_NOT_INITIALIZED);
	gpu.pid = getpid();
	gpu.devices = devices ? atoi(devices) : 2;
	for (int i = 0; i < MAX_DEVICES; i++) {
		gpu.primary[i].device = i;
		gpu.primary[i].primary = true;
	}
	return finish(gpu.devices > 0 && gpu.devices <= MAX_DEVICES ? 0 : CU_NO_DEVICE);
}

int cuGetErrorString(int error, const char **text_p)
{
	static const struct {
		int error;
		const char *text;
	} texts[] = {
		{0, "no error"},
		{CU_INVALID_VALUE, "invalid argument"},
		{CU_OUT_OF_MEMORY, "out of memory"},
		{CU_NOT_INITIALIZED, "initialization error"},
		{CU_INVALID_DEVICE, "invalid device ordinal"},
		{CU_INVALID_CONTEXT, "invalid device context"},
		{CU_ILLEGAL_ADDRESS, "an illegal memory access was encountered"},
		{CU_NOT_SUPPORTED, "operation not supported"},
	};

	*text_p = NULL;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (texts[i].error == error)
			*text_p = texts[i].text;
	}
	return *text_p ? 0 : CU_INVALID_VALUE;
}

/* Calls begin(), and checks that the device exists. */
static int begin_device(const char *name, int device)
{
	int result = begin(name);

	if (result)
		return result;
	return device >= 0 && device < gpu.devices ? 0 : CU_INVALID_DEVICE;
}

int cuDeviceGet(int *device_p, int number)
{
	int result = begin_device("cuDeviceGet", number);

	if (!result)
		*device_p = number;
	return finish(result);
}

/* The devices report a bus that no host has. */
int cuDeviceGetAttribute(int *value_p, int attribute, int device)
{
	int result = begin_device("cuDeviceGetAttribute", device);

	if (result)
		return finish(result);
	switch (attribute) {
	case CU_DEVICE_DMA_BUF:
		*value_p = 1;
		break;
	case CU_DEVICE_PCI_BUS:
		*value_p = 0xff;
		break;
	case CU_DEVICE_PCI_DEVICE:
		*value_p = device;
		break;
	case CU_DEVICE_PCI_DOMAIN:
		*value_p = 0xffff;
		break;
	default:
		result = CU_INVALID_VALUE;
	}
	return finish(result);
}

int cuDevicePrimaryCtxRetain(struct cu_context **c_p, int device)
{
	int result = begin_device("cuDevicePrimaryCtxRetain", device);

	if (!result)
		*c_p = &gpu.primary[device];
	return finish(result);
}

int cuCtxCreate_v2(struct cu_context **c_p, unsigned flags, int device)
{
	int result = begin_device("cuCtxCreate_v2", device);

	if (result)
		return finish(result);
	*c_p = calloc(1, sizeof(**c_p));
	(*c_p)->device = device;
	finish(0);
	return cuCtxPushCurrent_v2(*c_p);
}

int cuCtxPushCurrent_v2(struct cu_context *c)
{
	int result = begin("cuCtxPushCurrent_v2");

	if (!result && (!c || depth == STACK))
		result = CU_INVALID_CONTEXT;
	if (!result)
		stack[depth++] = c;
	return finish(result);
}

int cuCtxPopCurrent_v2(struct cu_context **c_p)
{
	int result = begin("cuCtxPopCurrent_v2");

	if (!result && !depth)
		result = CU_INVALID_CONTEXT;
	if (!result)
		*c_p = stack[--depth];
	return finish(result);
}

/* ---- for tests ---- */

/* A test that gives the name of no function would pass without the failure that it is about. */
static bool is_function(const char *call)
{
	bool is = !strcmp(call, "cuMemGetHandleForAddressRange");

#define X(member, name, ...) is |= !strcmp(call, #name);
	CUDA_FUNCTIONS(X)
#undef X
#define X(result, name, ...) is |= !strcmp(call, #name);
	GPU_FUNCTIONS(X)
#undef X
	return is;
}

void softgpu_fail_call(const char *name, int error)
{
	if (*name && !is_function(name))
		abort();
	pthread_mutex_lock(&gpu.lock);
	snprintf(gpu.fail_name, sizeof(gpu.fail_name), "%s", name);
	gpu.call_error = error;
	pthread_mutex_unlock(&gpu.lock);
}

void softgpu_heal(void)
{
	pthread_mutex_lock(&gpu.lock);
	drain_failed();
	for (int i = 0; i < MAX_DEVICES; i++)
		gpu.primary[i].error = 0;
	pthread_mutex_unlock(&gpu.lock);
}
