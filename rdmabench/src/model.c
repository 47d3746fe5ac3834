/* SPDX-License-Identifier: MIT */
#include "model.h"

#include <math.h>

#define LINE_GBPS 100.
#define PACKETS_PER_GBPS 1e5
#define NEAR .34 /* as a share of a parameter's range */
#define PAUSE_US 50000.
#define BASE_NS 5000.

const char *const model_names[] = {"corner", "interior", "deceptive", NULL};

unsigned model_dim(unsigned i)
{
	static const enum dimension_kind matter[MODEL_DIMS] = {DIM_QPS, DIM_TX_DEPTH,
		DIM_SEND_BATCH, DIM_RECV_BATCH, DIM_SIZE, DIM_PLACES};

	return space_dim(0, matter[i], 0);
}

/* Computes how far the parameters are from the position @target in their ranges (0 to 1). */
static void distances(const struct space *s, const struct point *p, double target, double *mean_p,
	double *largest_p)
{
	double sum = 0, largest = 0;

	for (unsigned i = 0; i < MODEL_DIMS; i++) {
		double d = fabs(point_place(s, p, model_dim(i)) - target);

		sum += d;
		largest = d > largest ? d : largest;
	}
	*mean_p = sum / MODEL_DIMS;
	*largest_p = largest;
}

/* Returns how bad the point is, from 0 to 1, and whether it has the anomaly. */
static double badness(enum model_kind kind, const struct space *s, const struct point *p,
	bool *anomaly_p)
{
	double mean, largest, low;

	distances(s, p, kind == MODEL_INTERIOR ? .5 : 1, &mean, &largest);
	*anomaly_p = largest <= (kind == MODEL_INTERIOR ? NEAR / 2 : NEAR);
	if (kind == MODEL_DECEPTIVE && !*anomaly_p) {
		distances(s, p, 0, &low, &largest);
		return .8 * (1 - low);
	}
	return kind == MODEL_INTERIOR ? 1 - 2 * mean : 1 - mean;
}

int model_measure(enum model_kind kind, const struct space *s, const struct point *p,
	struct measure *m_p)
{
	bool anomaly;
	double bad = badness(kind, s, p, &anomaly);
	double gbps = LINE_GBPS * (1 - .09 * bad) * (anomaly ? .3 : 1);

	*m_p = (struct measure){0};
	m_p->v[MEASURE_TX_GBPS] = m_p->v[MEASURE_RX_GBPS] = gbps;
	m_p->v[MEASURE_TX_PACKETS] = m_p->v[MEASURE_RX_PACKETS] = gbps * PACKETS_PER_GBPS;
	m_p->v[MEASURE_TX_PAUSE] = anomaly ? PAUSE_US : 0;
	m_p->latency.samples = 1;
	for (int k = STATS_MIN; k < STATS_KEYS; k++) {
		m_p->latency.v[k] = BASE_NS * (1 + bad);
		m_p->latency.has[k] = true;
	}
	return 0;
}
