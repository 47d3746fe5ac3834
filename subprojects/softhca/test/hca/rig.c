/* SPDX-License-Identifier: MIT */
#include "rig.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>

int rig_child(void (*fn)(void), const char *says)
{
	char text[512] = "";
	int status, fd[2];
	ssize_t n;
	pid_t pid;

	CHECK(!pipe(fd));
	pid = test_fork();
	if (!pid) {
		CHECK_EQ(dup2(fd[1], 2), 2);
		close(fd[0]);
		close(fd[1]);
		alarm(300);
		fn();
		exit(1);
	}
	close(fd[1]);
	for (size_t have = 0; (n = read(fd[0], text + have, sizeof(text) - 1 - have)) > 0;)
		have += (size_t)n;
	close(fd[0]);
	status = test_reap(pid);
	fputs(text, stderr);
	if (says)
		CHECK(strstr(text, says) && strchr(text, '\n') == strrchr(text, '\n'));
	return status;
}

bool rig_mode(const char *mode)
{
	const char *env = getenv("SOFTHCA_MODE");

	return env && !strcmp(env, mode);
}

static struct ibv_cq *make_cq(struct rig *r, const struct rig_attr *a)
{
	struct ibv_cq_init_attr_ex ex = {
		.cqe = (uint32_t)(a->cqe ? a->cqe : 256),
		.channel = r->channel,
		.wc_flags = IBV_WC_STANDARD_FLAGS,
	};
	struct mlx5dv_cq_init_attr dv = {
		.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE,
		.cqe_size = (uint16_t)a->cqe_size,
	};

	if (a->ignore_overrun) {
		ex.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
		ex.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
		return ibv_cq_ex_to_cq(ibv_create_cq_ex(r->ctx, &ex));
	}
	if (!a->cqe_size)
		return ibv_create_cq(r->ctx, (int)ex.cqe, NULL, r->channel, 0);
	return ibv_cq_ex_to_cq(mlx5dv_create_cq(r->ctx, &ex, &dv));
}

static struct ibv_qp *make_qp(const struct rig *r, const struct rig_attr *a)
{
	struct ibv_qp_init_attr qa = {
		.send_cq = r->scq,
		.recv_cq = r->rcq,
		.srq = r->srq,
		.cap = {.max_send_wr = a->depth ? a->depth : RIG_DEPTH,
			.max_recv_wr = RIG_DEPTH,
			.max_send_sge = 4,
			.max_recv_sge = 2,
			.max_inline_data = 128},
		.qp_type = a->type ? a->type : IBV_QPT_RC,
	};
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.pkey_index = a->pkey_index,
		.qp_access_flags =
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
		.qkey = RIG_QKEY,
	};
	struct ibv_qp *qp = ibv_create_qp(r->pd, &qa);

	CHECK(qp);
	CHECK(!ibv_modify_qp(qp, &init,
		IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			(qa.qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)));
	return qp;
}

struct ibv_qp *rig_qp(const struct rig *r)
{
	return make_qp(r, &(struct rig_attr){0});
}

struct rig rig_with(const struct rig *r, struct ibv_qp *qp)
{
	struct rig view = *r;

	view.qp = qp;
	return view;
}

static struct rig *open_rigs; /* of this process, in the order of opening */
static pid_t opener;
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;

/* Locks the list; empties it in a forked child, which must not close its parent's rigs. */
static void lock_list(void)
{
	pthread_mutex_lock(&open_lock);
	if (opener != getpid())
		open_rigs = NULL;
	opener = getpid();
}

static void close_all(void)
{
	while (open_rigs && opener == getpid())
		rig_close(open_rigs);
}

/* Takes a rig out of the list. Returns false if it is not there. */
static bool forget(struct rig *r)
{
	struct rig **at = &open_rigs;
	bool found;

	lock_list();
	while (*at && *at != r)
		at = &(*at)->next;
	found = *at;
	if (found)
		*at = r->next;
	pthread_mutex_unlock(&open_lock);
	return found;
}

static void remember(struct rig *r)
{
	struct rig **at = &open_rigs;

	lock_list();
	if (!open_rigs)
		test_finally(close_all);
	while (*at)
		at = &(*at)->next;
	*at = r;
	pthread_mutex_unlock(&open_lock);
}

