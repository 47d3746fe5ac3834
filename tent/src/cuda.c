/* SPDX-License-Identifier: MIT */
#include "cuda.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/compiler.h"
#include "why.h"

#define LIBRARY "libcuda.so.1"
#define MAX_DEVICES 64

static struct {
	pthread_mutex_t lock; /* protects the members that follow */
	struct cuda functions;
	bool loaded;
	struct cu_context *primary[MAX_DEVICES]; /* retained until the process ends */
} driver = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Returns the name of a function that the library lacks, or NULL if all are loaded. */
static const char *load_functions(void *library)
{
#define X(member, name, ...)                                                                       \
	*(void **)&driver.functions.member = dlsym(library, #name);                                \
	if (!driver.functions.member)                                                              \
		return #name;
	CUDA_FUNCTIONS(X)
#undef X
	*(void **)&driver.functions.dma_buf = dlsym(library, "cuMemGetHandleForAddressRange");
	return NULL;
}

/* The library is never closed, because threads of the driver execute its code. */
static int load(int flags, struct tent_why *why)
{
	void *library = dlopen(LIBRARY, RTLD_NOW | flags);
	const char *missing;

	if (!library)
		return why_say(why, -ENODEV, "no driver of a GPU: %s", dlerror());
	missing = load_functions(library);
	if (missing)
		return why_say(why, -ENODEV, LIBRARY " is too old: it lacks %s", missing);
	driver.loaded = true;
	return 0;
}

static const struct cuda *get(int flags, struct tent_why *why)
{
	bool ready;

	pthread_mutex_lock(&driver.lock);
	ready = driver.loaded || !load(flags, why);
	pthread_mutex_unlock(&driver.lock);
	return ready ? &driver.functions : NULL;
}

const struct cuda *cuda_used(void)
{
	return get(RTLD_NOLOAD, NULL);
}

const struct cuda *cuda_open(struct tent_why *why)
{
	const struct cuda *cu = get(0, why);
	int result = cu ? cu->init(0) : 0;

	if (result)
		cuda_why("the driver of the GPUs", result, why);
	return result ? NULL : cu;
}

int cuda_errno(int result)
{
	static const struct {
		int result, err;
	} errors[] = {
		{0, 0},
		{CU_INVALID_VALUE, -EINVAL},
		{CU_OUT_OF_MEMORY, -ENOMEM},
		{CU_NOT_INITIALIZED, -ENODEV},
		{CU_DEINITIALIZED, -ENODEV},
		{CU_NO_DEVICE, -ENODEV},
		{CU_INVALID_DEVICE, -ENODEV},
		{CU_INVALID_CONTEXT, -EINVAL},
		{CU_PEER_ACCESS_UNSUPPORTED, -EOPNOTSUPP},
		{CU_INVALID_HANDLE, -EINVAL},
		{CU_NOT_READY, -EAGAIN},
		{CU_ILLEGAL_ADDRESS, -EFAULT},
		{CU_HOST_REGISTERED, -EEXIST},
		{CU_HOST_NOT_REGISTERED, -EINVAL},
		{CU_NOT_SUPPORTED, -EOPNOTSUPP},
	};

	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		if (errors[i].result == result)
			return errors[i].err;
	}
	return -EIO;
}

int cuda_why(const char *what, int result, struct tent_why *why)
{
	const char *text = NULL;

	driver.functions.error_string(result, &text);
	return why_say(why, cuda_errno(result), "%s: %s (%d)", what, text ? text : "unknown error",
		result);
}

/* Writes the primary context of device @number. Returns a result of the driver. */
static int primary(const struct cuda *cu, int number, struct cu_context **c_p)
{
	int device, result = 0;

	if (number < 0 || number >= MAX_DEVICES)
		return CU_INVALID_DEVICE;
	pthread_mutex_lock(&driver.lock);
	if (!driver.primary[number]) {
		result = cu->device_get(&device, number);
		if (!result)
			result = cu->primary_retain(&driver.primary[number], device);
	}
	*c_p = driver.primary[number];
	pthread_mutex_unlock(&driver.lock);
	return result;
}

int cuda_push(const struct cuda *cu, struct cu_context *c, int device)
{
	int result = c ? 0 : primary(cu, device, &c);

	return cuda_errno(result ? result : cu->ctx_push(c));
}

void cuda_pop(const struct cuda *cu)
{
	struct cu_context *c;

	cu->ctx_pop(&c);
}
