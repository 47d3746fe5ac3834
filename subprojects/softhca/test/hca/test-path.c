/* SPDX-License-Identifier: MIT */
/*
 * Paths that the kernel refuses: those without a GRH on RoCE, or where the port requires one.
 * Changes of a port's addresses. A QP that cannot become RTR, because the thread that would receive
 * its packets cannot be started.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#include "../tmpdir.h"
#include "command.h"
#include "said.h"
#include "softhca.h"

enum { ROCE, IB, IB_WITH_GRH, LEFT, RIGHT, WIRED }; /* LEFT, RIGHT and WIRED: RoCE */

#define HERE loopback(1) /* the address of WIRED */
#define ROCE_PORT 4791

#define NO_GID 8 /* no adapter has such a high index */

static const char no_grh[] = "the port needs a path with a GRH";
static const char no_gid[] = "the port has no GID of the path's sgid_index";

static struct rig r;
static bool no_threads;

/* The HCA calls this function, too. */
int pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
	int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	*(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
	return no_threads ? EAGAIN : real(t, attr, fn, arg);
}

/* A path to the port itself. */
static struct ibv_ah_attr path(bool global, uint8_t sgid_index)
{
	return (struct ibv_ah_attr){.dlid = r.port.lid,
		.port_num = 1,
		.is_global = global,
		.grh = {.dgid = r.gid, .sgid_index = sgid_index, .hop_limit = 64}};
}

static int to_rtr(bool global, uint8_t sgid_index)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = r.qp->qp_num,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
		.ah_attr = path(global, sgid_index)};
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	if (r.qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return ibv_modify_qp(r.qp, &a, mask);
}

static void connecting(unsigned rail, enum ibv_qp_type type)
{
	const char *without = rail == IB ? NULL : no_grh;

	rig_open(&r, &(struct rig_attr){.rail = rail, .type = type});
	CHECK_EQ(to_rtr(true, NO_GID), EINVAL);
	said_verdict(no_gid);
	CHECK_EQ(to_rtr(false, NO_GID), without ? EINVAL : 0);
	CHECK_EQ(rig_state(&r), without ? IBV_QPS_INIT : IBV_QPS_RTR);
	said_verdict(without);
	if (without)
		CHECK(!to_rtr(true, 0));
	CHECK_EQ(rig_state(&r), IBV_QPS_RTR);
	rig_close(&r);
	said_verdict(NULL);
}

/* Creates an address handle by the command that libmlx5 sends on Ethernet after its own checks. */
static int create_ah(const struct ibv_ah_attr *a, uint32_t *handle_p)
{
	struct ib_uverbs_create_ah in = {.pd_handle = r.pd->handle,
		.attr = {.is_global = a->is_global,
			.port_num = a->port_num,
			.grh = {.sgid_index = a->grh.sgid_index, .hop_limit = 64}}};
	struct ib_uverbs_create_ah_resp out = {.ah_handle = 0};
	int err;

	memcpy(in.attr.grh.dgid, a->grh.dgid.raw, sizeof(in.attr.grh.dgid));
	err = command_write(r.ctx, IB_USER_VERBS_CMD_CREATE_AH, &in, sizeof(in), NULL, 0, &out,
		sizeof(out));
	*handle_p = out.ah_handle;
	return err;
}

static int destroy_ah(uint32_t handle)
{
	const struct ib_uverbs_destroy_ah in = {.ah_handle = handle};

	return command_write(r.ctx, IB_USER_VERBS_CMD_DESTROY_AH, &in, sizeof(in), NULL, 0, NULL,
		0);
}

static void address_handles(unsigned rail)
{
	struct ibv_ah_attr global, lid_only, wrong_gid, port2;
	uint32_t handle;
	struct ibv_ah *ah;

	rig_open(&r, &(struct rig_attr){.rail = rail, .type = IBV_QPT_UD});
	global = port2 = path(true, 0);
	lid_only = path(false, 0);
	wrong_gid = path(true, NO_GID);
	port2.port_num = 2;
	CHECK_EQ(create_ah(&wrong_gid, &handle), -EINVAL);
	CHECK_EQ(create_ah(&port2, &handle), -EINVAL);
	CHECK_EQ(create_ah(&lid_only, &handle), rail == IB ? 0 : -EINVAL);
	if (rail == IB)
		CHECK_EQ(destroy_ah(handle), 0);
	ah = ibv_create_ah(r.pd, &global);
	CHECK(ah && !ibv_destroy_ah(ah));
	if (rail == ROCE) {
		CHECK(!ibv_create_ah(r.pd, &lid_only));
		CHECK_EQ(errno, EINVAL);
	}
	rig_close(&r);
	said_verdict(NULL);
}

static void refusals(unsigned rail)
{
	connecting(rail, IBV_QPT_RC);
	connecting(rail, IBV_QPT_UC);
	address_handles(rail);
}

