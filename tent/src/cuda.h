/* SPDX-License-Identifier: MIT */
/*
 * The driver API of NVIDIA's GPUs, as far as this library uses it. Nothing of CUDA is needed to
 * build: libcuda.so.1 is opened when it is needed, and this file declares what is called.
 *
 * The members of struct cuda are the driver's functions, and return its results: 0, or the number
 * of an error, of which enum cu_error has those that this library uses. Functions with the comment
 * "current" need a current context, see cuda_push().
 */
#ifndef TENT_CUDA_H
#define TENT_CUDA_H

#include <stddef.h>
#include <stdint.h>

#include "tent.h"

struct cu_context;
struct cu_stream;
struct cu_event;

/* A handle by which another process can open memory. */
struct cu_ipc {
	uint8_t bytes[64];
};

enum cu_error {
	CU_INVALID_VALUE = 1,
	CU_OUT_OF_MEMORY = 2,
	CU_NOT_INITIALIZED = 3,
	CU_DEINITIALIZED = 4,
	CU_NO_DEVICE = 100,
	CU_INVALID_DEVICE = 101,
	CU_INVALID_CONTEXT = 201,
	CU_PEER_ACCESS_UNSUPPORTED = 217,
	CU_INVALID_HANDLE = 400,
	CU_NOT_READY = 600,
	CU_ILLEGAL_ADDRESS = 700,
	CU_HOST_REGISTERED = 712, /* the memory is registered already */
	CU_HOST_NOT_REGISTERED = 713,
	CU_LAUNCH_FAILED = 719,
	CU_NOT_SUPPORTED = 801,
};

enum cu_pointer_attribute {
	CU_POINTER_CONTEXT = 1, /* struct cu_context *; NULL: the memory has no context */
	CU_POINTER_MEMORY_TYPE = 2, /* unsigned: enum cu_memory_type */
	CU_POINTER_SYNC_MEMOPS = 6, /* unsigned: 1: synchronous functions return after their
				       copies */
	CU_POINTER_DEVICE = 9, /* int */
};

enum cu_memory_type {
	CU_MEMORY_HOST = 1,
	CU_MEMORY_DEVICE = 2,
};

enum cu_device_attribute {
	CU_DEVICE_PCI_BUS = 33,
	CU_DEVICE_PCI_DEVICE = 34,
	CU_DEVICE_PCI_DOMAIN = 50,
	CU_DEVICE_DMA_BUF = 124, /* 1: memory has dma-buf descriptors */
};

#define CU_STREAM_LEGACY ((struct cu_stream *)1) /* the default stream of the current context */
#define CU_STREAM_PER_THREAD ((struct cu_stream *)2)
#define CU_STREAM_NON_BLOCKING 1u /* the stream does not wait for the default stream */
#define CU_EVENT_FLAGS 3u /* a waiting thread sleeps; no time stamps */
#define CU_HOST_PORTABLE 1u /* the memory is pinned for all contexts */
#define CU_IPC_LAZY_PEER_ACCESS 1u
#define CU_HANDLE_DMA_BUF 1

typedef void cu_callback(struct cu_stream *stream, int result, void *arg);

/* X(member, the driver's name, arguments) */
#define CUDA_FUNCTIONS(X)                                                                          \
	X(init, cuInit, unsigned flags)                                                            \
	X(error_string, cuGetErrorString, int error, const char **text_p)                          \
	X(device_get, cuDeviceGet, int *device_p, int number)                                      \
	X(device_attribute, cuDeviceGetAttribute, int *value_p, int attribute, int device)         \
	X(primary_retain, cuDevicePrimaryCtxRetain, struct cu_context **c_p, int device)           \
	X(ctx_push, cuCtxPushCurrent_v2, struct cu_context *c)                                     \
	X(ctx_pop, cuCtxPopCurrent_v2, struct cu_context **c_p)                                    \
	X(pointer_attribute, cuPointerGetAttribute, void *value_p, int attribute, uint64_t at)     \
	X(pointer_set, cuPointerSetAttribute, const void *value, int attribute, uint64_t at)       \
	X(address_range, cuMemGetAddressRange_v2, uint64_t *base_p, size_t *len_p,                 \
		uint64_t at) /* current */                                                         \
	X(mem_alloc, cuMemAlloc_v2, uint64_t *at_p, size_t len) /* current */                      \
	X(mem_free, cuMemFree_v2, uint64_t at) /* current */                                       \
	X(ipc_get, cuIpcGetMemHandle, struct cu_ipc *handle_p, uint64_t at) /* current */          \
	X(ipc_open, cuIpcOpenMemHandle_v2, uint64_t *at_p, struct cu_ipc handle,                   \
		unsigned flags) /* current */                                                      \
	X(ipc_close, cuIpcCloseMemHandle, uint64_t at) /* current */                               \
	X(host_register, cuMemHostRegister_v2, void *at, size_t len, unsigned flags) /* current */ \
	X(host_unregister, cuMemHostUnregister, void *at) /* current */                            \
	X(copy_async, cuMemcpyAsync, uint64_t to, uint64_t from, size_t len,                       \
		struct cu_stream *stream) /* current */                                            \
	X(stream_create, cuStreamCreate, struct cu_stream **s_p, unsigned flags) /* current */     \
	X(stream_destroy, cuStreamDestroy_v2, struct cu_stream *s)                                 \
	X(stream_synchronize, cuStreamSynchronize, struct cu_stream *s)                            \
	X(stream_callback, cuStreamAddCallback, struct cu_stream *s, cu_callback *fn, void *arg,   \
		unsigned flags)                                                                    \
	X(event_create, cuEventCreate, struct cu_event **e_p, unsigned flags) /* current */        \
	X(event_destroy, cuEventDestroy_v2, struct cu_event *e)                                    \
	X(event_record, cuEventRecord, struct cu_event *e, struct cu_stream *s)                    \
	X(event_synchronize, cuEventSynchronize, struct cu_event *e)

struct cuda {
#define X(member, name, ...) int (*member)(__VA_ARGS__);
	CUDA_FUNCTIONS(X)
#undef X
	/*
	 * cuMemGetHandleForAddressRange, which needs a current context. NULL: the driver is too
	 * old. @at and @len are multiples of the page size.
	 */
	int (*dma_buf)(int *fd_p, uint64_t at, size_t len, int type, unsigned long long flags);
};

/*
 * Opens and initializes the driver; later calls return the same. NULL: there is no driver, and
 * @why, which may be NULL, has the reason.
 */
const struct cuda *cuda_open(struct tent_why *why);
/* The driver, if this process uses it already; else NULL. */
const struct cuda *cuda_used(void);

/* Converts a result of the driver to 0 or -errno. */
int cuda_errno(int result);
/* Writes an error of the driver with its text. Returns cuda_errno(@result). */
int cuda_why(const char *what, int result, struct tent_why *why);

/*
 * Makes a context current in this thread until cuda_pop(). @c NULL: the primary context of @device.
 * 0 or -errno.
 */
int cuda_push(const struct cuda *cu, struct cu_context *c, int device);
void cuda_pop(const struct cuda *cu);

#endif