void rig_open(struct rig *r, const struct rig_attr *attr)
{
	const struct rig_attr none = {0}, *a = attr ? attr : &none;
	int access = a->access ? a->access :
				 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = RIG_DEPTH, .max_sge = 2}};
	struct ibv_device **list;
	int n;

	rig_close(r);
	memset(r, 0, sizeof(*r));
	list = ibv_get_device_list(&n);
	CHECK(list && n > (int)a->rail);
	r->ctx = ibv_open_device(list[a->rail]);
	CHECK(r->ctx);
	ibv_free_device_list(list);
	CHECK(!ibv_query_port(r->ctx, 1, &r->port));
	CHECK(!ibv_query_gid(r->ctx, 1, 0, &r->gid));
	r->pd = ibv_alloc_pd(r->ctx);
	CHECK(r->pd);
	if (a->events) {
		r->channel = ibv_create_comp_channel(r->ctx);
		CHECK(r->channel);
	}
	r->scq = make_cq(r, a);
	r->rcq = make_cq(r, a);
	CHECK(r->scq && r->rcq);
	r->buf = aligned_alloc(4096, RIG_BUF);
	CHECK(r->buf);
	memset(r->buf, 0, RIG_BUF);
	r->mr = ibv_reg_mr(r->pd, r->buf, RIG_BUF, access);
	CHECK(r->mr);
	if (a->srq) {
		r->srq = ibv_create_srq(r->pd, &sa);
		CHECK(r->srq);
	}
	r->qp = make_qp(r, a);
	remember(r);
}

void rig_close(struct rig *r)
{
	if (!forget(r))
		return;
	if (r->qp)
		CHECK(!ibv_destroy_qp(r->qp));
	if (r->srq)
		CHECK(!ibv_destroy_srq(r->srq));
	CHECK(!ibv_destroy_cq(r->scq));
	CHECK(!ibv_destroy_cq(r->rcq));
	if (r->channel)
		CHECK(!ibv_destroy_comp_channel(r->channel));
	CHECK(!ibv_dereg_mr(r->mr));
	CHECK(!ibv_dealloc_pd(r->pd));
	CHECK(!ibv_close_device(r->ctx));
	free(r->buf);
}

struct rig_addr rig_addr(const struct rig *r)
{
	return (struct rig_addr){
		.qpn = r->qp->qp_num,
		.lid = r->port.lid,
		.gid = r->gid,
		.rkey = r->mr->rkey,
		.addr = (uintptr_t)r->buf,
	};
}

void rig_connect(struct rig *r, struct rig_addr to, struct rig_timers t)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = to.qpn,
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = t.min_rnr ? t.min_rnr : 1,
		.timeout = t.timeout ? t.timeout : 10,
		.retry_cnt = t.retry ? t.retry : 3,
		.rnr_retry = t.rnr_retry ? t.rnr_retry : 7,
		.ah_attr = {.dlid = to.lid,
			.port_num = 1,
			.is_global = !to.lid,
			.grh = {.dgid = to.gid, .hop_limit = 1}},
	};
	int uc = r->qp->qp_type == IBV_QPT_UC;

	CHECK(!ibv_modify_qp(r->qp, &a,
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			(uc ? 0 : IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)));
	a.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(r->qp, &a,
		IBV_QP_STATE | IBV_QP_SQ_PSN |
			(uc ? 0 :
			      IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
						IBV_QP_MAX_QP_RD_ATOMIC)));
}

void rig_connect_pair(struct rig *a, struct rig *b)
{
	rig_connect(a, rig_addr(b), (struct rig_timers){0});
	rig_connect(b, rig_addr(a), (struct rig_timers){0});
}

void rig_open_pair(struct rig *a, const struct rig_attr *attr_a, struct rig *b,
	const struct rig_attr *attr_b)
{
	rig_open(a, attr_a);
	rig_open(b, attr_b);
	rig_connect_pair(a, b);
}

void rig_open_fan(struct rig *a, struct rig *b, struct rig *from, struct rig *to, uint32_t n)
{
	rig_open(a, NULL);
	rig_open(b, &(struct rig_attr){.srq = true});
	for (uint32_t i = 0; i < n; i++) {
		from[i] = rig_with(a, rig_qp(a));
		to[i] = rig_with(b, rig_qp(b));
		rig_connect_pair(&from[i], &to[i]);
	}
}

