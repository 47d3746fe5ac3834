/* SPDX-License-Identifier: MIT */
/* Memory of the software GPU, its handles, and registered memory of the host. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/list.h"
#include "driver.h"

#define HANDLE_MAGIC 0x55504754464f53ull

/* The content of struct cu_ipc. */
struct handle {
	uint64_t magic, number, len, room;
	int32_t pid, fd, device;
};

struct memory *memory_at(uint64_t at)
{
	struct memory *m = gpu.memory;

	while (m && (at < m->at || at - m->at >= m->len))
		m = m->next;
	return m;
}

static struct memory **link_of(uint64_t base)
{
	struct memory **link = &gpu.memory;

	while (*link && (*link)->at != base)
		link = &(*link)->next;
	return link;
}

/* Maps m->room bytes of m->fd, and reserves the addresses of the device pointer. */
static int map(struct memory *m)
{
	void *at =
		mmap(NULL, m->room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	void *bytes = mmap(NULL, m->room, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);

	if (at == MAP_FAILED || bytes == MAP_FAILED)
		return CU_OUT_OF_MEMORY;
	m->at = (uintptr_t)at;
	m->bytes = bytes;
	m->next = gpu.memory;
	gpu.memory = m;
	return 0;
}

/* Frees memory that was not mapped. */
static void give_up(struct memory *m)
{
	if (m->fd >= 0)
		close(m->fd);
	free(m);
}

/* Waits for copies of the memory, and removes it. */
static void discard(struct memory *m)
{
	drain(m->bytes, m->room);
	*link_of(m->at) = m->next;
	munmap((void *)(uintptr_t)m->at, m->room);
	munmap(m->bytes, m->room);
	close(m->fd);
	free(m);
}

static int allocate(uint64_t *at_p, size_t len, bool pool)
{
	struct memory *m = calloc(1, sizeof(*m));
	struct stat st;

	m->len = len;
	m->room = (len + PAGE - 1) / PAGE * PAGE;
	m->fd = memfd_create("softgpu", MFD_CLOEXEC);
	if (m->fd < 0 || ftruncate(m->fd, (off_t)m->room) || fstat(m->fd, &st) || map(m)) {
		give_up(m);
		return CU_OUT_OF_MEMORY;
	}
	m->number = st.st_ino;
	m->context = pool ? NULL : current();
	m->device = current()->device;
	m->pool = pool;
	*at_p = m->at;
	return 0;
}

int cuMemAlloc_v2(uint64_t *at_p, size_t len)
{
	int result = begin_current("cuMemAlloc_v2");

	return finish(result ? result : len ? allocate(at_p, len, false) : CU_INVALID_VALUE);
}

/* Allocates memory from the pool of the current device. */
int cuMemAllocAsync(uint64_t *at_p, size_t len, struct cu_stream *stream)
{
	int result = begin_current("cuMemAllocAsync");

	return finish(result ? result : len ? allocate(at_p, len, true) : CU_INVALID_VALUE);
}

int cuMemFree_v2(uint64_t at)
{
	int result = begin_current("cuMemFree_v2");
	struct memory *m = *link_of(at);

	if (!result && (!m || m->opens))
		result = CU_INVALID_VALUE;
	if (result)
		return finish(result);
	discard(m);
	return finish(0);
}

/* ---- pointers ---- */

static int attribute_of(const struct memory *m, void *value_p, int attribute)
{
	switch (attribute) {
	case CU_POINTER_CONTEXT:
		*(struct cu_context **)value_p = m->context;
		return 0;
	case CU_POINTER_MEMORY_TYPE:
		*(unsigned *)value_p = CU_MEMORY_DEVICE;
		return 0;
	case CU_POINTER_SYNC_MEMOPS:
		*(unsigned *)value_p = m->sync_memops;
		return 0;
	case CU_POINTER_DEVICE:
		*(int *)value_p = m->device;
		return 0;
	default:
		return CU_INVALID_VALUE;
	}
}

const struct pinned *pinned_at(uint64_t at, uint64_t len)
{
	const struct pinned *p = gpu.pinned;

	while (p && (at < p->at || at - p->at >= p->len || len > p->len - (at - p->at)))
		p = p->next;
	return p;
}

int cuPointerGetAttribute(void *value_p, int attribute, uint64_t at)
{
	int result = begin("cuPointerGetAttribute");
	const struct memory *m = memory_at(at);

	if (!result && m)
		result = attribute_of(m, value_p, attribute);
	else if (!result && attribute == CU_POINTER_MEMORY_TYPE && pinned_at(at, 1))
		*(unsigned *)value_p = CU_MEMORY_HOST;
	else if (!result)
		result = CU_INVALID_VALUE;
	return finish(result);
}

int cuPointerSetAttribute(const void *value, int attribute, uint64_t at)
{
	int result = begin("cuPointerSetAttribute");
	struct memory *m = memory_at(at);

	if (!result && (!m || attribute != CU_POINTER_SYNC_MEMOPS))
		result = CU_INVALID_VALUE;
	if (!result && m->pool)
		result = CU_NOT_SUPPORTED;
	if (!result)
		m->sync_memops = *(const unsigned *)value;
	return finish(result);
}

int cuMemGetAddressRange_v2(uint64_t *base_p, size_t *len_p, uint64_t at)
{
	int result = begin_current("cuMemGetAddressRange_v2");
	const struct memory *m = memory_at(at);

	if (!result && (!m || (m->context && m->context != current())))
		result = CU_INVALID_VALUE;
	if (!result) {
		*base_p = m->at;
		*len_p = m->len;
	}
	return finish(result);
}

/* ---- handles ---- */

int cuIpcGetMemHandle(struct cu_ipc *handle_p, uint64_t at)
{
	int result = begin_current("cuIpcGetMemHandle");
	const struct memory *m = memory_at(at);
	struct handle h;

	if (!result && (!m || m->at != at || m->pool || m->opens || m->context != current()))
		result = CU_INVALID_VALUE;
	if (result)
		return finish(result);
	h = (struct handle){HANDLE_MAGIC, m->number, m->len, m->room, getpid(), m->fd, m->device};
	memset(handle_p, 0, sizeof(*handle_p));
	memcpy(handle_p, &h, sizeof(h));
	return finish(0);
}

/* The descriptor of the other process's memory, or -1: the memory does not exist any more. */
static int fetch(const struct handle *h)
{
	int process = pidfd_open(h->pid, 0);
	int fd = process < 0 ? -1 : pidfd_getfd(process, h->fd, 0);
	struct stat st;

	if (process >= 0)
		close(process);
	if (fd >= 0 && (fstat(fd, &st) || st.st_ino != h->number)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static struct memory *opened(uint64_t number)
{
	struct memory *m = gpu.memory;

	while (m && (!m->opens || m->number != number))
		m = m->next;
	return m;
}

static int open_new(const struct handle *h, struct memory **m_p)
{
	struct memory *m = calloc(1, sizeof(*m));

	*m = (struct memory){.len = h->len,
		.room = h->room,
		.number = h->number,
		.context = current(),
		.device = h->device,
		.fd = fetch(h)};
	if (m->fd < 0 || map(m)) {
		give_up(m);
		return CU_INVALID_VALUE;
	}
	*m_p = m;
	return 0;
}

int cuIpcOpenMemHandle_v2(uint64_t *at_p, struct cu_ipc handle, unsigned flags)
{
	int result = begin_current("cuIpcOpenMemHandle_v2");
	struct memory *m = NULL;
	struct handle h;

	memcpy(&h, &handle, sizeof(h));
	if (!result && (h.magic != HANDLE_MAGIC || h.device < 0 || h.device >= gpu.devices))
		result = CU_INVALID_VALUE;
	if (!result && h.pid == getpid())
		result = CU_INVALID_CONTEXT;
	if (!result) {
		m = opened(h.number);
		result = m ? 0 : open_new(&h, &m);
	}
	if (!result) {
		m->opens++;
		*at_p = m->at;
	}
	return finish(result);
}

int cuIpcCloseMemHandle(uint64_t at)
{
	int result = begin_current("cuIpcCloseMemHandle");
	struct memory *m = *link_of(at);

	if (!m || !m->opens)
		return finish(CU_INVALID_VALUE);
	if (!--m->opens)
		discard(m);
	return finish(result);
}

/* Returns a memfd in place of a dma-buf of whole pages; test-dmabuf.c says how adapters use it. */
int cuMemGetHandleForAddressRange(void *handle_p, uint64_t at, size_t len, int type,
	unsigned long long flags)
{
	int result = begin_current("cuMemGetHandleForAddressRange");
	const struct memory *m = memory_at(at);

	if (!result && (!m || m->at != at || len % PAGE || len > m->room || flags ||
			       type != CU_HANDLE_DMA_BUF))
		result = CU_INVALID_VALUE;
	if (!result) {
		int fd = fcntl(m->fd, F_DUPFD_CLOEXEC, 0);

		result = fd < 0 ? CU_OUT_OF_MEMORY : 0;
		memcpy(handle_p, &fd, sizeof(fd));
	}
	return finish(result);
}

/* ---- the host's memory ---- */

int cuMemHostRegister_v2(void *at, size_t len, unsigned flags)
{
	int result = begin_current("cuMemHostRegister_v2");
	struct pinned *p;
	uint64_t first = (uintptr_t)at / PAGE, last = ((uintptr_t)at + len - 1) / PAGE;

	for (p = gpu.pinned; p && !result; p = p->next) {
		if (first <= (p->at + p->len - 1) / PAGE && last >= p->at / PAGE)
			result = CU_HOST_REGISTERED;
	}
	if (!result && (!len || memory_at((uintptr_t)at)))
		result = CU_INVALID_VALUE;
	if (result)
		return finish(result);
	p = calloc(1, sizeof(*p));
	*p = (struct pinned){gpu.pinned, (uintptr_t)at, len};
	gpu.pinned = p;
	return finish(0);
}

int cuMemHostUnregister(void *at)
{
	int result = begin_current("cuMemHostUnregister");
	struct pinned *p = gpu.pinned;

	while (p && p->at != (uintptr_t)at)
		p = p->next;
	if (!p)
		return finish(CU_HOST_NOT_REGISTERED);
	drain(at, p->len);
	LIST_REMOVE(&gpu.pinned, p);
	free(p);
	return finish(result);
}

/* ---- for tests ---- */

unsigned softgpu_opened(void)
{
	unsigned n = 0;

	pthread_mutex_lock(&gpu.lock);
	for (const struct memory *m = gpu.memory; m; m = m->next)
		n += m->opens;
	pthread_mutex_unlock(&gpu.lock);
	return n;
}

unsigned softgpu_registered(void)
{
	unsigned n = 0;

	pthread_mutex_lock(&gpu.lock);
	for (const struct pinned *p = gpu.pinned; p; p = p->next)
		n++;
	pthread_mutex_unlock(&gpu.lock);
	return n;
}
