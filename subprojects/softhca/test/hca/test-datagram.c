/* SPDX-License-Identifier: MIT */
/* The receiver of a datagram finds the sender by the completion and the GRH. */
#include "../tmpdir.h"
#include "grh.h"
#include "rig.h"

#define PAYLOAD 21 /* not a multiple of 4: packets are padded */
#define SL 3
#define REPLY 4096 /* offset of answers in the buffers */

static void open_end(struct rig *r, unsigned rail)
{
	rig_open(r, &(struct rig_attr){.rail = rail, .type = IBV_QPT_UD});
	rig_datagrams(r);
}

static struct ibv_ah *path(struct rig *from, const struct rig *to, int gid_index, bool global)
{
	struct ibv_ah_attr a = {
		.dlid = to->port.lid,
		.port_num = 1,
		.is_global = global,
		.grh = {.sgid_index = (uint8_t)gid_index,
			.hop_limit = 33,
			.traffic_class = 0x58,
			.flow_label = 0xabcde},
		.sl = SL,
	};
	struct ibv_ah *ah;

	CHECK(!ibv_query_gid(to->ctx, 1, gid_index, &a.grh.dgid));
	ah = ibv_create_ah(from->pd, &a);
	CHECK(ah);
	return ah;
}

/* Sends one datagram; its receive is at the start of @to's buffer. */
static struct ibv_wc one_way(struct rig *from, struct rig *to, struct ibv_ah *ah, bool imm)
{
	struct ibv_wc wc;

	rig_fill(from->buf, PAYLOAD, 7);
	memset(to->buf, 0xee, 2 * GRH + PAYLOAD);
	rig_recv(to, 0, 0, GRH + PAYLOAD);
	CHECK_EQ(rig_send_datagram(from, ah, to->qp->qp_num, 0, PAYLOAD,
			 imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND),
		IBV_WC_SUCCESS);
	wc = rig_wait_ok(to->rcq);
	CHECK_EQ(wc.byte_len, GRH + PAYLOAD);
	CHECK_EQ(wc.src_qp, from->qp->qp_num);
	CHECK(rig_same(to->buf + GRH, PAYLOAD, 7));
	return wc;
}

/* The receiver answers to the address in the completion and the GRH. */
static void answer(struct rig *to, struct rig *from, struct ibv_wc *wc)
{
	struct ibv_ah *ah = ibv_create_ah_from_wc(to->pd, wc, (struct ibv_grh *)to->buf, 1);

	CHECK(ah);
	rig_fill(to->buf + REPLY, PAYLOAD, 8);
	rig_recv(from, 0, REPLY, GRH + PAYLOAD);
	CHECK_EQ(rig_send_datagram(to, ah, wc->src_qp, REPLY, PAYLOAD, IBV_WR_SEND),
		IBV_WC_SUCCESS);
	rig_wait_ok(from->rcq);
	CHECK(rig_same(from->buf + REPLY + GRH, PAYLOAD, 8));
	CHECK(!ibv_destroy_ah(ah));
}

static void check_attributes(struct rig *from, struct rig *to, struct ibv_wc *wc, int gid_index)
{
	struct ibv_ah_attr a;
	union ibv_gid gid;

	CHECK(!ibv_init_ah_from_wc(to->ctx, 1, wc, (struct ibv_grh *)to->buf, &a));
	CHECK(!ibv_query_gid(from->ctx, 1, gid_index, &gid));
	CHECK(a.is_global);
	CHECK_EQ(a.grh.sgid_index, gid_index);
	CHECK(!memcmp(&a.grh.dgid, &gid, sizeof(gid)));
	CHECK_EQ(a.grh.hop_limit, 33);
	CHECK_EQ(a.grh.traffic_class, 0x58);
}

/* RFC 1071: the header with its checksum sums to all ones. */
static void check_sum(const uint8_t *header)
{
	uint32_t sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += (uint32_t)header[i] << 8 | header[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	CHECK_EQ(sum, 0xffff);
}

/* Checks the header in front of a datagram with the attributes of path(). */
static void check_header(const struct rig *from, const struct rig *to, int gid_index, bool roce)
{
	struct grh_want want = {.traffic_class = 0x58,
		.hops = 33,
		.label = 0xabcde,
		.next = roce ? IPPROTO_UDP : 0x1b,
		.payload = (roce ? 8 : 0) + 12 + 8 + 24 + 4}; /* UDP, BTH, DETH, data, ICRC */

	CHECK(!ibv_query_gid(from->ctx, 1, gid_index, &want.from));
	CHECK(!ibv_query_gid(to->ctx, 1, gid_index, &want.to));
	if (!gid_index) {
		grh_is_ipv6(to->buf, &want);
		return;
	}
	grh_is_ipv4(to->buf, &want);
	check_sum(to->buf + 20);
	CHECK(to->buf[0] >> 4 != 6);
}

static uint32_t header_length(const struct rig *to, int gid_index)
{
	const uint8_t *at = to->buf + (gid_index ? 20 + 2 : 4);

	return (uint32_t)at[0] << 8 | at[1];
}

static void with_grh(unsigned rail, int gid_index, bool roce)
{
	RIG from, to;
	uint32_t length;
	struct ibv_ah *ah;
	struct ibv_wc wc;

	open_end(&from, rail);
	open_end(&to, rail + 1);
	ah = path(&from, &to, gid_index, true);
	wc = one_way(&from, &to, ah, false);
	CHECK(wc.wc_flags & IBV_WC_GRH);
	length = header_length(&to, gid_index);
	check_header(&from, &to, gid_index, roce);
	/* On RoCE the field contains 8 for UDP, and 1 for IPv6 or 2 for IPv4. */
	CHECK_EQ(wc.sl, !roce ? SL : gid_index ? 0xa : 0x9);
	check_attributes(&from, &to, &wc, gid_index);
	answer(&to, &from, &wc);
	one_way(&from, &to, ah, true);
	CHECK_EQ(header_length(&to, gid_index), length + 4); /* ImmDt */
	CHECK(!ibv_destroy_ah(ah));
}

TEST_WITH(roce_over_ipv6, with_grh, 0, 0, true);
TEST_WITH(roce_over_ipv4, with_grh, 0, 1, true);
TEST_WITH(infiniband_with_grh, with_grh, 2, 0, false);

/* InfiniBand inside one subnet: no GRH, and the answer goes by LID. */
TEST(without_grh)
{
	RIG from, to;
	struct ibv_ah *ah;
	struct ibv_wc wc;

	open_end(&from, 2);
	open_end(&to, 3);
	ah = path(&from, &to, 0, false);
	wc = one_way(&from, &to, ah, false);
	CHECK(!(wc.wc_flags & IBV_WC_GRH));
	CHECK_EQ(wc.slid, from.port.lid);
	CHECK_EQ(wc.sl, SL);
	for (int i = 0; i < GRH; i++)
		CHECK_EQ(to.buf[i], 0);
	answer(&to, &from, &wc);
	CHECK(!ibv_destroy_ah(ah));
}

/*
 * Two adapters of each kind: datagrams go from the adapter with the even number to the other one.
 */
int main(int argc, char **argv)
{
	test_fabric("datagram");
	tmpdir_topology("link=roce\nlink=roce\nlink=ib\nlink=ib\n");
	return test_main(argc, argv);
}
