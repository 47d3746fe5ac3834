/* SPDX-License-Identifier: MIT */
/*
 * Converts the time stamps that a device puts into completions to times of the post clock, the
 * clock of the host that times the posts. The device stamps a completion between the post and the
 * poll of its request, so each request yields a lower and an upper bound of the difference of the
 * two clocks. Requests without effect (probes) are posted for this on a separate QP, before and
 * during the traffic; the requests of the traffic yield bounds as well. The bounds form an
 * interval, which grows with time because the clocks may drift apart, and each completion may
 * narrow it. The error of a converted time is half of the interval, and no converted time is before
 * its post or after its poll.
 */
#ifndef RDMABENCH_HWCLOCK_H
#define RDMABENCH_HWCLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "latrec.h"
#include "mlx5dvl.h"

#define HWCLOCK_DRIFT_PPM 200 /* two oscillators that are wrong by at most 100 ppm each */
#define HWCLOCK_TEXT 256

struct hwclock_bounds {
	uint32_t drift_ppm; /* largest drift of the two clocks */
	bool known;
	int64_t low, high; /* bounds of post clock minus device's clock, at time at_ns */
	uint64_t at_ns; /* of the post clock */
	uint64_t worst_ns, sum_ns, converted; /* largest error, sum of errors, number of times */
	uint64_t jumps; /* completions that contradicted the bounds */
};

/* Adds the bounds of a request from the times at which it was posted, stamped by the device, and
 * polled. */
void hwclock_bound(struct hwclock_bounds *b, uint64_t posted_ns, uint64_t device_ns,
	uint64_t polled_ns);

/* Returns the largest error of a conversion at now_ns. */
uint64_t hwclock_error(const struct hwclock_bounds *b, uint64_t now_ns);

/* Adds bounds, converts the device's time to the post clock, and records the error. */
uint64_t hwclock_convert(struct hwclock_bounds *b, uint64_t posted_ns, uint64_t device_ns,
	uint64_t polled_ns);

/* The bounds of a device, and the objects of the probes. */
struct hwclock {
	struct hwclock_bounds b;
	const struct latrec_clock *post;
	struct mlx5dvl_ctx *ctx;
	struct mlx5dvl_clock device;
	struct mlx5dvl_cq *cq;
	struct mlx5dvl_qp *qp;
	uint64_t probes, probed_ns;
	uint64_t text_worst_ns; /* error that hwclock_name() states */
	char text[HWCLOCK_TEXT]; /* text of hwclock_name(), renewed by hwclock_tend() */
};

/*
 * Creates the QP, probes, and checks that both clocks run at the same rate. Returns 0;
 * -EOPNOTSUPP if the device does not offer its clock (c->probes is 0), or if the rates of the two
 * clocks differ (c->probes is not 0); or an error of the device.
 * hwclock_close() must be called after an error as well.
 */
int hwclock_open(struct hwclock *c, struct mlx5dvl_ctx *ctx, const struct latrec_clock *post);
void hwclock_close(struct hwclock *c);

/* Probes if a probe is due, and renews the text of hwclock_name(). Returns 0, or -errno if the
 * device does not answer. */
int hwclock_tend(struct hwclock *c, uint64_t now_ns);

/*
 * Converts the device's stamp of a request to the post clock. @posted_ns and @polled_ns are the
 * times of the request's post and poll.
 */
uint64_t hwclock_time(struct hwclock *c, uint64_t posted_ns, uint64_t stamp, uint64_t polled_ns);

/* Describes the stamps and their largest error so far. */
const char *hwclock_name(const struct hwclock *c);

#endif
