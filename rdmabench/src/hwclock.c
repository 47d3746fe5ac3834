/* SPDX-License-Identifier: MIT */
#include "hwclock.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>

#include "base/clock.h"

#define QUEUE_BLOCKS 16
#define CQ_DEPTH 64
#define PROBES_FIRST 16
#define PROBES 4
#define INTERVAL_NS (50 * NSEC_PER_MSEC) /* between two groups of probes during the traffic */
#define APART_NS (5 * NSEC_PER_MSEC) /* between two groups of probes that check the clocks' rates */
#define ANSWER_NS NSEC_PER_SEC
#define BUSY_TRIES 1000 /* attempts to read the clock page; they fail while the driver updates it */

static int64_t drift(const struct hwclock_bounds *b, uint64_t now_ns)
{
	uint64_t passed = now_ns > b->at_ns ? now_ns - b->at_ns : 0;

	return (int64_t)((double)passed * b->drift_ppm / 1e6);
}

void hwclock_bound(struct hwclock_bounds *b, uint64_t posted_ns, uint64_t device_ns,
	uint64_t polled_ns)
{
	int64_t low = (int64_t)(posted_ns - device_ns), high = (int64_t)(polled_ns - device_ns);
	int64_t moved = drift(b, polled_ns), was_low = b->low - moved, was_high = b->high + moved;

	if (b->known && (low > was_high || high < was_low)) {
		b->jumps++;
	} else if (b->known) {
		low = low > was_low ? low : was_low;
		high = high < was_high ? high : was_high;
	}
	b->low = low;
	b->high = high;
	b->at_ns = polled_ns;
	b->known = true;
}

uint64_t hwclock_error(const struct hwclock_bounds *b, uint64_t now_ns)
{
	return (uint64_t)((b->high - b->low + 1) / 2 + drift(b, now_ns));
}

uint64_t hwclock_convert(struct hwclock_bounds *b, uint64_t posted_ns, uint64_t device_ns,
	uint64_t polled_ns)
{
	uint64_t error;

	hwclock_bound(b, posted_ns, device_ns, polled_ns);
	error = hwclock_error(b, polled_ns);
	b->worst_ns = error > b->worst_ns ? error : b->worst_ns;
	b->sum_ns += error;
	b->converted++;
	return device_ns + (uint64_t)(b->low + (b->high - b->low) / 2);
}

/* ---- on a device ---- */

static int read_clock(struct hwclock *c)
{
	int err = mlx5dvl_ctx_clock(c->ctx, &c->device);

	for (int i = 0; i < BUSY_TRIES && err == -EAGAIN; i++) {
		sched_yield();
		err = mlx5dvl_ctx_clock(c->ctx, &c->device);
	}
	return err;
}

static void keep_stamp(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_sent *sent)
{
	*(uint64_t *)arg = sent->stamp;
}

static int probe_once(struct hwclock *c)
{
	uint64_t posted = latrec_clock_now(c->post), polled, stamp = 0;
	int err = mlx5dvl_post_nop(c->qp, MLX5DVL_SIGNALED, 0), n;

	if (err)
		return err;
	mlx5dvl_ring(c->qp);
	for (;;) {
		n = mlx5dvl_send_poll(c->cq, 1, keep_stamp, &stamp);
		polled = latrec_clock_now(c->post);
		if (n)
			break;
		if (polled - posted > ANSWER_NS)
			return -ETIMEDOUT;
		sched_yield();
	}
	if (mlx5dvl_qp_status(c->qp))
		return mlx5dvl_qp_status(c->qp);
	hwclock_bound(&c->b, posted, mlx5dvl_clock_ns(&c->device, stamp), polled);
	c->probes++;
	return 0;
}

static void renew_name(struct hwclock *c)
{
	uint64_t now = hwclock_error(&c->b, c->probed_ns);
	uint64_t worst = c->b.worst_ns > now ? c->b.worst_ns : now;

	if (worst == c->text_worst_ns)
		return;
	c->text_worst_ns = worst;
	snprintf(c->text, sizeof(c->text),
		"completion time stamps of %.64s, accurate to %llu ns relative to the clock of the "
		"posts, %s",
		mlx5dvl_ctx_device(c->ctx), (unsigned long long)worst, latrec_clock_name(c->post));
}

static int probe(struct hwclock *c, int n)
{
	int err = read_clock(c);

	for (int i = 0; i < n && !err; i++)
		err = probe_once(c);
	c->probed_ns = latrec_clock_now(c->post);
	return err;
}

static int make_queue(struct hwclock *c)
{
	struct mlx5dvl_cq_attr cq = {.depth = CQ_DEPTH};
	struct mlx5dvl_qp_attr qp = {.sq_depth = QUEUE_BLOCKS};
	struct mlx5dvl_qp_info own;
	int err = mlx5dvl_cq_create(c->ctx, &cq, &c->cq);

	qp.send_cq = c->cq;
	if (!err)
		err = mlx5dvl_qp_create(c->ctx, &qp, &c->qp);
	if (err)
		return err;
	mlx5dvl_qp_get_info(c->qp, &own, sizeof(own));
	return mlx5dvl_qp_connect(c->qp, &own, sizeof(own));
}

int hwclock_open(struct hwclock *c, struct mlx5dvl_ctx *ctx, const struct latrec_clock *post)
{
	int err;

	*c = (struct hwclock){.ctx = ctx, .post = post};
	c->b.drift_ppm = HWCLOCK_DRIFT_PPM + post->error_ppm;
	err = read_clock(c);
	if (!err)
		err = make_queue(c);
	if (!err)
		err = probe(c, PROBES_FIRST);
	if (err)
		return err;
	clock_nap(APART_NS);
	err = probe(c, PROBES_FIRST);
	renew_name(c);
	return !err && c->b.jumps ? -EOPNOTSUPP : err;
}

void hwclock_close(struct hwclock *c)
{
	mlx5dvl_qp_destroy(c->qp);
	mlx5dvl_cq_destroy(c->cq);
}

int hwclock_tend(struct hwclock *c, uint64_t now_ns)
{
	int err = now_ns - c->probed_ns < INTERVAL_NS ? 0 : probe(c, PROBES);

	renew_name(c);
	return err;
}

uint64_t hwclock_time(struct hwclock *c, uint64_t posted_ns, uint64_t stamp, uint64_t polled_ns)
{
	uint64_t device_ns = mlx5dvl_clock_ns(&c->device, stamp);

	return hwclock_convert(&c->b, posted_ns, device_ns, polled_ns);
}

const char *hwclock_name(const struct hwclock *c)
{
	return c->text;
}