/* An address is removed, and another one is added. */
TEST(changed_addresses)
{
	static const uint8_t other[16] = {[10] = 0xff, [11] = 0xff, [12] = 192, [14] = 2, [15] = 7};
	union ibv_gid gid;
	struct rig a, b;

	rig_open_pair(&a, &(struct rig_attr){.rail = ROCE}, &b, &(struct rig_attr){.rail = ROCE});
	rig_write(&a, &b, 8);
	rig_wait_ok(a.scq);
	CHECK_EQ(softhca_gid_set("mlx5_0", 0, NULL), 0);
	rig_hears_port(&a, IBV_EVENT_GID_CHANGE);
	rig_write(&a, &b, 8);
	CHECK_EQ(rig_wait(a.scq).status, IBV_WC_RETRY_EXC_ERR);
	rig_close_pair(&a, &b);

	rig_open(&r, &(struct rig_attr){.rail = ROCE});
	CHECK_EQ(to_rtr(true, 0), EINVAL);
	said_verdict(no_gid);
	CHECK_EQ(softhca_gid_set("mlx5_0", 0, "192.0.2.7"), 0);
	rig_hears_port(&r, IBV_EVENT_GID_CHANGE);
	CHECK(!ibv_query_gid(r.ctx, 1, 0, &gid));
	CHECK(!memcmp(&gid, other, sizeof(other)));
	CHECK(!to_rtr(true, 0));
	CHECK_EQ(softhca_gid_set("mlx5_1", 0, "192.0.2.7"), -EEXIST);
	CHECK_EQ(softhca_gid_set("mlx5_0", NO_GID, "192.0.2.8"), -EINVAL);
	CHECK_EQ(softhca_gid_set("mlx5_9", 0, "192.0.2.8"), -EINVAL);
	CHECK_EQ(softhca_gid_set("mlx5_0", 0, "192.0.2"), -EINVAL);
	rig_close(&r);
	said_verdict(NULL);
}

/* Writes the first byte of the buffer to the second one, by an unreliable QP. */
static void write_byte(uint8_t value)
{
	struct rig_addr to = rig_addr(&r);

	r.buf[0] = value;
	to.addr++;
	rig_request(&r, IBV_WR_RDMA_WRITE, 1, to);
	rig_wait_ok(r.scq);
}

/* A path with a LID and a GID leads nowhere when the port of the LID does not have the GID. */
TEST(changed_address_of_ib)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS};

	rig_open(&r, &(struct rig_attr){.rail = IB_WITH_GRH, .type = IBV_QPT_UC});
	CHECK(!to_rtr(true, 0));
	CHECK(!ibv_modify_qp(r.qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN));
	write_byte(1);
	CHECK_EQ(r.buf[1], 1);
	CHECK_EQ(softhca_gid_set("mlx5_2", 0, "fe80::77"), 0);
	rig_hears_port(&r, IBV_EVENT_GID_CHANGE);
	write_byte(2);
	CHECK_EQ(r.buf[1], 1);
	rig_close(&r);
	said_verdict(NULL);
}

/* The path of b has become wrong, but not by a mistake of the program, so nothing is reported. */
TEST(changed_before_the_first_message)
{
	struct rig a, b;

	rig_open_pair(&a, &(struct rig_attr){.rail = LEFT}, &b, &(struct rig_attr){.rail = RIGHT});
	CHECK_EQ(softhca_gid_set("mlx5_3", 0, "192.0.2.9"), 0);
	rig_write(&a, &b, 8);
	rig_wait_ok(a.scq);
	rig_close_pair(&a, &b);
	said_verdict(NULL);
}

static bool port_is_free(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(ROCE_PORT)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool is_free;

	CHECK(fd >= 0 && inet_pton(AF_INET, HERE, &a.sin_addr) == 1);
	is_free = !bind(fd, (struct sockaddr *)&a, sizeof(a));
	close(fd);
	return is_free;
}

static int ud_to_rtr(void)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR};

	rig_open(&r, &(struct rig_attr){.rail = WIRED, .type = IBV_QPT_UD});
	return ibv_modify_qp(r.qp, &a, IBV_QP_STATE);
}

/* The thread that receives packets cannot be started at first. The next attempt succeeds. */
TEST(no_thread_for_packets)
{
	rig_open(&r, &(struct rig_attr){.rail = WIRED}); /* starts the other threads */
	no_threads = true;
	CHECK_EQ(ud_to_rtr(), EAGAIN);
	no_threads = false;
	CHECK(port_is_free());
	CHECK_EQ(ud_to_rtr(), 0);
	CHECK(!port_is_free());
	said_verdict(NULL);
}

TEST_WITH(roce, refusals, ROCE);
TEST_WITH(ib, refusals, IB);
TEST_WITH(ib_with_grh, refusals, IB_WITH_GRH);

int main(int argc, char **argv)
{
	test_fabric("path");
	tmpdir_topology("link=roce\nlink=ib\nlink=ib grh=required\nlink=roce\nlink=roce\n"
			"link=roce gid=%s udp=on\n",
		HERE);
	CHECK(!setenv("SOFTHCA_STRICT", "1", 1));
	said_listen();
	return test_main(argc, argv);
}
