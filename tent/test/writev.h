/* SPDX-License-Identifier: MIT */
/* Replaces process_vm_writev(): calls on_writev() of the test, then the function of libc. */
#ifndef TENT_TEST_WRITEV_H
#define TENT_TEST_WRITEV_H

#include <sys/uio.h>

#include "next.h"

/* Called in the thread that copies. */
static void on_writev(size_t len);

REPLACE(on_writev(here->iov_len), ssize_t, process_vm_writev,
	(pid_t pid, const struct iovec *here, unsigned long n_here, const struct iovec *there,
		unsigned long n_there, unsigned long flags),
	pid, here, n_here, there, n_there, flags)

#endif
