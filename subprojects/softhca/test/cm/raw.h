/* SPDX-License-Identifier: MIT */
/*
 * The commands of /dev/infiniband/rdma_cm as librdmacm writes them, one function each. A command
 * that returns int returns 0 or -errno; functions that return an id end the test if there is none.
 */
#ifndef SOFTHCA_TEST_CM_RAW_H
#define SOFTHCA_TEST_CM_RAW_H

#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "check.h"

/* The values of librdmacm's RDMA_CM_EVENT_* (enum rdma_cm_event_type). */
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

#define LOOP "127.0.0.1"

/* Values of uid in most cases, for the listener, for the id that it accepts, and for the client. */
#define SERVER 0x100
#define CHILD 0x101
#define CLIENT 0x200

int raw_open(int flags);

/* Writes @header and @len bytes after it; @len need not be the length in the header. */
int raw_write(int fd, struct rdma_ucm_cmd_hdr header, const void *in, size_t len);

/* Writes a command whose header states the lengths @in_len and @out_len. */
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

/* @qpn: the QP number in the parameters; @data: text, or NULL. */
struct rdma_ucm_conn_param raw_param(uint32_t qpn, const char *data);
/*
 * Checks the parameters that a server gets from a client with raw_param(_, "hello"), but not the QP
 * number.
 */
void raw_check_param(const struct rdma_ucm_conn_param *p);
int raw_connect(int fd, uint32_t id, const struct rdma_ucm_conn_param *p);

/* @p: NULL to acknowledge a response. */
int raw_accept(int fd, uint32_t id, uint64_t uid, const struct rdma_ucm_conn_param *p);

int raw_query_addr(int fd, uint32_t id, struct rdma_ucm_query_addr_resp *resp);
int raw_qp_attr(int fd, uint32_t id, uint32_t state, struct ib_uverbs_qp_attr *a);

int raw_event(int fd, struct rdma_ucm_event_resp *resp);

/* Takes and returns the next event, and checks that it has this type and uid. */
struct rdma_ucm_event_resp raw_expect(int fd, uint32_t type, uint64_t uid);

/* Returns true if poll() reports within @ms that there is data to read. */
bool raw_readable(int fd, int ms);

/* Makes an id of @fd that listens at @ip. @backlog: 0 for the default. Returns its port. */
uint16_t raw_listener(int fd, uint64_t uid, const char *ip, int backlog, uint32_t *id_p);

/* Makes an id of @fd that is ready to connect. @from: the address to bind it to, or NULL. */
uint32_t raw_ready(int fd, uint64_t uid, enum rdma_ucm_port_space ps, const char *from,
	const char *ip, uint16_t port);

/* Checks that no adapter has a path to @ip, and that standard error names @ip and @why. */
void raw_resolve_unknown(int fd, uint32_t id, uint64_t uid, const char *ip, const char *why);

#endif
