/* SPDX-License-Identifier: MIT */
/*
 * The HCA cannot access a page that is registered, because the program has unmapped it, or has
 * taken a permission away. The QP on the side of the page fails; the sender of an atomic also gets
 * an error. The other side is in the same fabric or in another one, as on another host.
 */
#include <sys/mman.h>

#include "../tmpdir.h"
#include "grh.h"
#include "rig.h"

#define PAGE 4096u
#define PAYLOAD 21
#define NEAR 1 /* another adapter of the same fabric */
#define HERE loopback(1) /* adapter 0 of this fabric */
#define THERE loopback(2) /* adapter 0 of the other one */

static char there[128]; /* path of the other fabric's topology */

/* Registers a page, and leaves it with the permissions @prot, or unmaps it if @prot is -1. */
static struct ibv_mr *register_page(const struct rig *r, int prot)
{
	void *page = test_map(PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	struct ibv_mr *mr =
		ibv_reg_mr(r->pd, page, PAGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);

	CHECK(mr && !(prot < 0 ? munmap(page, PAGE) : mprotect(page, PAGE, prot)));
	return mr;
}

static void open_end(struct rig *r, unsigned rail)
{
	rig_open(r, &(struct rig_attr){.rail = rail, .type = IBV_QPT_UD});
	rig_datagrams(r);
}

static struct ibv_sge page_of(const struct ibv_mr *mr, uint32_t len)
{
	return (struct ibv_sge){(uintptr_t)mr->addr, len, mr->lkey};
}

static struct ibv_ah *path(const struct rig *from, union ibv_gid gid)
{
	struct ibv_ah_attr a = {.port_num = 1,
		.is_global = true,
		.grh = {.dgid = gid, .hop_limit = 64}};
	struct ibv_ah *ah = ibv_create_ah(from->pd, &a);

	CHECK(ah);
	return ah;
}

/* Sends a datagram from an unmapped page. */
static void send_fails(struct rig *from, struct rig_addr to)
{
	struct ibv_mr *mr = register_page(from, -1);
	struct ibv_sge sge = page_of(mr, PAYLOAD);
	struct ibv_ah *ah = path(from, to.gid);
	struct ibv_send_wr *bad,
		wr = {.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.ud = {.ah = ah, .remote_qpn = to.qpn, .remote_qkey = RIG_QKEY}};

	CHECK(!ibv_post_send(from->qp, &wr, &bad));
	CHECK_EQ(rig_wait(from->scq).status, IBV_WC_LOC_PROT_ERR);
	CHECK_EQ(rig_state(from), IBV_QPS_ERR);
	CHECK(!ibv_destroy_ah(ah) && !ibv_dereg_mr(mr));
}

static void post_unmapped(struct rig *r, struct ibv_mr *mr)
{
	struct ibv_sge sge = page_of(mr, GRH + PAYLOAD);
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	CHECK(!ibv_post_recv(r->qp, &wr, &bad));
}

static void receive_fails(struct rig *r, struct ibv_mr *mr)
{
	CHECK_EQ(rig_wait(r->rcq).status, IBV_WC_LOC_PROT_ERR);
	CHECK_EQ(rig_state(r), IBV_QPS_ERR);
	CHECK(!ibv_dereg_mr(mr));
}

static void send_to(struct rig *from, struct rig_addr to)
{
	struct ibv_ah *ah = path(from, to.gid);

	CHECK_EQ(rig_send_datagram(from, ah, to.qpn, 0, PAYLOAD, IBV_WR_SEND), IBV_WC_SUCCESS);
	CHECK(!ibv_destroy_ah(ah));
}

static void join_there(void)
{
	test_fabric("unmapped-there");
	CHECK(!setenv("SOFTHCA_TOPOLOGY", there, 1));
}

static void datagrams_there(int fd)
{
	RIG r;
	struct rig_addr self;
	struct ibv_mr *mr;

	join_there();
	open_end(&r, 0);
	mr = register_page(&r, -1);
	post_unmapped(&r, mr);
	self = rig_addr(&r);
	test_put(fd, &self, sizeof(self));
	receive_fails(&r, mr);
}

TEST(datagrams_between_fabrics)
{
	struct rig_addr to;
	int fd;
	pid_t pid = test_peer(datagrams_there, &fd);
	RIG from;

	open_end(&from, 0);
	test_get(fd, &to, sizeof(to));
	send_to(&from, to);
	test_peer_ends(pid, fd);
	send_fails(&from, to);
}

static const struct rig_timers patient = {.timeout = 18, .retry = 7};

static void atomic_there(int fd)
{
	RIG r;
	struct ibv_mr *mr;

	join_there();
	rig_open(&r, NULL);
	mr = register_page(&r, PROT_READ);
	rig_meet(&r, fd, mr, patient);
	test_meet(fd);
	CHECK_EQ(rig_state(&r), IBV_QPS_ERR);
	CHECK_EQ(*(uint64_t *)mr->addr, 0);
	CHECK(!ibv_dereg_mr(mr));
}

TEST(atomic_between_fabrics)
{
	struct rig_addr to;
	int fd;
	pid_t pid = test_peer(atomic_there, &fd);
	RIG r;

	rig_open(&r, NULL);
	to = rig_meet(&r, fd, NULL, patient);
	rig_post(&r, &(struct rig_wr){.op = IBV_WR_ATOMIC_FETCH_AND_ADD,
			     .flags = IBV_SEND_SIGNALED,
			     .len = 8,
			     .raddr = to.addr,
			     .rkey = to.rkey,
			     .compare_add = 1});
	CHECK_EQ(rig_wait(r.scq).status, IBV_WC_REM_OP_ERR);
	test_meet(fd);
	test_peer_ends(pid, fd);
}

TEST(datagrams)
{
	RIG from, to;
	struct ibv_mr *mr;

	open_end(&from, 0);
	open_end(&to, NEAR);
	rig_recv(&to, 1, 0, GRH + PAYLOAD);
	send_fails(&from, rig_addr(&to));
	rig_idle(to.rcq); /* the receive stays posted */
	CHECK_EQ(rig_state(&to), IBV_QPS_RTS);
	open_end(&from, 0);
	open_end(&to, NEAR);
	mr = register_page(&to, -1);
	post_unmapped(&to, mr);
	send_to(&from, rig_addr(&to));
	receive_fails(&to, mr);
	CHECK_EQ(rig_state(&from), IBV_QPS_RTS);
}

int main(int argc, char **argv)
{
	char path[128];

	test_fabric("unmapped");
	tmpdir_topology("link=roce gid=%s udp=on\n", THERE);
	snprintf(path, sizeof(path), "%s/topology", tmpdir);
	snprintf(there, sizeof(there), "%s/there", tmpdir);
	CHECK(!rename(path, there));
	tmpdir_topology("link=roce gid=%s udp=on\nlink=roce\n", HERE);
	return test_main(argc, argv);
}