void rig_close_pair(struct rig *a, struct rig *b)
{
	rig_close(a);
	rig_close(b);
}

struct rig_addr rig_meet(struct rig *r, int fd, const struct ibv_mr *mr, struct rig_timers t)
{
	struct rig_addr mine = rig_addr(r), to;

	if (mr) {
		mine.addr = (uintptr_t)mr->addr;
		mine.rkey = mr->rkey;
	}
	test_put(fd, &mine, sizeof(mine));
	test_get(fd, &to, sizeof(to));
	rig_connect(r, to, t);
	test_meet(fd);
	return to;
}

void rig_modify(struct rig *r, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = {.qp_state = state};

	CHECK(!ibv_modify_qp(r->qp, &a, IBV_QP_STATE));
}

enum ibv_qp_state rig_state(const struct rig *r)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	CHECK(!ibv_query_qp(r->qp, &a, IBV_QP_STATE, &init));
	return a.qp_state;
}

struct mlx5dv_qp rig_dv_qp(struct ibv_qp *qp)
{
	struct mlx5dv_qp dv = {0};
	struct mlx5dv_obj obj = {.qp = {.in = qp, .out = &dv}};

	CHECK(!mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP));
	return dv;
}

struct mlx5dv_cq rig_dv_cq(struct ibv_cq *cq)
{
	struct mlx5dv_cq dv = {0};
	struct mlx5dv_obj obj = {.cq = {.in = cq, .out = &dv}};

	CHECK(!mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ));
	return dv;
}

uint64_t rig_counter(unsigned rail, const char *name)
{
	unsigned long long value;
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/infiniband/mlx5_%u/ports/1/%s", rail, name);
	f = fopen(path, "r");
	CHECK(f);
	CHECK_EQ(fscanf(f, "%llu\n", &value), 1);
	CHECK_EQ(getc(f), EOF);
	fclose(f);
	return value;
}

struct softhca_counters rig_counters(void)
{
	struct softhca_counters c;

	CHECK(!softhca_counters_self(&c));
	return c;
}

struct softhca_fabric_info rig_info(void)
{
	struct softhca_fabric_info info;

	CHECK(!softhca_fabric_info(&info));
	return info;
}

void rig_recv(struct rig *r, uint64_t id, uint32_t offset, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)r->buf + offset, len, r->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = len ? 1 : 0}, *bad;

	if (r->srq)
		CHECK(!ibv_post_srq_recv(r->srq, &wr, &bad));
	else
		CHECK(!ibv_post_recv(r->qp, &wr, &bad));
}

void rig_post(struct rig *r, const struct rig_wr *w)
{
	struct ibv_sge sge = {w->laddr ? w->laddr : (uintptr_t)r->buf + w->offset, w->len,
		w->lkey ? w->lkey : r->mr->lkey};
	struct ibv_send_wr wr = {
		.wr_id = w->id,
		.sg_list = &sge,
		.num_sge = w->len ? 1 : 0,
		.opcode = w->op,
		.send_flags = w->flags,
		.imm_data = w->imm,
	};
	struct ibv_send_wr *bad;

	if (w->op == IBV_WR_ATOMIC_CMP_AND_SWP || w->op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = w->raddr;
		wr.wr.atomic.rkey = w->rkey;
		wr.wr.atomic.compare_add = w->compare_add;
		wr.wr.atomic.swap = w->swap;
	} else {
		wr.wr.rdma.remote_addr = w->raddr;
		wr.wr.rdma.rkey = w->rkey;
	}
	CHECK(!ibv_post_send(r->qp, &wr, &bad));
}

void rig_request(struct rig *r, enum ibv_wr_opcode op, uint32_t len, struct rig_addr to)
{
	rig_post(r, &(struct rig_wr){.op = op,
			    .flags = IBV_SEND_SIGNALED,
			    .len = len,
			    .raddr = to.addr,
			    .rkey = to.rkey});
}

