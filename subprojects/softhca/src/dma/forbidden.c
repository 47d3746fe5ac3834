/* SPDX-License-Identifier: MIT */
#include "dma/forbidden.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/uio.h>

#include "sys/sys.h"

/*
 * A process may always access its own memory, so only a system call filter can refuse this
 * access.
 */
bool dma_filtered(void)
{
	char from = 0, to;
	struct iovec remote = {&from, 1}, local = {&to, 1};
	long r = SYS(SYS_process_vm_readv, getpid(), &local, 1, &remote, 1, 0);

	return r == -EPERM || r == -ENOSYS;
}

/* Yama's ptrace_scope, 0 to 3; 0 if there is no Yama. */
static int yama_scope(void)
{
	int fd = sys_open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC, 0);
	char c = '0';

	if (fd < 0)
		return 0;
	sys_read(fd, &c, 1);
	sys_close(fd);
	return c - '0';
}

void dma_say_forbidden(int32_t pid)
{
	static atomic_flag told = ATOMIC_FLAG_INIT;
	char line[256];
	int scope, n;

	if (atomic_flag_test_and_set(&told))
		return;
	scope = yama_scope();
	n = snprintf(line, sizeof(line),
		"softhca: the memory of process %d is out of reach: ", pid);
	if (dma_filtered())
		n += snprintf(line + n, sizeof(line) - (size_t)n, DMA_FILTERED "\n");
	else if (scope > 1)
		n += snprintf(line + n, sizeof(line) - (size_t)n,
			"Yama forbids it: set kernel.yama.ptrace_scope, which is %d, to 0 or 1\n",
			scope);
	else
		n += snprintf(line + n, sizeof(line) - (size_t)n,
			"it cannot be traced: it is not dumpable, has other credentials, or a "
			"security module forbids it\n");
	sys_write(2, line, (size_t)n);
}
