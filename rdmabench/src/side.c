/* SPDX-License-Identifier: MIT */
#include "side.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "payload.h"
#include "place.h"

#define PAGE 4096
#define ALL_RIGHTS                                                                                 \
	(MLX5DVL_LOCAL_WRITE | MLX5DVL_REMOTE_WRITE | MLX5DVL_REMOTE_READ | MLX5DVL_REMOTE_ATOMIC)

void side_event(struct side *s, const char *format, ...)
{
	char text[300];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "%s: %s\n", s->program, text);
	json_array_append_new(s->events, text_json(text));
}

void side_count_error(struct peer *p, int err)
{
	p->errors++;
	p->side->errors++;
	if (!p->first_error)
		p->first_error = err;
}

static void side_on_error(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_error *error)
{
	struct flow *f = mlx5dvl_qp_user(qp);
	struct side *s = arg;

	if (!f) {
		/*
		 * The QP does not carry traffic. It belongs to --control, or to the probes of the
		 * device's clock, which read the status of their QP themselves (hwclock.c).
		 */
		control_on_error(&s->control, error);
		return;
	}
	f->failed = true;
	if (error->err == -ECANCELED)
		return;
	side_count_error(f->peer, error->err);
	if (s->errors <= 8)
		side_event(s, "QP %#x, %s: %s (syndrome %#x, vendor %#x)", mlx5dvl_qp_qpn(qp),
			error->is_recv ? "receive" : pattern_op_name(error->opcode),
			strerror(-error->err), error->syndrome, error->vendor_syndrome);
}

static int said(char *why, const char *what, int err)
{
	return fail(why, WIRE_TEXT_MAX, err, "%s: %s", what, strerror(-err));
}

static int open_device(struct side *s, const struct side_device *d, char *why)
{
	struct mlx5dvl_ctx_attr a = {.device = d->name,
		.port = d->port,
		.set = d->gid_index >= 0 ? MLX5DVL_SET_GID_INDEX : 0,
		.gid_index = d->gid_index,
		.on_error = side_on_error,
		.error_arg = s};
	int err = mlx5dvl_ctx_open(&a, &s->ctx);

	if (err == -ENODEV)
		snprintf(why, WIRE_TEXT_MAX,
			"no mlx5 device%s%.40s: give another --ib-dev, or run under softhca-run",
			d->name ? " " : "", d->name ? d->name : "");
	else if (err == -EINVAL)
		snprintf(why, WIRE_TEXT_MAX,
			"no such port or GID: give another --ib-port or "
			"--gid-index");
	else if (err)
		said(why, "the device cannot be opened", err);
	return err;
}

static int make_srq(struct side *s, uint32_t n_peers)
{
	struct mlx5dvl_srq_attr a = {.depth = traffic_rx_depth(&s->t, n_peers),
		.buf_size = traffic_recv_size(&s->t)};
	size_t len = mlx5dvl_srq_buf_len(a.depth, a.buf_size);
	int err;

	if (len) {
		s->recv_mem = aligned_alloc(PAGE, align_up(len, PAGE));
		if (!s->recv_mem)
			return -ENOMEM;
		err = mlx5dvl_mr_reg(s->ctx, s->recv_mem, len, MLX5DVL_LOCAL_WRITE, &s->recv_mr);
		if (err)
			return err;
		a.buf = s->recv_mem;
		a.lkey = s->recv_mr.lkey;
	}
	return mlx5dvl_srq_create(s->ctx, &a, &s->srq);
}

static int make_queues(struct side *s, uint32_t n_peers)
{
	uint32_t depth = n_peers * s->t.qps * traffic_sq_depth(&s->t);
	struct mlx5dvl_cq_attr send = {.depth = depth, .events = s->t.sleeps};
	struct mlx5dvl_cq_attr recv = {.events = s->t.sleeps};
	int err = make_srq(s, n_peers);

	if (err)
		return err;
	recv.srq = s->srq;
	err = mlx5dvl_cq_create(s->ctx, &recv, &s->rcq);
	return err ? err : mlx5dvl_cq_create(s->ctx, &send, &s->scq);
}

const char *side_clock_name(const struct side *s)
{
	return s->hw_ts && s->sends ? hwclock_name(&s->hw) : latrec_clock_name(&s->clock);
}

static int open_control(struct side *s, char *why)
{
	int err = control_open(&s->control, s->ctx, (enum control_kind)s->t.control,
		s->t.control_us * NSEC_PER_USEC, latrec_clock_now(&s->clock));

	return err ? said(why, "--control cannot be prepared", err) : 0;
}

