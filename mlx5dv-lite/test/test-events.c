/* SPDX-License-Identifier: MIT */
/*
 * Asynchronous events while QPs are destroyed: events that ctx_reap() has read are kept for the
 * user, and events that the user does not read do not hide the events that ctx_reap() needs.
 */
#include "device.h"
#include "hca.h"
#include "support/fdtest.h"

enum { SQ = 16, ROUNDS = 200 };

static struct hca h;

/* ---- wrappers of libibverbs' functions ----------------------------------------- */

static enum ibv_event_type script[64]; /* events that are returned before the device's own */
static uint32_t told, scripted;
static bool never_drained; /* the device does not report that a QP is drained */

int __real_ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event);
void __real_ibv_ack_async_event(struct ibv_async_event *event);
int __wrap_ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event);
void __wrap_ibv_ack_async_event(struct ibv_async_event *event);

static bool is_scripted;

int __wrap_ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	is_scripted = told < scripted;
	if (is_scripted) {
		*event = (struct ibv_async_event){.event_type = script[told++]};
		event->element.port_num = 1;
		return 0;
	}
	while (!__real_ibv_get_async_event(context, event)) {
		if (!never_drained || event->event_type != IBV_EVENT_QP_LAST_WQE_REACHED)
			return 0;
		__real_ibv_ack_async_event(event);
	}
	return -1;
}

void __wrap_ibv_ack_async_event(struct ibv_async_event *event)
{
	if (!is_scripted)
		__real_ibv_ack_async_event(event);
}

static void will_tell(enum ibv_event_type type)
{
	CHECK(scripted < ARRAY_SIZE(script));
	script[scripted++] = type;
}

static uint64_t now = 1000 * NSEC_PER_SEC;

static uint64_t stopped_clock(void)
{
	return now;
}

/* -------------------------------------------------------------------------------- */

static void open_hca(uint32_t pairs)
{
	told = scripted = 0;
	never_drained = false;
	hca_open(&h, &(struct hca_attr){.srq_depth = 64, .scq_depth = 2 * SQ * pairs});
	h.ctx->clock = stopped_clock;
}

static void open_pair(struct mlx5dvl_qp *qp[2])
{
	hca_pair(&h, (struct mlx5dvl_qp_attr){.sq_depth = SQ}, qp);
}

static int readable(void)
{
	return fdtest_readable(mlx5dvl_ctx_fd(h.ctx));
}

static void no_recv(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_recv *recv)
{
	CHECK(0 && "nothing was sent");
}

/* The QPs fail before they are destroyed, so that each QP causes an event that the user does not
 * read. */
