/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "sys/sys.h"
#include "sysfs/sysfs.h"

#define DATA_WORD 4u /* port_xmit_data and port_rcv_data count words */

static const struct {
	const char *name;
	enum softhca_port_counter value;
	uint32_t unit;
} files[] = {
	{"counters/port_xmit_data", SOFTHCA_TX_BYTES, DATA_WORD},
	{"counters/port_rcv_data", SOFTHCA_RX_BYTES, DATA_WORD},
	{"counters/port_xmit_packets", SOFTHCA_TX_PACKETS, 1},
	{"counters/port_rcv_packets", SOFTHCA_RX_PACKETS, 1},
	{"counters/port_rcv_constraint_errors", SOFTHCA_BAD_PKEYS, 1},
	{"counters/port_rcv_errors", SOFTHCA_BAD_PACKETS, 1},
	{"hw_counters/rx_icrc_encapsulated", SOFTHCA_BAD_ICRCS, 1},
	{"hw_counters/tx_vport_rdma_unicast_bytes", SOFTHCA_TX_BYTES, 1},
	{"hw_counters/rx_vport_rdma_unicast_bytes", SOFTHCA_RX_BYTES, 1},
	{"hw_counters/tx_vport_rdma_unicast_packets", SOFTHCA_TX_PACKETS, 1},
	{"hw_counters/rx_vport_rdma_unicast_packets", SOFTHCA_RX_PACKETS, 1},
	{"hw_counters/tx_prio3_pause_duration", SOFTHCA_TX_PAUSE_NS, 1000},
	{"hw_counters/rx_prio3_pause_duration", SOFTHCA_RX_PAUSE_NS, 1000},
	{"hw_counters/out_of_buffer", SOFTHCA_NO_RECEIVES, 1},
	{"hw_counters/rnr_nak_retry_err", SOFTHCA_RNR_RETRIES, 1},
	{"hw_counters/local_ack_timeout_err", SOFTHCA_TIMEOUT_RETRIES, 1},
	{"hw_counters/rx_write_requests", SOFTHCA_RX_WRITES, 1},
	{"hw_counters/rx_read_requests", SOFTHCA_RX_READS, 1},
	{"hw_counters/rx_atomic_requests", SOFTHCA_RX_ATOMICS, 1},
};

const char *softhca_sysfs_counter(unsigned int i)
{
	return i < sizeof(files) / sizeof(files[0]) ? files[i].name : NULL;
}

/* Replaces one file, so that readers see the old text or the new one. */
static void put(const char *port, const char *name, uint64_t value)
{
	char path[256], aside[256], text[24];
	int fd, n = snprintf(text, sizeof(text), "%" PRIu64 "\n", value);

	if (!sys_may_make((uint64_t)n))
		return;
	snprintf(path, sizeof(path), "%s/%s", port, name);
	snprintf(aside, sizeof(aside), "%s/.counter", port);
	fd = sys_open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		return;
	n = sys_write(fd, text, (size_t)n) == n;
	sys_close(fd);
	if (n)
		SYS(SYS_renameat, AT_FDCWD, aside, AT_FDCWD, path);
}

void softhca_sysfs_count(const char *port, const uint64_t values[SOFTHCA_PORT_COUNTERS])
{
	for (unsigned int i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		put(port, files[i].name, values[files[i].value] / files[i].unit);
}