void rig_write(struct rig *from, const struct rig *to, uint32_t len)
{
	rig_request(from, IBV_WR_RDMA_WRITE, len, rig_addr(to));
}

void rig_send(struct rig *r, uint32_t len)
{
	rig_request(r, IBV_WR_SEND, len, (struct rig_addr){0});
}

void rig_write_imm(struct rig *r, uint32_t n, uint32_t offset, uint32_t len, struct rig_addr to)
{
	rig_post(r, &(struct rig_wr){.id = n,
			    .op = IBV_WR_RDMA_WRITE_WITH_IMM,
			    .flags = IBV_SEND_SIGNALED,
			    .imm = n,
			    .offset = offset,
			    .len = len,
			    .raddr = to.addr,
			    .rkey = to.rkey});
}

void rig_write_list(struct rig *from, const struct rig *to, uint32_t n, uint32_t len, int places)
{
	struct ibv_sge sge[RIG_PLACES_MAX];
	struct ibv_send_wr wr[RIG_LIST_MAX], *bad;

	for (int p = 0; p < places; p++)
		sge[p] = (struct ibv_sge){(uintptr_t)from->buf, len / (uint32_t)places,
			from->mr->lkey};
	for (uint32_t i = 0; i < n; i++)
		wr[i] = (struct ibv_send_wr){.opcode = IBV_WR_RDMA_WRITE,
			.sg_list = sge,
			.num_sge = places,
			.next = i + 1 < n ? &wr[i + 1] : NULL,
			.send_flags = i + 1 < n ? 0 : IBV_SEND_SIGNALED,
			.wr.rdma = {(uintptr_t)to->buf, to->mr->rkey}};
	CHECK(!ibv_post_send(from->qp, wr, &bad));
}

void rig_write_row(const struct rig *r, struct rig_addr to, uint32_t n, uint32_t len, uint32_t imm)
{
	struct ibv_sge sge = {(uintptr_t)r->buf, len, r->mr->lkey};
	struct ibv_send_wr wr[RIG_LIST_MAX], *bad, *last = &wr[n - 1];

	for (uint32_t i = 0; i < n; i++)
		wr[i] = (struct ibv_send_wr){.opcode = IBV_WR_RDMA_WRITE,
			.sg_list = &sge,
			.num_sge = 1,
			.next = &wr[i + 1],
			.wr.rdma = {to.addr + i * len, to.rkey}};
	last->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	last->send_flags = IBV_SEND_SIGNALED;
	last->imm_data = imm;
	last->next = NULL;
	CHECK(!ibv_post_send(r->qp, wr, &bad));
}

uint8_t *rig_nop(struct ibv_qp *qp, uint16_t block, uint16_t index, bool signaled)
{
	struct mlx5dv_qp dv = rig_dv_qp(qp);
	uint8_t *w = (uint8_t *)dv.sq.buf + (block & (dv.sq.wqe_cnt - 1)) * 64u;
	uint32_t words[2] = {htobe32((uint32_t)index << 8), htobe32(qp->qp_num << 8 | 1)};

	memset(w, 0, 64);
	memcpy(w, words, sizeof(words));
	w[11] = signaled ? 8 : 0;
	return w;
}

void rig_record(struct ibv_qp *qp, uint16_t index)
{
	struct mlx5dv_qp dv = rig_dv_qp(qp);

	__atomic_store_n((uint32_t *)&dv.dbrec[MLX5_SND_DBR], htobe32(index), __ATOMIC_RELEASE);
}

void rig_ring(void *reg, const void *wqe)
{
	uint64_t v;

	memcpy(&v, wqe, sizeof(v));
	__atomic_store_n((uint64_t *)reg, v, __ATOMIC_RELEASE);
}

void rig_blueflame(void *reg, const uint8_t *wqe)
{
	for (uint32_t i = 0; i < 64; i += 8)
		rig_ring((char *)reg + i, wqe + i);
}

