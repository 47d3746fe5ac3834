/* SPDX-License-Identifier: MIT */
#include "place.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Prints a message unless the driver's function has returned 0. */
static bool fine(const char *function, int result)
{
	if (result)
		fprintf(stderr, "tentbench: location: %s returns %d\n", function, result);
	return !result;
}

static void *function(void *driver, const char *name)
{
	void *fn = driver ? dlsym(driver, name) : NULL;

	if (driver && !fn)
		fprintf(stderr, "tentbench: location: the driver has no %s\n", name);
	return fn;
}

static bool open_gpu(int number, struct place *p)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	int (*init)(unsigned flags), (*get)(int *device_p, int number);
	int (*retain)(void **context_p, int device);
	int device;

	if (!driver)
		fprintf(stderr, "tentbench: location: there is no driver of a GPU: %s\n",
			dlerror());
	*(void **)&init = function(driver, "cuInit");
	*(void **)&get = function(driver, "cuDeviceGet");
	*(void **)&retain = function(driver, "cuDevicePrimaryCtxRetain");
	*(void **)&p->push = function(driver, "cuCtxPushCurrent_v2");
	*(void **)&p->pop = function(driver, "cuCtxPopCurrent_v2");
	*(void **)&p->alloc = function(driver, "cuMemAlloc_v2");
	*(void **)&p->copy = function(driver, "cuMemcpy");
	return init && get && retain && p->push && p->pop && p->alloc && p->copy &&
	       fine("cuInit", init(0)) && fine("cuDeviceGet", get(&device, number)) &&
	       fine("cuDevicePrimaryCtxRetain", retain(&p->context, device));
}

bool place_open(const char *location, struct place *p_p)
{
	*p_p = (struct place){.of_gpu = location && !strncmp(location, "cuda:", 5)};
	return !p_p->of_gpu || open_gpu(atoi(location + 5), p_p);
}

uint8_t *place_alloc(const struct place *p, uint64_t len)
{
	void *m, *context;
	uint64_t at = 0;

	if (p->of_gpu) {
		if (fine("cuCtxPushCurrent", p->push(p->context))) {
			fine("cuMemAlloc", p->alloc(&at, len));
			p->pop(&context);
		}
		return (uint8_t *)(uintptr_t)at;
	}
	m = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1,
		0);
	return m == MAP_FAILED ? NULL : m;
}

void place_copy(const struct place *p, void *to, const void *from, uint64_t len)
{
	void *context;

	if (!fine("cuCtxPushCurrent", p->push(p->context)))
		return;
	fine("cuMemcpy", p->copy((uintptr_t)to, (uintptr_t)from, len));
	p->pop(&context);
}
