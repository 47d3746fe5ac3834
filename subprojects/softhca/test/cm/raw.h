/* SPDX-License-Identifier: MIT */
/*
 * The commands of /dev/infiniband/rdma_cm as librdmacm writes them, one function each. Those that
 * return int return 0 or -errno, those that return an id end the test where there is none.
 */
#ifndef SOFTHCA_TEST_CM_RAW_H
#define SOFTHCA_TEST_CM_RAW_H

#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "check.h"

/* The values of RDMA_CM_EVENT_* in programs. */
enum {
	ADDR_RESOLVED,
	ADDR_ERROR,
	ROUTE_RESOLVED,
	ROUTE_ERROR,
	CONNECT_REQUEST,
	CONNECT_RESPONSE,
	CONNECT_ERROR,
	UNREACHABLE,
	REJECTED,
	ESTABLISHED,
	DISCONNECTED,
	TIMEWAIT_EXIT = 15,
};

/* A fabric of its own for this test. Call before anything else. */
void raw_fabric(const char *name);

int raw_open(int flags);

/* Writes @header and @len bytes behind it, which is what the header says or not. */
int raw_write(int fd, struct rdma_ucm_cmd_hdr header, const void *in, size_t len);

/* A command whose input and output are whole. */
int raw_command(int fd, uint32_t cmd, const void *in, size_t in_len, size_t out_len);

uint32_t raw_id(int fd, uint64_t uid, enum rdma_ucm_port_space ps);

/* Returns the number of events that were reported, or -errno. */
int raw_destroy(int fd, uint32_t id);

struct sockaddr_in raw_addr(const char *ip, uint16_t port);
int raw_bind(int fd, uint32_t id, const char *ip, uint16_t port);
int raw_listen(int fd, uint32_t id, int backlog);
int raw_resolve(int fd, uint32_t id, const char *ip, uint16_t port);
int raw_route(int fd, uint32_t id);
int raw_disconnect(int fd, uint32_t id);
int raw_reject(int fd, uint32_t id, const char *data, uint8_t len, uint8_t reason);

/* @qpn stands for the QP; @data: text, or NULL. */
struct rdma_ucm_conn_param raw_param(uint32_t qpn, const char *data);
int raw_connect(int fd, uint32_t id, const struct rdma_ucm_conn_param *p);

/* @p: NULL for the answer to a response. */
int raw_accept(int fd, uint32_t id, uint64_t uid, const struct rdma_ucm_conn_param *p);

int raw_query_addr(int fd, uint32_t id, struct rdma_ucm_query_addr_resp *resp);
int raw_qp_attr(int fd, uint32_t id, uint32_t state, struct ib_uverbs_qp_attr *a);

int raw_event(int fd, struct rdma_ucm_event_resp *resp);

/* Takes the next event, which has this type and this uid; returns it. */
struct rdma_ucm_event_resp raw_expect(int fd, uint32_t type, uint64_t uid);

/* Returns true if poll() says that there is something to read; waits for @ms. */
bool raw_readable(int fd, int ms);

/* An id of @fd that listens at @ip. Returns its port. */
uint16_t raw_listener(int fd, uint64_t uid, const char *ip, uint32_t *id_p);

/* An id of @fd that is about to connect. */
uint32_t raw_ready(int fd, uint64_t uid, enum rdma_ucm_port_space ps, const char *ip,
	uint16_t port);

#endif
