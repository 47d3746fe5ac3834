/* SPDX-License-Identifier: MIT */
/*
 * A link: one rail here connected with one rail of a peer. Two kinds behind one table: a
 * queue pair (rdma.c), and a thread that copies (shm.c). The initiator's end moves data, the
 * target's end of a queue pair receives marks; shared memory has no target's end.
 *
 * All functions are called with the engine's lock held.
 */
#ifndef TENT_LINK_H
#define TENT_LINK_H

#include "mlx5dvl.h"
#include "notice.h"
#include "pairing.h"

#define LINK_DEPTH 64 /* slices posted at a time */
#define LINK_EXTRA 32 /* marks, and a probe, beside them */

struct link;

/* Where a slice, or a probe, is; what remains of the peer once it is connected. */
struct link_move {
	bool write;
	void *local;
	uint64_t remote;
	uint64_t len;
	uint32_t lkey, rkey;
	uint64_t token;
};

typedef void link_done_fn(void *arg, uint64_t token, int status);
typedef void link_mark_fn(void *arg, const struct notice_mark *mark);

struct link_ops {
	/* What the peer's end needs for its connect. */
	void (*info)(const struct link *l, struct mlx5dvl_qp_info *info_p);
	int (*connect)(struct link *l, const struct mlx5dvl_qp_info *peer);
	/* 0; -EAGAIN full; another -errno: the link has failed. */
	int (*post)(struct link *l, const struct link_move *move);
	/* Asks the peer whether it is there; without data. */
	int (*post_probe)(struct link *l, uint64_t token);
	/* NULL: a message over the control connection stands for a notice's marks. */
	int (*post_mark)(struct link *l, const struct notice_mark *mark, uint64_t token);
	void (*flush)(struct link *l);
	/* Reports what has ended; how much. */
	int (*poll)(struct link *l, link_done_fn *fn, void *arg);
	int (*poll_marks)(struct link *l, int max, link_mark_fn *fn, void *arg);
	/*
	 * Nothing more is started, and nothing of the peer arrives; what is posted ends with an
	 * error. 0, or -errno: only destroy() makes sure of that.
	 */
	int (*stop)(struct link *l);
	/* Makes the descriptors readable at the next completion. */
	void (*arm)(struct link *l);
	/* A descriptor may have become readable. */
	void (*disarm)(struct link *l);
	/* Afterwards nothing of it reads or writes memory. */
	void (*destroy)(struct link *l);
};

struct link {
	const struct link_ops *ops;
	uint32_t posted; /* that have not been reported */
	int fds[2]; /* -1: none */
};

/* An adapter. */
struct dev {
	struct mlx5dvl_ctx *ctx;
	struct mlx5dvl_port port;
	char name[TENT_NAME_LEN];
	bool fatal;
};

int dev_open(const char *name, struct dev **dev_p);
void dev_close(struct dev *d);

/* A queue pair of the adapter; target: it receives marks. */
int rdma_link_create(struct dev *d, bool target, struct link **l_p);

/* A copying thread; 16 bytes at proof in the peer's memory are key, or it is another process. */
int shm_link_create(int32_t pid, uint64_t proof, const uint8_t key[16], struct link **l_p);

#endif
