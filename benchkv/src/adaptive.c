/* SPDX-License-Identifier: MIT */
#include "adaptive.h"

#include <string.h>

#define ALPHA 0.05 /* weight of a new value of completions, empty loops or loop time */
#define ALPHA_RTT 0.02
#define RTT_FLOOR_US 0.5
#define RHO_LOW 0.8
#define RHO_HIGH 1.2
#define EMPTY_HIGH 0.75
#define EMPTY_LOW 0.40
#define LOW_NEED 64 /* consecutive loops before u rises */
#define HIGH_NEED 128 /* consecutive loops before u falls */
#define HOLD_MIN 32 /* loops without a decision after a change */
#define COLLAPSED_CQES 1.0
#define COLLAPSED_EMPTY 0.9
#define GAIN_MIN 1e-3 /* lower limit of db_du, which is a divisor */
#define U_MAX_LEAST 8
#define U_MAX_MOST 64
#define STEP_MOST 8

static double ewma(double old, double x, double alpha)
{
	return (1.0 - alpha) * old + alpha * x;
}

static uint32_t lesser(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

void adaptive_init(struct adaptive *a)
{
	memset(a, 0, sizeof(*a));
	a->u_max = U_MAX_LEAST;
	a->step_up = 1;
	a->step_down = 2;
	a->phase_loops = ADAPTIVE_WARMUP;
}

void adaptive_identify(struct adaptive *a)
{
	a->db_du = (a->b1 - a->b0) / ADAPTIVE_PROBE;
	a->de_du = (a->e1 - a->e0) / ADAPTIVE_PROBE;
	a->step_up = clamp(2.0 / (a->db_du > GAIN_MIN ? a->db_du : GAIN_MIN), 1, STEP_MOST);
	a->step_down = a->step_up * 2 > 2 ? a->step_up * 2 : 2;
	a->u_max = clamp(2.5 * a->r0, U_MAX_LEAST, U_MAX_MOST);
}

/* Ends a half of the identification, or the phase until the next identification. */
static void next_phase(struct adaptive *a)
{
	double loops = ADAPTIVE_WARMUP;

	if (a->half == 0) {
		a->b0 = (double)a->sum_cqes / loops;
		a->e0 = (double)a->sum_empty / loops;
		a->r0 = a->rtt_ema_us;
		a->u = ADAPTIVE_PROBE;
		a->why = BECAUSE_PROBE_ON;
	} else if (a->half == 1) {
		a->b1 = (double)a->sum_cqes / loops;
		a->e1 = (double)a->sum_empty / loops;
		adaptive_identify(a);
		a->u = lesser(a->u_before, a->u_max);
		a->why = BECAUSE_IDENTIFIED;
	} else {
		a->u_before = a->u;
		a->u = 0;
		a->why = BECAUSE_PROBE_OFF;
	}
	a->half = (a->half + 1) % 3;
	a->phase_loops = a->half == 2 ? ADAPTIVE_AGAIN : ADAPTIVE_WARMUP;
	a->sum_cqes = 0;
	a->sum_empty = 0;
}

static void filter(struct adaptive *a, const struct adaptive_loop *seen)
{
	a->b_ema = ewma(a->b_ema, seen->cqes, ALPHA);
	a->e_ema = ewma(a->e_ema, seen->cqes ? 0.0 : 1.0, ALPHA);
	a->loop_ema_us = ewma(a->loop_ema_us, seen->loop_us, ALPHA);
	if (seen->rtt_us > 0)
		a->rtt_us = seen->rtt_us;
	a->rtt_ema_us = ewma(a->rtt_ema_us, a->rtt_us, ALPHA_RTT);
}

static void change(struct adaptive *a, uint32_t u, enum decision_reason why)
{
	a->u = u;
	a->why = why;
	a->hold_count = HOLD_MIN;
}

double adaptive_rho(const struct adaptive *a)
{
	return a->loop_ema_us / (a->rtt_ema_us > RTT_FLOOR_US ? a->rtt_ema_us : RTT_FLOOR_US);
}

static void decide(struct adaptive *a)
{
	double rho = adaptive_rho(a);

	if (rho < RHO_LOW || a->e_ema > EMPTY_HIGH) {
		a->high_count = 0;
		if (++a->low_count >= LOW_NEED) {
			a->low_count = 0;
			change(a, lesser(a->u + a->step_up, a->u_max),
				rho < RHO_LOW ? BECAUSE_SHORT : BECAUSE_EMPTY);
		}
	} else if (rho > RHO_HIGH && a->e_ema < EMPTY_LOW) {
		a->low_count = 0;
		if (++a->high_count >= HIGH_NEED) {
			a->high_count = 0;
			change(a, a->u > a->step_down ? a->u - a->step_down : 0, BECAUSE_LONG);
		}
	} else {
		a->low_count = 0;
		a->high_count = 0;
	}
	if (a->b_ema < COLLAPSED_CQES && a->e_ema > COLLAPSED_EMPTY)
		change(a, lesser(a->u + a->step_up * 2, a->u_max), BECAUSE_COLLAPSED);
}

void adaptive_step(struct adaptive *a, const struct adaptive_loop *seen)
{
	filter(a, seen);
	a->sum_cqes += seen->cqes;
	a->sum_empty += !seen->cqes;
	if (!--a->phase_loops) {
		next_phase(a);
		return;
	}
	if (a->half != 2)
		return;
	if (a->hold_count)
		a->hold_count--;
	else
		decide(a);
}
