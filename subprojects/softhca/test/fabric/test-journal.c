/* SPDX-License-Identifier: MIT */
/*
 * A child, the victim, executes a step of its journal (docs/locks.md): it reads the next receive of
 * an SRQ of its parent, the survivor, makes two completions for the survivor's queues, and takes
 * the receive. It is killed, or stopped, after a number of instructions of the step, which differs
 * from victim to victim. Then the survivor must find all effects of the step or none, and the event
 * for which it has armed its CQ. Each receive of the SRQ is taken once, in the order of the list.
 * Every second victim holds a lane instead of the mutex. A process that was stopped must not change
 * anything when it continues.
 */
#include <endian.h>
#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi/wire.h"
#include "check.h"
#include "fabric/fabric.h"
#include "fabric/latch.h"
#include "hca/cq.h"
#include "hca/event.h"
#include "hca/journal.h"
#include "hca/objects.h"
#include "member/member.h"
#include "xport/recv.h"

#define LOG_SIZE 4
#define ENTRIES 64u /* entries of the SRQ */
#define ORDER 37u /* entry number i of the list is ORDER * i modulo ENTRIES */
#define POSTED 48u /* entries that are posted and not taken */
#define LOST 3 /* exit status of a victim that has lost the mutex or the lane */
#define STRIDE 17 /* between the instruction counts of two victims; the first count varies */
#define VICTIM 1 /* the victim's slot */
#define SELDOM 3 /* STRIDE's factor for stops, which leave the same state as kills */

struct queue {
	struct cqe64 cqes[1 << LOG_SIZE];
	uint32_t dbrec[2];
	struct cq *cq;
};

static struct queue queues[2];
static struct {
	struct wqe_srq_next next;
	struct wqe_data data;
} entries[ENTRIES];
static uint32_t posted[2]; /* the SRQ's doorbell record */
static struct srq *srq;
static struct qp *qp; /* a QP that receives from srq */
static int channel;

static uint32_t make_cq(struct queue *q, uint64_t fifo)
{
	uint32_t i = obj_alloc(OBJ_CQ, 0);

	CHECK((int32_t)i >= 0);
	q->cq = cq_at(i);
	q->cq->buf = (uintptr_t)q->cqes;
	q->cq->dbrec = (uintptr_t)q->dbrec;
	q->cq->cqe_size = sizeof(struct cqe64);
	q->cq->log_size = LOG_SIZE;
	q->cq->fifo = fifo;
	q->cq->user_handle = 0x1234;
	memset(q->cqes, 0xff, sizeof(q->cqes));
	obj_publish(OBJ_CQ, i);
	return i;
}

static uint32_t entry(uint32_t n)
{
	return n * ORDER % ENTRIES;
}

/* Makes an SRQ whose list is a ring: the entry that is freed first is posted first. */
static void make_srq(void)
{
	uint32_t i = obj_alloc(OBJ_SRQ, 0);

	CHECK((int32_t)i >= 0);
	for (uint32_t n = 0; n < ENTRIES; n++)
		entries[entry(n)].next.next_index = htobe16((uint16_t)entry(n + 1));
	srq = &arena()->srqs[i];
	srq->buf = (uintptr_t)entries;
	srq->dbrec = (uintptr_t)posted;
	srq->stride = sizeof(entries[0]);
	srq->count = ENTRIES;
	qp = &arena()->qps[obj_alloc(OBJ_QP, 0)];
	qp->srq = i;
	obj_publish(OBJ_SRQ, i);
}

static void make_objects(void)
{
	sigset_t saved;
	uint64_t fifo;

	fabric_enter(&saved);
	obj_publish(OBJ_CTX, obj_alloc(OBJ_CTX, NO_INDEX));
	channel = fifo_create(&fifo);
	CHECK(channel >= 0);
	CHECK(!fcntl(channel, F_SETFL, O_NONBLOCK));
	make_cq(&queues[0], fifo);
	make_cq(&queues[1], 0);
	make_srq();
	fabric_leave(&saved);
}

static struct cqe64 completion(uint32_t n)
{
	return (struct cqe64){.byte_cnt = htobe32(n), .op_own = CQE_RESP_SEND << 4};
}

/* The parts of a step. */
enum part {
	LOOK, /* taking the latches, and reading the SRQ's list */
	COMMIT,
	FLUSH, /* what precedes each release: freeing latches, writing compressed completions */
};

static void stop_if(bool here)
{
	if (here)
		raise(SIGSTOP);
}

