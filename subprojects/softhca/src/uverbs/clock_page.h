/* SPDX-License-Identifier: MIT */
/* The page from which mlx5dv_get_clock_info() reads. */
#ifndef SOFTHCA_UVERBS_CLOCK_PAGE_H
#define SOFTHCA_UVERBS_CLOCK_PAGE_H

/*
 * Writes the page to the device file @fd, at the offset at which the provider maps it. Returns
 * 0 or -errno.
 */
int clock_page_write(int fd);

#endif
