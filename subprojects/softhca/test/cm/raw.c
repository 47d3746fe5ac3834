/* SPDX-License-Identifier: MIT */
#include "raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

int raw_open(int flags)
{
	int fd = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC | flags);

	CHECK(fd >= 0);
	return fd;
}

int raw_write(int fd, struct rdma_ucm_cmd_hdr header, const void *in, size_t len)
{
	char buf[1024];

	CHECK(sizeof(header) + len <= sizeof(buf));
	memcpy(buf, &header, sizeof(header));
	memcpy(buf + sizeof(header), in, len);
	len += sizeof(header);
	return write(fd, buf, len) == (ssize_t)len ? 0 : -errno;
}

int raw_command(int fd, uint32_t cmd, const void *in, size_t in_len, size_t out_len)
{
	struct rdma_ucm_cmd_hdr h = {.cmd = cmd, .in = (uint16_t)in_len, .out = (uint16_t)out_len};

	return raw_write(fd, h, in, in_len);
}

#define COMMAND(fd, name, in, out) raw_command(fd, RDMA_USER_CM_CMD_##name, &(in), sizeof(in), out)

uint32_t raw_id(int fd, uint64_t uid, enum rdma_ucm_port_space ps)
{
	struct rdma_ucm_create_id_resp resp = {0};
	struct rdma_ucm_create_id in = {.uid = uid,
		.response = (uintptr_t)&resp,
		.ps = (uint16_t)ps,
		.qp_type = 2};

	CHECK_EQ(COMMAND(fd, CREATE_ID, in, sizeof(resp)), 0);
	return resp.id;
}

int raw_destroy(int fd, uint32_t id)
{
	struct rdma_ucm_destroy_id_resp resp = {0};
	struct rdma_ucm_destroy_id in = {.response = (uintptr_t)&resp, .id = id};
	int r = COMMAND(fd, DESTROY_ID, in, sizeof(resp));

	return r ? r : (int)resp.events_reported;
}

struct sockaddr_in raw_addr(const char *ip, uint16_t port)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(port)};

	CHECK_EQ(inet_pton(AF_INET, ip, &sa.sin_addr), 1);
	return sa;
}

int raw_bind(int fd, uint32_t id, const char *ip, uint16_t port)
{
	struct sockaddr_in sa = raw_addr(ip, port);
	struct rdma_ucm_bind in = {.id = id, .addr_size = sizeof(sa)};

	memcpy(&in.addr, &sa, sizeof(sa));
	return COMMAND(fd, BIND, in, 0);
}

int raw_listen(int fd, uint32_t id, int backlog)
{
	struct rdma_ucm_listen in = {.id = id, .backlog = (uint32_t)backlog};

	return COMMAND(fd, LISTEN, in, 0);
}

int raw_resolve(int fd, uint32_t id, const char *ip, uint16_t port)
{
	struct rdma_ucm_resolve_addr in = {.id = id, .timeout_ms = 100};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

	if (inet_pton(AF_INET6, ip, &v6.sin6_addr) == 1) {
		in.dst_size = sizeof(v6);
		memcpy(&in.dst_addr, &v6, sizeof(v6));
	} else {
		struct sockaddr_in v4 = raw_addr(ip, port);

		in.dst_size = sizeof(v4);
		memcpy(&in.dst_addr, &v4, sizeof(v4));
	}
	return COMMAND(fd, RESOLVE_ADDR, in, 0);
}

int raw_route(int fd, uint32_t id)
{
	struct rdma_ucm_resolve_route in = {.id = id, .timeout_ms = 100};

	return COMMAND(fd, RESOLVE_ROUTE, in, 0);
}

int raw_disconnect(int fd, uint32_t id)
{
	struct rdma_ucm_disconnect in = {.id = id};

	return COMMAND(fd, DISCONNECT, in, 0);
}

int raw_reject(int fd, uint32_t id, const char *data, uint8_t len, uint8_t reason)
{
	struct rdma_ucm_reject in = {.id = id, .private_data_len = len, .reason = reason};

	memcpy(in.private_data, data, strlen(data));
	return COMMAND(fd, REJECT, in, 0);
}

struct rdma_ucm_conn_param raw_param(uint32_t qpn, const char *data)
{
	struct rdma_ucm_conn_param p = {.qp_num = qpn,
		.responder_resources = 3,
		.initiator_depth = 5,
		.retry_count = 6,
		.rnr_retry_count = 4,
		.valid = 1};

	if (data) {
		p.private_data_len = (uint8_t)(strlen(data) + 1);
		memcpy(p.private_data, data, p.private_data_len);
	}
	return p;
}