TEST(whoever_ignores_events_loses_no_qp)
{
	struct mlx5dvl_qp *qp[2];

	open_hca(4);
	for (int i = 0; i < ROUNDS; i++) {
		open_pair(qp);
		for (int k = 0; k < 2; k++)
			CHECK_EQ(mlx5dvl_qp_to_error(qp[k]), 0);
		will_tell(i % 2 ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
		hca_unpair(qp);
		told = scripted = 0;
		mlx5dvl_mono_poll(h.rcq, 64, no_recv, NULL);
		mlx5dvl_send_poll(h.scq, 64, hca_no_sent, NULL);
		hca_until(mlx5dvl_ctx_retired(h.ctx) == 0);
	}
	hca_close(&h);
}

/* The events of many failed QPs and a later MLX5DVL_EVENT_FATAL all reach the user. */
TEST(many_events_hide_none)
{
	enum { PAIRS = 40 };
	struct mlx5dvl_qp *qp[PAIRS][2], *of;
	bool fatal = false;
	int drained = 0;

	open_hca(PAIRS + 1);
	for (int i = 0; i < PAIRS; i++) {
		open_pair(qp[i]);
		CHECK_EQ(mlx5dvl_qp_to_error(qp[i][0]), 0);
	}
	hca_unpair(qp[0]);
	hca_until(mlx5dvl_ctx_retired(h.ctx) == 0); /* also reads the events of the other QPs */
	will_tell(IBV_EVENT_DEVICE_FATAL);
	hca_unpair(qp[1]);
	CHECK_EQ(told, 1);
	CHECK_EQ(readable(), 1);
	for (enum mlx5dvl_event e; (e = mlx5dvl_ctx_event_qp(h.ctx, &of)) != MLX5DVL_EVENT_NONE;) {
		drained += e == MLX5DVL_EVENT_DRAINED;
		fatal |= e == MLX5DVL_EVENT_FATAL;
		CHECK_EQ(!of, e != MLX5DVL_EVENT_DRAINED && e != MLX5DVL_EVENT_QP);
	}
	CHECK(fatal);
	CHECK_EQ(drained, PAIRS - 2);
	CHECK_EQ(readable(), 0);
	for (int i = 2; i < PAIRS; i++)
		hca_unpair(qp[i]);
	hca_close(&h);
}

/* The descriptor is also readable for an event that was read while a QP was destroyed. */
TEST(the_descriptor_knows_what_was_read)
{
	struct mlx5dvl_qp *qp[2], *of;

	open_hca(2);
	open_pair(qp);
	of = qp[1];
	CHECK_EQ(readable(), 0);
	will_tell(IBV_EVENT_DEVICE_FATAL);
	mlx5dvl_qp_destroy(qp[0]);
	CHECK_EQ(told, 1);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(readable(), 1); /* stays readable until the event is consumed */
	CHECK_EQ(mlx5dvl_ctx_event_qp(h.ctx, &of), MLX5DVL_EVENT_FATAL);
	CHECK(!of);
	CHECK_EQ(mlx5dvl_ctx_event(h.ctx), MLX5DVL_EVENT_NONE);
	CHECK_EQ(readable(), 0);
	mlx5dvl_qp_destroy(qp[1]);
	CHECK_EQ(readable(), 0);
	hca_close(&h);
}

/* The events of a destroyed QP are dropped, and the descriptor is not readable any more. */
TEST(nothing_is_told_of_a_destroyed_qp)
{
	struct mlx5dvl_qp *a[2], *b[2];

	open_hca(3);
	open_pair(a);
	open_pair(b);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(mlx5dvl_qp_to_error(a[i]), 0);
	hca_unpair(b);
	CHECK_EQ(readable(), 1);
	hca_unpair(a);
	CHECK_EQ(readable(), 0);
	CHECK_EQ(mlx5dvl_ctx_event(h.ctx), MLX5DVL_EVENT_NONE);
	hca_close(&h);
}

/* Only the newest unconsumed event of each kind is kept, and the oldest of these is returned first.
 * So the last of the port's events shows its present state. */
TEST(the_newest_event_counts)
{
	struct mlx5dvl_qp *qp[2];

	open_hca(2);
	open_pair(qp);
	for (int i = 0; i < 20; i++) {
		will_tell(IBV_EVENT_PORT_ERR);
		will_tell(IBV_EVENT_PORT_ACTIVE);
	}
	will_tell(IBV_EVENT_PORT_ERR);
	hca_unpair(qp);
	CHECK_EQ(told, 41);
	CHECK_EQ(mlx5dvl_ctx_event(h.ctx), MLX5DVL_EVENT_PORT_UP);
	CHECK_EQ(mlx5dvl_ctx_event(h.ctx), MLX5DVL_EVENT_PORT_DOWN);
	CHECK_EQ(mlx5dvl_ctx_event(h.ctx), MLX5DVL_EVENT_NONE);
	hca_close(&h);
}

/* The device does not report that the QPs are drained. Their room in the send CQ is free again
 * after a second, and not before. */
TEST(a_device_that_never_tells_is_not_waited_for)
{
	struct mlx5dvl_qp *qp[2], *other;
	struct mlx5dvl_qp_attr attr = {.sq_depth = SQ};

	open_hca(2);
	never_drained = true;
	for (int i = 0; i < 2; i++) {
		open_pair(qp);
		hca_unpair(qp);
	}
	attr.send_cq = h.scq;
	attr.recv_cq = h.rcq;
	CHECK_EQ(mlx5dvl_ctx_retired(h.ctx), 4);
	now += NSEC_PER_SEC - 1;
	CHECK_EQ(mlx5dvl_ctx_retired(h.ctx), 4);
	CHECK_EQ(mlx5dvl_qp_create(h.ctx, &attr, &other), -ENOSPC);
	now++;
	CHECK_EQ(mlx5dvl_qp_create(h.ctx, &attr, &other), 0);
	CHECK_EQ(mlx5dvl_ctx_retired(h.ctx), 0);
	mlx5dvl_qp_destroy(other);
	hca_close(&h);
}
