/* SPDX-License-Identifier: MIT */
#include "gpumem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "why.h"

#define PAGE 4096ull

bool gpu_memory_at(const struct cuda *cu, uint64_t at, struct gpu_memory *m_p)
{
	struct gpu_memory m = {.device = 0};
	unsigned type = 0;

	if (cu->pointer_attribute(&type, CU_POINTER_MEMORY_TYPE, at) || type != CU_MEMORY_DEVICE ||
		cu->pointer_attribute(&m.device, CU_POINTER_DEVICE, at))
		return false;
	if (cu->pointer_attribute(&m.context, CU_POINTER_CONTEXT, at))
		m.context = NULL;
	*m_p = m;
	return true;
}

/*
 * Checks that all of the range is memory. Writes the base of its first mapping, and whether there
 * is only this mapping.
 */
static int check_range(const struct cuda *cu, uint64_t addr, uint64_t len, uint64_t *base_p,
	bool *one_p)
{
	uint64_t at = addr, base;
	size_t size;

	while (at < addr + len) {
		if (cu->address_range(&base, &size, at))
			return -EFAULT;
		if (at == addr)
			*base_p = base;
		at = base + size;
		*one_p = *base_p == base;
	}
	return 0;
}

/* Memory of pools, and memory that the program has mapped by itself, has no handle. */
static int describe(const struct cuda *cu, uint64_t addr, uint64_t len, struct gpu_memory *m)
{
	const unsigned on = 1;
	uint64_t base = 0;
	bool one = false;
	int err = check_range(cu, addr, len, &base, &one);

	if (err)
		return err;
	m->shared = one && !cu->ipc_get(&m->handle, base);
	m->offset = addr - base;
	cu->pointer_set(&on, CU_POINTER_SYNC_MEMOPS, addr); /* pools refuse it */
	return 0;
}

static bool is_cuda(const char *location)
{
	return location && !strncmp(location, "cuda:", 5);
}

static int check_location(uint64_t addr, const char *location, const struct gpu_memory *m,
	struct tent_why *why)
{
	char name[TENT_NAME_LEN];

	snprintf(name, sizeof(name), "cuda:%d", m->device);
	if (!is_cuda(location) || !strcmp(location, name))
		return 0;
	return why_say(why, -EINVAL, "registration: 0x%llx is memory of %s, not of %.20s",
		(unsigned long long)addr, name, location);
}

int gpu_memory_find(uint64_t addr, uint64_t len, const char *location, struct gpu_memory *m_p,
	struct tent_why *why)
{
	bool any = !location || !strcmp(location, "*");
	const struct cuda *cu = is_cuda(location) ? cuda_open(why) : any ? cuda_used() : NULL;
	struct gpu_memory m;
	int err;

	if (!cu)
		return is_cuda(location) ? -ENODEV : 0;
	if (!gpu_memory_at(cu, addr, &m))
		return is_cuda(location) ?
			       why_say(why, -EINVAL, "registration: 0x%llx is no memory of a GPU",
				       (unsigned long long)addr) :
			       0;
	err = check_location(addr, location, &m, why);
	if (err)
		return err;
	err = cuda_push(cu, m.context, m.device);
	if (!err) {
		err = describe(cu, addr, len, &m);
		cuda_pop(cu);
	}
	if (err)
		return why_say(why, err, "registration: memory of cuda:%d: %s", m.device,
			err == -EFAULT ? "a part is not allocated" : strerror(-err));
	*m_p = m;
	return 1;
}

int gpu_memory_node(int number)
{
	const struct cuda *cu = cuda_used();
	int device, domain, bus, slot, node = -1;
	char path[128];
	FILE *f;

	if (!cu || cu->device_get(&device, number) ||
		cu->device_attribute(&domain, CU_DEVICE_PCI_DOMAIN, device) ||
		cu->device_attribute(&bus, CU_DEVICE_PCI_BUS, device) ||
		cu->device_attribute(&slot, CU_DEVICE_PCI_DEVICE, device))
		return -1;
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%04x:%02x:%02x.0/numa_node", domain, bus,
		slot);
	f = fopen(path, "re");
	if (!f)
		return -1;
	if (fscanf(f, "%d", &node) != 1)
		node = -1;
	fclose(f);
	return node;
}

/* The driver exports whole pages, with the memory around small allocations. */
static int dmabuf_of(const struct cuda *cu, uint64_t addr, uint64_t len, uint64_t *offset_p)
{
	uint64_t base, start;
	size_t size;
	int fd, result = cu->address_range(&base, &size, addr);

	if (!result && len > size - (addr - base))
		return -EOPNOTSUPP; /* several mappings */
	start = result ? 0 : base / PAGE * PAGE;
	if (!result)
		result = cu->dma_buf(&fd, start, align_up(base + size, PAGE) - start,
			CU_HANDLE_DMA_BUF, 0);
	if (result)
		return cuda_errno(result);
	*offset_p = addr - start;
	return fd;
}

int gpu_memory_dmabuf(const struct gpu_memory *m, uint64_t addr, uint64_t len, uint64_t *offset_p)
{
	const struct cuda *cu = cuda_used();
	int fd = cu->dma_buf ? cuda_push(cu, m->context, m->device) : -EOPNOTSUPP;

	if (fd)
		return fd;
	fd = dmabuf_of(cu, addr, len, offset_p);
	cuda_pop(cu);
	return fd;
}

/* ---- memory of another process ---- */

/* True: the allocation has @len bytes after @offset. */
static bool fits(const struct cuda *cu, uint64_t base, uint64_t offset, uint64_t len)
{
	uint64_t start;
	size_t size;

	return !cu->address_range(&start, &size, base) && start == base && offset <= size &&
	       len <= size - offset;
}

static uint64_t open_current(const struct cuda *cu, const struct cu_ipc *handle, uint64_t offset,
	uint64_t len)
{
	uint64_t base;

	if (cu->ipc_open(&base, *handle, CU_IPC_LAZY_PEER_ACCESS))
		return 0;
	if (fits(cu, base, offset, len))
		return base + offset;
	cu->ipc_close(base);
	return 0;
}

void *gpu_memory_open(const struct cu_ipc *handle, uint64_t offset, uint64_t len, int device)
{
	const struct cuda *cu = cuda_open(NULL);
	uint64_t at;

	/* The peer may see more devices than this process, so @device may not exist here. */
	if (!cu || (cuda_push(cu, NULL, device) && cuda_push(cu, NULL, 0)))
		return NULL;
	at = open_current(cu, handle, offset, len);
	cuda_pop(cu);
	return (void *)(uintptr_t)at;
}

void gpu_memory_close(void *at, uint64_t offset)
{
	const struct cuda *cu = cuda_used();
	struct gpu_memory m;

	if (!gpu_memory_at(cu, (uintptr_t)at, &m) || cuda_push(cu, m.context, m.device))
		return;
	cu->ipc_close((uintptr_t)at - offset);
	cuda_pop(cu);
}

/* ---- memory of the host ---- */

int gpu_memory_pin(void *at, uint64_t len)
{
	const struct cuda *cu = cuda_open(NULL);
	int err = cu ? cuda_push(cu, NULL, 0) : -ENODEV;

	if (err)
		return err;
	err = cuda_errno(cu->host_register(at, len, CU_HOST_PORTABLE));
	cuda_pop(cu);
	return err;
}

void gpu_memory_unpin(void *at)
{
	const struct cuda *cu = cuda_used();

	if (cuda_push(cu, NULL, 0))
		return;
	cu->host_unregister(at);
	cuda_pop(cu);
}
