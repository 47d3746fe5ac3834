/* SPDX-License-Identifier: MIT */
/*
 * The time stamps that a device puts into completions, as times of the clock that posts are
 * stamped with.
 *
 * Between a post and the poll of its completion the device has stamped the completion: each such
 * request bounds the difference of the two clocks from both sides. Requests without effect on a
 * QP of their own (probes) are posted for that, before the traffic and while it runs, and the
 * traffic itself bounds it. What is known is an interval. It grows with time, as clocks may drift
 * apart, and each completion cuts it. So the error of a time that has been converted is known, and
 * is half of the interval; and no time is before its post or after its poll.
 */
#ifndef RDMABENCH_HWCLOCK_H
#define RDMABENCH_HWCLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "latrec.h"
#include "mlx5dvl.h"

#define HWCLOCK_DRIFT_PPM 200 /* of two quartzes against each other, each within 100 */
#define HWCLOCK_TEXT 256

struct hwclock_bounds {
	uint32_t drift_ppm; /* how fast the two may drift apart, at most */
	bool known;
	int64_t low, high; /* post clock minus device's clock, at at_ns of the post clock */
	uint64_t at_ns;
	uint64_t worst_ns, sum_ns, converted; /* errors of the times that were converted */
	uint64_t jumps; /* completions that contradicted what was known */
};

/* A request was posted, was stamped by the device, and its completion was polled. */
void hwclock_bound(struct hwclock_bounds *b, uint64_t posted_ns, uint64_t device_ns,
	uint64_t polled_ns);

/* How far a conversion at now_ns can be off. */
uint64_t hwclock_error(const struct hwclock_bounds *b, uint64_t now_ns);

/* Bounds, and the device's time by the post clock; the error is noted. */
uint64_t hwclock_convert(struct hwclock_bounds *b, uint64_t posted_ns, uint64_t device_ns,
	uint64_t polled_ns);

/* The bounds of a device, with what the probes need. */
struct hwclock {
	struct hwclock_bounds b;
	const struct latrec_clock *post;
	struct mlx5dvl_ctx *ctx;
	struct mlx5dvl_clock device;
	struct mlx5dvl_cq *cq;
	struct mlx5dvl_qp *qp;
	uint64_t probes, probed_ns;
	uint64_t text_worst_ns; /* that text has */
	char text[HWCLOCK_TEXT]; /* of hwclock_name(), renewed by hwclock_tend() */
};

/*
 * Makes the QP and probes until the clocks are known to run together. 0; -EOPNOTSUPP the device
 * does not offer its clock; -ENOTSUP the two clocks do not run alike; or an error of the device.
 * After an error, too, hwclock_close().
 */
int hwclock_open(struct hwclock *c, struct mlx5dvl_ctx *ctx, const struct latrec_clock *post);
void hwclock_close(struct hwclock *c);

/* Probes if it is time to, and renews the name. 0; -errno: the device does not answer. */
int hwclock_tend(struct hwclock *c, uint64_t now_ns);

/* When, by the post clock, the device stamped a request that was posted and has been polled. */
uint64_t hwclock_time(struct hwclock *c, uint64_t posted_ns, uint64_t stamp, uint64_t polled_ns);

/* What stamps are, and how far they can be off; as it is now. */
const char *hwclock_name(const struct hwclock *c);

#endif
