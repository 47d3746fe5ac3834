/* SPDX-License-Identifier: MIT */
#ifndef SOFTHCA_DMA_FORBIDDEN_H
#define SOFTHCA_DMA_FORBIDDEN_H

#include <stdbool.h>
#include <stdint.h>

/* Prints, once, why the memory of @pid cannot be accessed. Signal safe. */
void dma_say_forbidden(int32_t pid);

/* Returns true if a system call filter forbids access to the memory of other processes. */
bool dma_filtered(void);

#define DMA_FILTERED                                                                               \
	"seccomp forbids process_vm_readv and process_vm_writev here; allow them, in a container " \
	"with --cap-add SYS_PTRACE or another profile"

#endif