/* If this side sends, plants the event of --inject on its first QP to the peer. */
static int plant_injection(struct peer *p, char *why)
{
	const struct side *s = p->side;
	int n;

	if (!s->sends || s->t.inject == INJECT_NONE)
		return 0;
	n = inject_plant((enum inject_kind)s->t.inject, mlx5dvl_qp_qpn(p->flows[0].qp),
		s->t.inject_at);
	p->inject = n > 0 ? n : 0;
	if (n == -EOPNOTSUPP)
		snprintf(why, WIRE_TEXT_MAX,
			"--inject: only the software HCA can do that: leave it out, or run under "
			"softhca-run");
	else if (n <= 0)
		said(why, "--inject cannot be prepared", n);
	return n > 0 ? 0 : n;
}

void side_take_injected(struct side *s)
{
	for (uint32_t i = 0; i < s->n_peers; i++) {
		s->injected += inject_remove(s->peers[i]->inject);
		s->peers[i]->inject = 0;
	}
}

static int open_hwclock(struct side *s, char *why)
{
	int err = s->hw_ts && s->sends ? hwclock_open(&s->hw, s->ctx, &s->clock) : 0;

	if (err == -EOPNOTSUPP)
		snprintf(why, WIRE_TEXT_MAX, "--hw-ts: the device %s: leave it out",
			s->hw.probes ?
				"stamps completions by a clock that does not run at the host's rate" :
				"does not offer its clock");
	else if (err)
		said(why, "--hw-ts: the device's clock cannot be read", err);
	return err;
}

int side_open(struct side *s, const struct side_device *d, uint32_t n_peers,
	char why[WIRE_TEXT_MAX])
{
	struct latrec_attr rec = {.intended = s->t.rate > 0};
	int err;

	traffic_layout(&s->t, &s->layout);
	err = latrec_clock_init(LATREC_CLOCK_AUTO, &s->clock, sizeof(s->clock));
	if (!err)
		err = latrec_create(&rec, &s->rec);
	if (err)
		return said(why, "latencies cannot be measured", err);
	err = open_device(s, d, why);
	if (!err) /* before the first object allocates memory */
		err = place_bind(d->cpus, d->nodes, mlx5dvl_ctx_device(s->ctx), why, WIRE_TEXT_MAX);
	if (err)
		return err;
	err = make_queues(s, n_peers);
	if (err)
		return said(why, "queues cannot be made", err);
	err = open_control(s, why);
	return err ? err : open_hwclock(s, why);
}

static int add_flow(struct side *s, struct peer *p, uint32_t i)
{
	struct mlx5dvl_qp_attr a = {.send_cq = s->scq,
		.recv_cq = s->rcq,
		.user = &p->flows[i],
		.sq_depth = traffic_sq_depth(&s->t),
		.mtu = s->t.mtu,
		.timeout = s->t.qp_timeout,
		.retry_cnt = s->t.retries,
		.set = MLX5DVL_SET_RETRY_CNT,
		.rd_atomic = s->t.reads,
		.sl = s->t.sl,
		.traffic_class = s->t.traffic_class,
		.type = s->t.type,
		.qkey = s->t.type == MLX5DVL_UD ? SIDE_QKEY : 0};
	struct flow *f = &p->flows[i];
	int err;

	f->peer = p;
	f->index = i;
	f->mem = p->mem + i * s->layout.size;
	f->batches = calloc(s->t.depth, sizeof(*f->batches));
	if (!f->batches)
		return -ENOMEM;
	err = mlx5dvl_qp_create(s->ctx, &a, &f->qp);
	if (!err)
		payload_fill(f->mem + s->layout.read_at, s->t.pattern.largest,
			payload_seed(mlx5dvl_qp_qpn(f->qp), PAYLOAD_READ, 0));
	return err;
}

/* Returns the index of the first QP whose memory is in a region. */
static uint32_t first_of(const struct side *s, uint32_t region)
{
	return (uint32_t)((uint64_t)region * s->t.qps / s->t.regions);
}

static int add_regions(struct side *s, struct peer *p)
{
	int err = 0;

	for (uint32_t i = 0; i < s->t.regions && !err; i++) {
		uint32_t first = first_of(s, i), end = first_of(s, i + 1);

		err = mlx5dvl_mr_reg(s->ctx, p->mem + first * s->layout.size,
			(end - first) * s->layout.size, ALL_RIGHTS, &p->regions[i]);
		while (first < end)
			p->flows[first++].mr = &p->regions[i];
	}
	return err;
}

