/* SPDX-License-Identifier: MIT */
/* The prototypes of the driver's functions, as cuda.h describes them, and those that only tests use. */
#ifndef TENT_SOFTGPU_DRIVER_H
#define TENT_SOFTGPU_DRIVER_H

#include "priv.h"

#pragma GCC visibility push(default)
int cuInit(unsigned flags);
int cuGetErrorString(int error, const char **text_p);
int cuDeviceGet(int *device_p, int number);
int cuDeviceGetAttribute(int *value_p, int attribute, int device);
int cuDevicePrimaryCtxRetain(struct cu_context **c_p, int device);
int cuCtxCreate_v2(struct cu_context **c_p, unsigned flags, int device);
int cuCtxPushCurrent_v2(struct cu_context *c);
int cuCtxPopCurrent_v2(struct cu_context **c_p);
int cuPointerGetAttribute(void *value_p, int attribute, uint64_t at);
int cuPointerSetAttribute(const void *value, int attribute, uint64_t at);
int cuMemGetAddressRange_v2(uint64_t *base_p, size_t *len_p, uint64_t at);
int cuMemAlloc_v2(uint64_t *at_p, size_t len);
int cuMemAllocAsync(uint64_t *at_p, size_t len, struct cu_stream *stream);
int cuMemFree_v2(uint64_t at);
int cuIpcGetMemHandle(struct cu_ipc *handle_p, uint64_t at);
int cuIpcOpenMemHandle_v2(uint64_t *at_p, struct cu_ipc handle, unsigned flags);
int cuIpcCloseMemHandle(uint64_t at);
int cuMemHostRegister_v2(void *at, size_t len, unsigned flags);
int cuMemHostUnregister(void *at);
int cuMemGetHandleForAddressRange(void *handle_p, uint64_t at, size_t len, int type,
	unsigned long long flags);
int cuMemcpyAsync(uint64_t to, uint64_t from, size_t len, struct cu_stream *stream);
int cuMemcpy(uint64_t to, uint64_t from, size_t len);
int cuStreamCreate(struct cu_stream **s_p, unsigned flags);
int cuStreamDestroy_v2(struct cu_stream *s);
int cuStreamSynchronize(struct cu_stream *s);
int cuStreamWaitEvent(struct cu_stream *s, struct cu_event *e, unsigned flags);
int cuStreamAddCallback(struct cu_stream *s, cu_callback *fn, void *arg, unsigned flags);
int cuEventCreate(struct cu_event **e_p, unsigned flags);
int cuEventDestroy_v2(struct cu_event *e);
int cuEventRecord(struct cu_event *e, struct cu_stream *s);
int cuEventQuery(struct cu_event *e);
int cuEventSynchronize(struct cu_event *e);

#pragma GCC visibility pop

#endif
