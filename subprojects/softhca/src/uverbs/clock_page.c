/* SPDX-License-Identifier: MIT */
#include "uverbs/clock_page.h"

#include <rdma/mlx5-abi.h>
#include <stdint.h>

#include "hca/objects.h"
#include "sys/sys.h"
#include "xport/link.h"

#define PAGE 4096u
#define PAGE_OF(command, index) (((off_t)(command) << 8 | (index)) * PAGE)

/*
 * Time stamps are nanoseconds of 64 bits, so the page is valid for 292 years and is written only
 * once, before the program can map it. The field `sign`, which is odd during a change, stays 0. As
 * with an adapter whose clock is not adjusted, the page does not follow a later change of the time
 * of day.
 */
int clock_page_write(int fd)
{
	struct mlx5_ib_clock_info info = {
		.mult = 1,
		.shift = 0,
		.mask = UINT64_MAX,
		.overflow_period = INT64_MAX,
	};
	sigset_t saved;
	long n;

	if (fabric_enter(&saved))
		return -EIO;
	info.cycles = link_clock();
	info.nsec = sys_clock_ns(CLOCK_REALTIME);
	fabric_leave(&saved);
	n = SYS(SYS_pwrite64, fd, &info, sizeof(info),
		PAGE_OF(MLX5_IB_MMAP_CLOCK_INFO, MLX5_IB_CLOCK_INFO_V1));
	if (n < 0)
		return (int)n;
	return n == sizeof(info) ? 0 : -EIO;
}