static int add_memory(struct side *s, struct peer *p)
{
	size_t len = align_up(s->t.qps * s->layout.size, PAGE);

	p->mem = aligned_alloc(PAGE, len);
	p->flows = calloc(s->t.qps, sizeof(*p->flows));
	p->regions = calloc(s->t.regions, sizeof(*p->regions));
	if (!p->mem || !p->flows || !p->regions)
		return -ENOMEM;
	memset(p->mem, 0, len);
	return add_regions(s, p);
}

/* Fails if a UD message does not fit in one packet. */
static int check_datagrams(struct side *s, struct peer *p, char *why)
{
	struct mlx5dvl_qp_info info;

	mlx5dvl_qp_get_info(p->flows[0].qp, &info, sizeof(info));
	if (s->t.type != MLX5DVL_UD || s->t.pattern.largest_send <= 128u << info.mtu)
		return 0;
	return fail(why, WIRE_TEXT_MAX, -EMSGSIZE,
		"a datagram has at most %u bytes here: give a smaller size", 128u << info.mtu);
}

int side_add_peer(struct side *s, struct peer *p, char why[WIRE_TEXT_MAX])
{
	int err = add_memory(s, p);

	if (err)
		return said(why, "memory cannot be registered", err);
	for (uint32_t i = 0; i < s->t.qps; i++) {
		err = add_flow(s, p, i);
		if (err == -EINVAL)
			return said(why, "the port does not have that MTU", err);
		if (err)
			return said(why, "a QP cannot be made", err);
	}
	return check_datagrams(s, p, why);
}

void side_describe(const struct side *s, const struct peer *p, const char *run,
	struct wire_side *d_p)
{
	memset(d_p->run, 0, sizeof(d_p->run));
	snprintf(d_p->run, sizeof(d_p->run), "%s", run);
	d_p->cm_port = s->cm.port;
	d_p->addr = (uintptr_t)p->mem;
	d_p->qps = s->t.qps;
	for (uint32_t i = 0; i < s->t.qps; i++) {
		mlx5dvl_qp_get_info(p->flows[i].qp, &d_p->qp[i], sizeof(d_p->qp[i]));
		d_p->rkey[i] = p->flows[i].mr->rkey;
	}
}

int flow_connect(struct flow *f, const struct mlx5dvl_qp_info *theirs)
{
	int err;

	if (f->peer->side->t.type != MLX5DVL_UD)
		return mlx5dvl_qp_connect(f->qp, theirs, sizeof(*theirs));
	err = mlx5dvl_qp_connect(f->qp, NULL, 0);
	return err ? err : mlx5dvl_ah_create(f->qp, theirs, sizeof(*theirs), &f->ah);
}

int side_connect(struct peer *p, char why[WIRE_TEXT_MAX])
{
	const struct side *s = p->side;
	int err = 0;

	for (uint32_t i = 0; i < s->t.qps && !err; i++) {
		const struct mlx5dvl_qp_info *theirs = &p->remote.qp[i];
		struct flow *f = &p->flows[i];

		f->remote = p->remote.addr + i * s->layout.size;
		f->rkey = p->remote.rkey[i];
		f->remote_qpn = theirs->qpn;
		if (!s->t.cm)
			err = flow_connect(f, theirs);
	}
	return err ? said(why, "the QPs cannot be connected", err) : plant_injection(p, why);
}

static void close_peer(const struct side *s, struct peer *p)
{
	wire_close(&p->conn);
	for (uint32_t i = 0; p->flows && i < s->t.qps; i++) {
		mlx5dvl_ah_destroy(p->flows[i].ah);
		mlx5dvl_qp_destroy(p->flows[i].qp);
		free(p->flows[i].batches);
	}
	for (uint32_t i = 0; p->regions && i < s->t.regions; i++)
		mlx5dvl_mr_dereg(&p->regions[i]);
	free(p->regions);
	free(p->flows);
	free(p->mem);
	free(p);
}

void side_close(struct side *s)
{
	side_take_injected(s);
	for (uint32_t i = 0; i < s->n_peers; i++)
		close_peer(s, s->peers[i]);
	hwclock_close(&s->hw);
	control_close(&s->control);
	mlx5dvl_cq_destroy(s->scq);
	mlx5dvl_cq_destroy(s->rcq);
	mlx5dvl_srq_destroy(s->srq);
	mlx5dvl_mr_dereg(&s->recv_mr);
	free(s->recv_mem);
	mlx5dvl_ctx_close(s->ctx);
	latrec_destroy(s->rec);
}