/* Executes step number @n as the victim. It stops itself before and after @part. */
static void victim(uint32_t n, enum part part)
{
	const struct cqe64 cqe = completion(n);
	struct recv rx;
	sigset_t saved;

	member_forget();
	CHECK(!member_attach());
	CHECK_EQ(fabric_self.slot, VICTIM);
	if (n % 2) {
		fabric_block(&saved);
		if (fabric_lock_lane())
			_exit(LOST);
		if (fabric_whole()) { /* the lane was shut, and is open now */
			fabric_unlock();
			if (fabric_lock_lane())
				_exit(LOST);
		}
	} else if (fabric_enter(&saved)) {
		_exit(LOST);
	}
	CHECK_EQ(fabric_whole(), !(n % 2));
	CHECK(!ptrace(PTRACE_TRACEME, 0, NULL, NULL));
	stop_if(part == LOOK);
	CHECK(!recv_peek(qp, &rx));
	CHECK(latch_take(&queues[0].cq->latch) && latch_take(&queues[1].cq->latch));
	stop_if(part == LOOK);
	journal_begin();
	journal_cqe(cq_index(queues[0].cq), &cqe);
	journal_cqe(cq_index(queues[1].cq), &cqe);
	recv_take(qp, &rx);
	stop_if(part == COMMIT);
	journal_commit();
	stop_if(part == COMMIT);
	stop_if(part == FLUSH);
	latches_free(0);
	cq_flush_runs(fabric_lane()->comp_queues);
	raise(SIGSTOP);
	_exit(1);
}

/*
 * Runs a victim until it has executed @instructions of @part, and leaves it stopped. Returns true
 * if the part had ended before.
 */
static bool run_victim(uint32_t n, enum part part, uint32_t instructions, pid_t *pid_p)
{
	bool ended = false;
	pid_t pid = test_fork();

	if (!pid)
		victim(n, part);
	*pid_p = pid;
	CHECK_EQ(test_stopped(pid), SIGSTOP);
	for (uint32_t i = 0; i < instructions && !ended; i++) {
		CHECK(!ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL));
		ended = test_stopped(pid) == SIGSTOP;
	}
	return ended;
}

/* Continues the victim, which must find at once that it has lost the mutex or the lane. */
static void continue_victim(pid_t pid)
{
	struct queue before[2] = {queues[0], queues[1]};
	uint32_t producers[2] = {queues[0].cq->producer, queues[1].cq->producer};
	const struct lane *l = &arena()->lanes[VICTIM * PROC_LANES + fabric_thread.number - 1];
	struct journal whole = arena()->whole.journal, lane = l->journal;
	uint32_t taken = srq->taken, head = srq->head;

	CHECK(!ptrace(PTRACE_DETACH, pid, NULL, NULL));
	CHECK(!kill(pid, SIGCONT)); /* it may be about to stop itself */
	CHECK_EQ(test_reap(pid), LOST);
	CHECK(!memcmp(before, queues, sizeof(before)));
	CHECK(!memcmp(&whole, &arena()->whole.journal, sizeof(whole)));
	CHECK(!memcmp(&lane, &l->journal, sizeof(lane)));
	CHECK_EQ(queues[0].cq->producer, producers[0]);
	CHECK_EQ(queues[1].cq->producer, producers[1]);
	CHECK_EQ(srq->taken, taken);
	CHECK_EQ(srq->head, head);
}

/*
 * Posts more receives, and marks the cached part of the list as used up, so that the victim reads
 * the list again.
 */
static void post_receives(void)
{
	posted[0] = htobe32((srq->taken + POSTED) & 0xffff);
	srq->ahead_from = srq->taken - SRQ_AHEAD;
	srq->ahead_n = SRQ_AHEAD;
	for (uint32_t i = 0; i < SRQ_AHEAD; i++)
		srq->ahead[i] = (uint16_t)entry(srq->ahead_from + i + 1);
}

/* Takes all receives that the victim may have read from the list, and more. */
static void take_receives(void)
{
	struct recv rx;

	for (uint32_t i = 0; i < 2 * SRQ_AHEAD; i++) {
		CHECK(!recv_peek(qp, &rx));
		CHECK_EQ(rx.index, entry(srq->taken));
		CHECK_EQ(rx.next, entry(srq->taken + 1));
		journal_begin();
		recv_take(qp, &rx);
		journal_commit();
	}
}

static void check_queue(struct queue *q, uint32_t before, bool done, uint32_t n)
{
	uint32_t slot = before % (1 << LOG_SIZE);
	uint8_t owner = before >> LOG_SIZE & 1;

	CHECK_EQ(q->cq->producer, before + done);
	if (!done)
		return;
	CHECK_EQ(be32toh(q->cqes[slot].byte_cnt), n);
	CHECK_EQ(q->cqes[slot].op_own, CQE_RESP_SEND << 4 | owner);
	q->dbrec[0] = htobe32((before + 1) & 0xffffff);
}