void raw_check_param(const struct rdma_ucm_conn_param *p)
{
	/* The client's responder_resources are the server's initiator_depth, and vice versa. */
	CHECK_EQ(p->responder_resources, 5);
	CHECK_EQ(p->initiator_depth, 3);
	CHECK_EQ(p->retry_count, 6);
	CHECK_EQ(p->rnr_retry_count, 4);
	CHECK_EQ(p->private_data_len, 56);
	CHECK_STR((const char *)p->private_data, "hello");
}

int raw_connect(int fd, uint32_t id, const struct rdma_ucm_conn_param *p)
{
	struct rdma_ucm_connect in = {.id = id, .conn_param = *p};

	return COMMAND(fd, CONNECT, in, 0);
}

int raw_accept(int fd, uint32_t id, uint64_t uid, const struct rdma_ucm_conn_param *p)
{
	struct rdma_ucm_accept in = {.id = id, .uid = uid};

	if (p)
		in.conn_param = *p;
	return COMMAND(fd, ACCEPT, in, 0);
}

int raw_query_addr(int fd, uint32_t id, struct rdma_ucm_query_addr_resp *resp)
{
	struct rdma_ucm_query in = {.response = (uintptr_t)resp,
		.id = id,
		.option = RDMA_USER_CM_QUERY_ADDR};

	return COMMAND(fd, QUERY, in, sizeof(*resp));
}

int raw_qp_attr(int fd, uint32_t id, uint32_t state, struct ib_uverbs_qp_attr *a)
{
	struct rdma_ucm_init_qp_attr in = {.response = (uintptr_t)a, .id = id, .qp_state = state};

	return COMMAND(fd, INIT_QP_ATTR, in, sizeof(*a));
}

int raw_event(int fd, struct rdma_ucm_event_resp *resp)
{
	struct rdma_ucm_get_event in = {.response = (uintptr_t)resp};

	return COMMAND(fd, GET_EVENT, in, sizeof(*resp));
}

struct rdma_ucm_event_resp raw_expect(int fd, uint32_t type, uint64_t uid)
{
	struct rdma_ucm_event_resp e = {0};

	CHECK_EQ(raw_event(fd, &e), 0);
	CHECK_EQ(e.event, type);
	CHECK_EQ(e.uid, uid);
	return e;
}

bool raw_readable(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, ms) == 1 && p.revents == POLLIN;
}

uint16_t raw_listener(int fd, uint64_t uid, const char *ip, int backlog, uint32_t *id_p)
{
	struct rdma_ucm_query_addr_resp resp;
	struct sockaddr_in sa;

	*id_p = raw_id(fd, uid, RDMA_PS_TCP);
	CHECK_EQ(raw_bind(fd, *id_p, ip, 0), 0);
	CHECK_EQ(raw_listen(fd, *id_p, backlog), 0);
	CHECK_EQ(raw_query_addr(fd, *id_p, &resp), 0);
	memcpy(&sa, &resp.src_addr, sizeof(sa));
	return ntohs(sa.sin_port);
}

uint32_t raw_ready(int fd, uint64_t uid, enum rdma_ucm_port_space ps, const char *from,
	const char *ip, uint16_t port)
{
	uint32_t id = raw_id(fd, uid, ps);

	if (from)
		CHECK_EQ(raw_bind(fd, id, from, 0), 0);
	CHECK_EQ(raw_resolve(fd, id, ip, port), 0);
	raw_expect(fd, ADDR_RESOLVED, uid);
	CHECK_EQ(raw_route(fd, id), 0);
	raw_expect(fd, ROUTE_RESOLVED, uid);
	return id;
}

void raw_resolve_unknown(int fd, uint32_t id, uint64_t uid, const char *ip, const char *why)
{
	int said = memfd_create("said", MFD_CLOEXEC),
	    standard_error = fcntl(2, F_DUPFD_CLOEXEC, 10);
	char text[320] = "";

	CHECK(said >= 0 && standard_error >= 0);
	CHECK_EQ(dup2(said, 2), 2);
	CHECK_EQ(raw_resolve(fd, id, ip, 1), 0);
	CHECK_EQ(dup2(standard_error, 2), 2);
	CHECK_EQ((int)raw_expect(fd, ADDR_ERROR, uid).status, -ETIMEDOUT);
	CHECK(pread(said, text, sizeof(text) - 1, 0) > 0);
	CHECK(strstr(text, ip) && strstr(text, why));
	CHECK_EQ(close(said), 0);
	CHECK_EQ(close(standard_error), 0);
}
