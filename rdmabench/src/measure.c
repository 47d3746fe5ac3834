/* SPDX-License-Identifier: MIT */
#include "measure.h"

#define US_PER_S 1e6

const char *const measure_names[MEASURE_KEYS] = {
	"tx_vport_rdma_unicast_bytes",
	"rx_vport_rdma_unicast_bytes",
	"tx_vport_rdma_unicast_packets",
	"rx_vport_rdma_unicast_packets",
	"tx_prio3_pause_duration",
	"rx_prio3_pause_duration",
};

void rules_init(struct rules *r)
{
	*r = (struct rules){.tx_pause = 1000, .rx_pause = 0, .gbps = 90, .packets = 4e6};
}

enum anomaly measure_judge(const struct measure *m, const struct rules *r)
{
	const double *v = m->v;

	if (v[MEASURE_TX_PAUSE] > r->tx_pause || v[MEASURE_RX_PAUSE] > r->rx_pause)
		return ANOMALY_PAUSE;
	if (!m->keeps_up && v[MEASURE_TX_GBPS] < r->gbps && v[MEASURE_RX_GBPS] < r->gbps &&
		v[MEASURE_TX_PACKETS] < r->packets && v[MEASURE_RX_PACKETS] < r->packets)
		return ANOMALY_THROUGHPUT;
	if (r->p99_ns > 0 && m->latency.has[STATS_P99] && m->latency.v[STATS_P99] > r->p99_ns)
		return ANOMALY_LATENCY;
	return ANOMALY_NONE;
}

static double part(double x)
{
	return x < 0 ? 0 : x > 1 ? 1 : x;
}

double measure_energy(const struct measure *m, const struct rules *r)
{
	const double *v = m->v;
	double paused = (v[MEASURE_TX_PAUSE] + v[MEASURE_RX_PAUSE]) / (2 * US_PER_S);
	double late = r->p99_ns > 0 ? m->latency.v[STATS_P99] / r->p99_ns : 0;
	double carried = 1;

	if (r->gbps <= 0)
		return part(paused) + part(late);
	if (!m->keeps_up)
		carried = (v[MEASURE_TX_GBPS] + v[MEASURE_RX_GBPS]) / (2 * r->gbps);
	return 1 / (1 + carried) + part(paused) + part(late);
}