/* Returns true if the victim's step is complete, with or without recovery. */
static bool one(uint32_t n, enum part part, uint32_t instructions, bool kills, bool *ended)
{
	const uint32_t before = queues[0].cq->producer, taken = srq->taken;
	struct cq *cq = queues[0].cq;
	uint32_t events = 0;
	uint64_t event;
	sigset_t saved;
	pid_t pid;
	bool done;

	cq->comp_events = cq->events_begun = cq->events_ended = 0;
	queues[0].cq->armed = CQ_ARMED_NEXT;
	post_receives();
	*ended = run_victim(n, part, instructions, &pid);
	if (kills)
		CHECK(!kill(pid, SIGKILL) && test_reap(pid) == 128 + SIGKILL);
	CHECK(!fabric_enter(&saved));
	done = queues[0].cq->producer != before;
	CHECK_EQ(srq->taken, taken + done);
	CHECK_EQ(srq->head, entry(srq->taken));
	CHECK(!arena()->whole.journal.active &&
		!arena()->lanes[VICTIM * PROC_LANES + fabric_thread.number - 1].journal.active);
	CHECK(latch_is_free(srq->latch.word) && latch_is_free(queues[0].cq->latch.word) &&
		latch_is_free(queues[1].cq->latch.word));
	take_receives();
	fabric_leave(&saved);
	check_queue(&queues[0], before, done, n);
	check_queue(&queues[1], before, done, n);
	for (; read(channel, &event, sizeof(event)) == sizeof(event); events++)
		CHECK_EQ(event, 0x1234);
	CHECK(events >= done && events <= 2u * done); /* a replay may send it again */
	CHECK(cq->events_begun >= events);
	if (*ended)
		CHECK_EQ(cq->events_begun, cq->events_ended);
	if (cq->events_begun == cq->events_ended)
		CHECK_EQ(cq->comp_events, events);
	if (!kills)
		continue_victim(pid);
	return done;
}

static const char *const names[] = {"look", "commit", "flush"};

/* The mutex, or the lane, is taken over from each victim that is stopped, and from no other. */
static void sweep(enum part part, bool kills, bool compressed)
{
	static uint32_t victims = 1;
	uint32_t first = victims, takeovers = arena()->takeovers;
	uint32_t stride = kills ? STRIDE : SELDOM * STRIDE, i = (uint32_t)getpid() % stride;
	uint32_t n = first, done = 0, replays = arena()->replays;
	bool ended = false;

	queues[0].cq->comp_en = queues[1].cq->comp_en = compressed;
	for (; !ended; i += stride, n++)
		done += one(n, part, i, kills, &ended);
	replays = arena()->replays - replays;
	victims = n;
	n -= first;
	takeovers = arena()->takeovers - takeovers;
	CHECK_EQ(takeovers, kills ? 0 : n);
	fprintf(stderr, "%s%s: %u %s, %u with a complete step, %u replays\n", names[part],
		compressed ? ", compressed" : "", n, kills ? "killed" : "stopped", done, replays);
	if (part == COMMIT)
		CHECK(replays > 0 && (!kills || done < n));
	else
		CHECK_EQ(done, part == FLUSH ? n : 0);
}

TEST_WITH(killed_in_look, sweep, LOOK, true, false);
TEST_WITH(killed_in_commit, sweep, COMMIT, true, false);
TEST_WITH(killed_in_compressed_commit, sweep, COMMIT, true, true);
TEST_WITH(killed_in_flush, sweep, FLUSH, true, true);
TEST_WITH(stopped_in_look, sweep, LOOK, false, false);
TEST_WITH(stopped_in_commit, sweep, COMMIT, false, false);
TEST_WITH(stopped_in_compressed_commit, sweep, COMMIT, false, true);
TEST_WITH(stopped_in_flush, sweep, FLUSH, false, true);

/*
 * A process may be killed after it has taken a receive, and before it has sent the SRQ's limit
 * event. The event is sent once. It is not due if no receive was taken since the limit was set.
 */
TEST(killed_before_limit_event)
{
	uint64_t *fifo = &ctx_at(srq->obj.ctx)->fifo;
	struct ib_uverbs_async_event_desc e;
	sigset_t saved;
	int events;

	CHECK(!fabric_enter(&saved));
	events = fifo_create(fifo);
	CHECK(events >= 0);
	CHECK(!fcntl(events, F_SETFL, O_NONBLOCK));
	post_receives();
	srq->limit = POSTED;
	recv_recover();
	CHECK_EQ(read(events, &e, sizeof(e)), -1);
	srq->limit = POSTED + 1;
	srq->limit_from = srq->taken;
	recv_recover();
	CHECK_EQ(read(events, &e, sizeof(e)), -1);
	srq->limit_from = srq->taken - 1;
	recv_recover();
	recv_recover();
	CHECK_EQ(read(events, &e, sizeof(e)), sizeof(e));
	CHECK_EQ(e.event_type, EV_SRQ_LIMIT_REACHED);
	CHECK_EQ(read(events, &e, sizeof(e)), -1);
	fifo_remove(*fifo);
	*fifo = 0;
	fabric_leave(&saved);
	close(events);
}

int main(int argc, char **argv)
{
	int r;

	test_fabric("journal");
	CHECK(!setenv("SOFTHCA_PATIENCE", "0", 1));
	CHECK(!member_attach());
	make_objects();
	r = test_main(argc, argv);
	member_detach(); /* not after a failed check, when the mutex may be held */
	return r;
}
