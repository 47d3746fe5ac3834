/* SPDX-License-Identifier: MIT */
#include "uverbs/uar.h"

#include <errno.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>

#include "hca/objects.h"
#include "sys/sys.h"
#include "trap/pages.h"
#include "uverbs/cmd.h"

/*
 * The id of the first doorbell page. As in the kernel, ids differ from the offsets of the pages in
 * the device file.
 */
#define PAGE_ID_FIRST 0x60u

/*
 * The bitmap is changed without the fabric's mutex, because pages_drop_uar() takes a lock, which a
 * thread that loses the mutex would never release. All accesses are relaxed: a bit determines only
 * which thread has the number.
 */
static bool is_allocated(const struct uctx *u, uint64_t i)
{
	return i < UAR_OBJECTS && __atomic_load_n(&u->uars[i / 64], __ATOMIC_RELAXED) >> i % 64 & 1;
}

static int alloc_index(struct uctx *u)
{
	for (uint32_t i = 0; i < UAR_OBJECTS; i++) {
		uint64_t bit = 1ull << i % 64;

		if (!is_allocated(u, i) &&
			!(__atomic_fetch_or(&u->uars[i / 64], bit, __ATOMIC_RELAXED) & bit))
			return (int)i;
	}
	return -ENOMEM;
}

/*
 * The provider maps the page. This library finds the mapping when a QP or CQ with a doorbell on the
 * page is created.
 */
static int uar_alloc(struct uctx *u, struct ib_uverbs_ioctl_hdr *h)
{
	struct ib_uverbs_attr *handle = cmd_attr(h, MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, 0);
	struct ib_uverbs_attr *type = cmd_attr(h, MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, 8);
	struct ib_uverbs_attr *offset = cmd_attr(h, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, 8);
	struct ib_uverbs_attr *length = cmd_attr(h, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, 4);
	struct ib_uverbs_attr *page_id = cmd_attr(h, MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, 4);
	int i;

	if (!handle || !type || !offset || !length || !page_id)
		return -EINVAL;
	if (type->data != MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF &&
		type->data != MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC)
		return -EOPNOTSUPP;
	i = alloc_index(u);
	if (i < 0)
		return i;
	handle->data = (uint32_t)i;
	*(uint64_t *)(uintptr_t)offset->data = (uint64_t)(UAR_DYNAMIC + (uint32_t)i) * UAR_PAGE;
	*(uint32_t *)(uintptr_t)length->data = UAR_PAGE;
	*(uint32_t *)(uintptr_t)page_id->data = PAGE_ID_FIRST + (uint32_t)i;
	return 0;
}

static int uar_destroy(struct uctx *u, struct ib_uverbs_ioctl_hdr *h)
{
	struct ib_uverbs_attr *handle = cmd_attr(h, MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE, 0);

	if (!handle)
		return -EINVAL;
	if (!is_allocated(u, handle->data))
		return -ENOENT;
	/* First, because another thread may get the number afterwards, and map its page. */
	pages_drop_uar(u, UAR_DYNAMIC + (uint32_t)handle->data);
	__atomic_fetch_and(&u->uars[handle->data / 64], ~(1ull << handle->data % 64),
		__ATOMIC_RELAXED);
	return 0;
}

int uar_ioctl(struct uctx *u, struct ib_uverbs_ioctl_hdr *h)
{
	if (h->method_id != MLX5_IB_METHOD_UAR_OBJ_ALLOC &&
		h->method_id != MLX5_IB_METHOD_UAR_OBJ_DESTROY)
		return -EPROTONOSUPPORT;
	if (u->ctx == NO_INDEX)
		return -EINVAL;
	if (!u->dynamic_uars)
		return -EPROTONOSUPPORT;
	return h->method_id == MLX5_IB_METHOD_UAR_OBJ_ALLOC ? uar_alloc(u, h) : uar_destroy(u, h);
}

int uar_of_page_id(const struct uctx *u, uint32_t page_id)
{
	uint32_t i = page_id - PAGE_ID_FIRST;

	return is_allocated(u, i) ? (int)(UAR_DYNAMIC + i) : -EINVAL;
}