void rig_datagrams(struct rig *r)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS};

	rig_modify(r, IBV_QPS_RTR);
	CHECK(!ibv_modify_qp(r->qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

void rig_post_datagram(struct rig *r, struct ibv_ah *ah, uint32_t qpn, uint32_t offset,
	uint32_t len, enum ibv_wr_opcode op)
{
	struct ibv_sge sge = {(uintptr_t)r->buf + offset, len, r->mr->lkey};
	struct ibv_send_wr *bad,
		wr = {.sg_list = &sge,
			.num_sge = 1,
			.opcode = op,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.ud = {.ah = ah, .remote_qpn = qpn, .remote_qkey = RIG_QKEY}};

	CHECK(ah && !ibv_post_send(r->qp, &wr, &bad));
}

enum ibv_wc_status rig_send_datagram(struct rig *r, struct ibv_ah *ah, uint32_t qpn,
	uint32_t offset, uint32_t len, enum ibv_wr_opcode op)
{
	rig_post_datagram(r, ah, qpn, offset, len, op);
	return rig_wait(r->scq).status;
}

enum ibv_wc_status rig_datagram(struct rig *r, const struct rig *to, uint32_t len)
{
	struct ibv_ah_attr path = {.port_num = 1, .dlid = to->port.lid};
	struct ibv_ah *ah = ibv_create_ah(r->pd, &path);
	enum ibv_wc_status status = rig_send_datagram(r, ah, to->qp->qp_num, 0, len, IBV_WR_SEND);

	CHECK(!ibv_destroy_ah(ah));
	return status;
}

bool rig_poll(struct ibv_cq *cq, struct ibv_wc *wc_p)
{
	int n = ibv_poll_cq(cq, 1, wc_p);

	CHECK(n >= 0);
	if (n)
		CHECK_EQ(wc_p->status, IBV_WC_SUCCESS);
	return n;
}

struct ibv_wc rig_wait(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		sched_yield();
	CHECK_EQ(n, 1);
	return wc;
}

struct ibv_wc rig_wait_ok(struct ibv_cq *cq)
{
	struct ibv_wc wc = rig_wait(cq);

	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	return wc;
}

void rig_idle(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	CHECK_EQ(ibv_poll_cq(cq, 1, &wc), 0);
}

void rig_take_event(const struct rig *r, const struct ibv_cq *cq)
{
	struct ibv_cq *of;
	void *context;

	CHECK(!ibv_get_cq_event(r->channel, &of, &context));
	CHECK(of == cq);
	ibv_ack_cq_events(of, 1);
}

struct ibv_async_event rig_take_async(const struct rig *r)
{
	struct ibv_async_event e;

	CHECK(!ibv_get_async_event(r->ctx, &e));
	ibv_ack_async_event(&e);
	return e;
}

void rig_hears_port(const struct rig *r, enum ibv_event_type type)
{
	struct ibv_async_event e = rig_take_async(r);

	CHECK_EQ(e.event_type, type);
	CHECK_EQ(e.element.port_num, 1);
}

static uint8_t pattern(uint32_t seed, size_t i)
{
	uint32_t x = (seed * 2654435761u) ^ (uint32_t)(i * 40503u);

	return (uint8_t)(x ^ x >> 13 ^ x >> 24);
}

void rig_fill(uint8_t *p, size_t len, uint32_t seed)
{
	for (size_t i = 0; i < len; i++)
		p[i] = pattern(seed, i);
}

bool rig_same(const uint8_t *p, size_t len, uint32_t seed)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] != pattern(seed, i))
			return false;
	return true;
}

pid_t rig_thread(pid_t pid)
{
	char path[64];
	struct dirent *e;
	pid_t tid = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	d = opendir(path);
	CHECK(d);
	while ((e = readdir(d)))
		if (atoi(e->d_name) && atoi(e->d_name) != pid)
			tid = atoi(e->d_name);
	closedir(d);
	CHECK(tid);
	return tid;
}

int rig_mappings(pid_t pid, const char *text)
{
	char line[512];
	int n = 0;
	FILE *f;

	snprintf(line, sizeof(line), "/proc/%d/maps", (int)pid);
	f = fopen(line, "r");
	CHECK(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, text) != NULL;
	fclose(f);
	return n;
}

void rig_forbid_call(int number)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	};
	struct sock_fprog program = {ARRAY_SIZE(code), code};

	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	CHECK(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program));
}

void rig_forbid_calls(void)
{
	rig_forbid_call(SYS_process_vm_readv);
	rig_forbid_call(SYS_process_vm_writev);
}
