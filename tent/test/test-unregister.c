/* SPDX-License-Identifier: MIT */
/*
 * The end of registrations that peers use: afterwards no peer accesses the memory. The program's
 * own process_vm_writev() and recvmsg() replace those of libc, and can hold a thread that copies.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "engine.h"
#include "conns.h"
#include "ending.h"
#include "jump.h"
#include "writev.h"

#define PEER_MS 5000 /* how long tent_unregister() waits for a silent peer */
#define HELD 76543 /* a copy of so many bytes is held; too long for the submitting thread to copy */
#define TEXT_MAX 65536

static uint64_t seed;

/* ---- a copy that is held ---- */

/* Shared with the child: over TCP the child's engine copies. */
static struct {
	sem_t reached, go;
} * held;

static void hold_init(void)
{
	CHECK_EQ(sem_init(&held->reached, 1, 0), 0);
	CHECK_EQ(sem_init(&held->go, 1, 0), 0);
}

static void hold(void)
{
	CHECK_EQ(sem_post(&held->reached), 0);
	CHECK_EQ(sem_wait(&held->go), 0);
}

static void on_writev(size_t len)
{
	if (len == HELD)
		hold();
}

/* The copies of an engine that receives over TCP. */
REPLACE(on_writev(m->msg_iov->iov_len), ssize_t, recvmsg, (int fd, struct msghdr *m, int flags), fd,
	m, flags)

/* Starts a write. The thread that copies is held just before it copies. */
static struct tent_batch *start_held(void)
{
	struct tent_batch *b;

	hold_init();
	b = duo_start(TENT_WRITE, 0, HELD);
	CHECK_EQ(sem_wait(&held->reached), 0);
	return b;
}

/* Counts calls of pthread_join(): an engine that closes a link joins the link's thread. */
static sem_t joins;

int __real_pthread_join(pthread_t thread, void **result_p);
int __wrap_pthread_join(pthread_t thread, void **result_p);

int __wrap_pthread_join(pthread_t thread, void **result_p)
{
	CHECK_EQ(sem_post(&joins), 0);
	return __real_pthread_join(thread, result_p);
}

/* ---- the child ---- */

static char *newer; /* shared with the child: its last description */

/* Fills the ring of notices with notices that mean nothing. */
static void fill_ring(struct tent *t)
{
	pthread_mutex_lock(&t->lock);
	t->notice_tail += NOTICES;
	CHECK_EQ(eventfd_write(t->notice_fd, NOTICES), 0);
	pthread_mutex_unlock(&t->lock);
}

static void empty_ring(struct tent *t)
{
	for (int i = 0; i < NOTICES; i++)
		CHECK_EQ(duo_take_notice(t), 0);
}

/* Returns 1 when the engine's thread has slept several times, 0 if events have woken it instead. */
static uint16_t is_quiet(void)
{
	uint64_t events = count_of(&woken) + 1000, times = count_of(&slept) + 20;

	while (count_of(&slept) < times && count_of(&woken) < events)
		sched_yield();
	return count_of(&woken) < events;
}

/*
 * 'r' registers again and writes a new description; 'm' unmaps the second MiB; 'f' fills the ring
 * of notices, 'd' empties it, and 'q' returns is_quiet(); the others are those of end_command().
 */
static uint16_t command(struct tent *t, char c)
{
	char *text;

	switch (c) {
	case 'f':
		fill_ring(t);
		return 0;
	case 'q':
		return is_quiet();
	case 'd':
		empty_ring(t);
		return 0;
	case 'r':
		CHECK_EQ(tent_register(t, d.theirs, d.len, NULL, NULL), 0);
		CHECK_EQ(tent_export(t, &text), 0);
		CHECK(strlen(text) < TEXT_MAX);
		strcpy(newer, text);
		free(text);
		return 0;
	case 'm':
		CHECK_EQ(munmap(d.theirs + MIB, MIB), 0);
		return 0;
	default:
		return end_command(t, c);
	}
}

static void import(const char *text)
{
	CHECK_EQ(tent_release(d.s), 0);
	d.s = duo_import(d.t, text);
}

/* Checks that no rail has been excluded. */
static void all_are_up(void)
{
	struct tent_rail_stats r;

	for (uint32_t i = 0; !tent_rail_get_stats(d.s, i, &r, sizeof(r)); i++) {
		CHECK(r.up);
		CHECK_EQ(r.exclusions, 0);
	}
}

/* ---- two processes ---- */

TEST(a_peer_uses_it_no_more)
{
	duo_open(&(struct duo_attr){.len = MIB, .command = command});
	memset(d.mine, 'A', d.len);
	CHECK_EQ(duo_move(TENT_WRITE, 0, d.len, 0), 0);
	test_filled(d.theirs, d.len, 'A');
	duo_ask('u');
	memset(d.theirs, 'P', d.len);
	CHECK_EQ(duo_move(TENT_WRITE, 0, d.len, 0), -EFAULT);
	CHECK_EQ(duo_move(TENT_READ, 0, d.len, 0), -EFAULT);
	test_filled(d.theirs, d.len, 'P');
	test_filled(d.mine, d.len, 'A');
	all_are_up();
	/*
	 * The same memory is registered again: this is another registration, of which the peer
	 * learns.
	 */
	duo_ask('r');
	CHECK_EQ(tent_segment_await(d.s, 2, -1), 0);
	CHECK_EQ(duo_move(TENT_WRITE, 0, d.len, 0), 0);
	import(d.text);
	CHECK_EQ(duo_move(TENT_WRITE, 0, d.len, 0), 0);
	import(newer);
	CHECK_EQ(duo_move(TENT_WRITE, 0, d.len, 0), 0);
}

/* Imports a description that was made before the end of a registration. */
TEST(an_old_description)
{
	duo_open(&(struct duo_attr){.len = 6 * MIB, .buffers = 6, .command = command});
	memset(d.mine, 'A', d.len);
	duo_ask('u'); /* the first of six */
	import(d.text);
	CHECK_EQ(duo_move(TENT_WRITE, 0, MIB, 0), -EFAULT);
	for (size_t i = 1; i < 6; i++)
		CHECK_EQ(duo_move(TENT_WRITE, i * MIB, MIB, 0), 0);
	test_filled(d.theirs, MIB, 0);
	test_filled(d.theirs + MIB, 5 * MIB, 'A');
	all_are_up();
}

/* A thread in tent_wait() performs moves that wait behind a copy. That copy is held here. */
TEST(who_waits_copies)
{
	struct tent_batch *first, *b;
	char rails[16];

	if (!duo_shm_rails())
		return; /* rails of the other kinds have no threads */
	snprintf(rails, sizeof(rails), "%s", getenv("TENT_RAILS"));
	CHECK_EQ(setenv("TENT_RAILS", "shm:1", 1), 0);
	duo_open(&(struct duo_attr){.len = MIB});
	memset(d.mine, 'A', d.len);
	first = start_held();
	b = duo_start(TENT_WRITE, 0, MIB);
	CHECK_EQ(tent_wait(b, 0), -ETIMEDOUT);
	CHECK_EQ(duo_end(b), 0);
	test_filled(d.theirs, MIB, 'A');
	CHECK_EQ(duo_status(first).state, TENT_PENDING);
	CHECK_EQ(sem_post(&held->go), 0);
	CHECK_EQ(duo_end(first), 0);
	all_are_up();
	test_now(duo_close);
	CHECK_EQ(setenv("TENT_RAILS", rails, 1), 0);
}

static bool copies(void)
{
	return duo_shm_rails() || duo_rails("tcp:");
}

/* tent_unregister() waits for a copy that has begun; after that the memory does not change. */
TEST(a_copy_is_waited_for)
{
	struct tent_batch *b;
	int err;

	if (!copies())
		return; /* a test cannot hold an adapter */
	duo_open(&(struct duo_attr){.len = HELD, .command = command});
	memset(d.mine, 'A', d.len);
	b = start_held();
	duo_ask('b');
	for (int i = 0; i < 2000; i++)
		CHECK_EQ(duo_ask('o'), 0);
	CHECK_EQ(sem_post(&held->go), 0);
	CHECK_EQ(duo_ask('j'), 0);
	err = duo_end(b);
	CHECK(err == 0 || err == -EACCES);
	test_filled(d.theirs, d.len, 'P');
}

/* tent_destroy() waits, too: the request fails, and the child ends when the copy has ended. */
TEST(an_engine_ends_after_copies)
{
	struct pollfd child = {.events = POLLIN};
	struct tent_batch *b;
	int err;

	if (!copies())
		return; /* a test cannot hold an adapter */
	duo_open(&(struct duo_attr){.len = HELD});
	child.fd = (int)syscall(SYS_pidfd_open, d.child, 0);
	CHECK(child.fd >= 0);
	CHECK_EQ(sem_init(&joins, 0, 0), 0);
	b = start_held();
	duo_ask('x');
	CHECK_EQ(poll(&child, 1, 100), 0); /* an engine that does not wait ends within 100 ms */
	close(child.fd);
	for (uint32_t i = 0; i < duo_shm_rails(); i++) /* the links of the lost peer */
		CHECK_EQ(sem_wait(&joins), 0);
	CHECK_EQ(sem_post(&held->go), 0);
	CHECK_EQ(test_reap(d.child), 0);
	d.child = 0;
	err = duo_end(b);
	/* The engine that copies for TCP may have replied before it ends. */
	CHECK(err == -ECONNRESET || (!err && !duo_shm_rails()));
}

/* @arg: whether to stop. The test's store pairs with the thread's load. */
static void *traffic_thread(void *arg)
{
	const bool *stop = arg;

	for (int i = 0; !__atomic_load_n(stop, __ATOMIC_ACQUIRE); i++) {
		/* This thread copies the short moves while it submits them. */
		int err = duo_move(TENT_WRITE, 0, i % 8 ? 64 * KIB : d.len, 0);

		CHECK(!err || err == -EACCES || err == -EFAULT);
	}
	return NULL;
}

TEST(traffic_stops)
{
	duo_open(&(struct duo_attr){.len = 8 * MIB, .command = command});
	duo_random(&seed, d.mine, d.len);
	for (int i = 0; i < 20; i++) {
		pthread_t threads[2];
		bool stop = false;

		for (int k = 0; k < 2; k++)
			CHECK_EQ(pthread_create(&threads[k], NULL, traffic_thread, &stop), 0);
		CHECK_EQ(duo_move(TENT_WRITE, 0, 64, 0), 0);
		duo_ask('b');
		CHECK_EQ(duo_ask('j'), 0);
		__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
		for (int k = 0; k < 2; k++)
			CHECK_EQ(pthread_join(threads[k], NULL), 0);
		test_filled(d.theirs, d.len, 'P');
		all_are_up();
		duo_ask('r');
		import(newer);
	}
}

/* Registers memory of the program, of which the second MiB is not mapped any more. */
static uint8_t *torn(void)
{
	uint8_t *m = test_shared(4 * MIB);

	CHECK_EQ(tent_register(d.t, m, 4 * MIB, NULL, NULL), 0);
	CHECK_EQ(munmap(m + MIB, MIB), 0);
	return m;
}

/* Moves bytes of @m, memory of the test. Returns the status. */
static int move_at(uint8_t *m, enum tent_op op, size_t at, size_t len)
{
	struct tent_request r = duo_request(op, at, len);

	r.local = m + at;
	return duo_end(duo_submit(&r, 1));
}

/* Requests that include the second MiB fail, other requests do not, and no rail is excluded. */
static void only_the_second_fails(uint8_t *m)
{
	for (int i = 0; i < 100; i++) {
		CHECK_EQ(move_at(m, TENT_WRITE, MIB + 5, 1000), -EFAULT);
		CHECK_EQ(move_at(m, TENT_WRITE, MIB, MIB), -EFAULT);
		CHECK_EQ(move_at(m, TENT_READ, 512 * KIB, MIB), -EFAULT);
		CHECK_EQ(move_at(m, TENT_WRITE, 0, MIB), 0);
		CHECK_EQ(move_at(m, TENT_READ, 2 * MIB, 2 * MIB), 0);
	}
	all_are_up();
}

TEST(memory_that_was_unmapped)
{
	uint8_t *m;

	if (!copies())
		return; /* an adapter pins the memory */
	duo_open(&(struct duo_attr){.len = 4 * MIB});
	memset(d.theirs, 'A', d.len);
	m = torn();
	memset(m, 'B', MIB);
	only_the_second_fails(m);
	test_filled(d.theirs, 512 * KIB, 'B');
	test_filled(m + 2 * MIB, 2 * MIB, 'A');
	test_now(duo_close);
	munmap(m, 4 * MIB);
}

TEST(memory_that_the_peer_has_unmapped)
{
	if (!copies())
		return; /* an adapter pins the memory */
	duo_open(&(struct duo_attr){.len = 4 * MIB, .command = command});
	duo_ask('m');
	only_the_second_fails(d.mine);
}

/* ---- simulated peers ---- */

/* True: the engine describes this registration to a peer. */
static bool tells(struct ctl *c, uint32_t id)
{
	AT_END(end_free) char *text = host_memory(c, 0);
	char field[40];

	snprintf(field, sizeof(field), "\"id\":%u,", id);
	return strstr(text, field);
}

/* tent_unregister() sends a message to each peer, and waits for the confirmation of each. */
TEST(each_peer_confirms)
{
	struct ctl_msg m = {.type = CTL_UNREGISTERED};
	GUEST a, b;
	struct ctl c;
	uint32_t id;

	host_begin();
	id = desc.buffers[0]->id;
	a = host_guest();
	b = host_guest();
	c = host_guest();
	CHECK(tells(&a, id));
	begin_end(host, memory, HOST_LEN);
	host_is_told(&a, id);
	host_is_told(&b, id);
	host_is_told(&c, id);
	CHECK(!tells(&a, id));
	m.rail = id + 1;
	host_send(&b, m);
	m.rail = id;
	for (int i = 0; i < 3; i++)
		host_send(&a, m);
	CHECK(!tells(&a, id)); /* the engine has handled all messages of a */
	CHECK(!tells(&b, id));
	ctl_close(&c); /* a peer that disconnects need not confirm */
	for (int i = 0; i < 2; i++)
		CHECK(!tells(&a, id)); /* the engine has noticed now that c is gone */
	end_waits(); /* b has not confirmed the end of registration @id */
	host_send(&b, m);
	CHECK_EQ(await_end(), 0);
}

/* The engine's thread does not spin while the program takes no notices. */
TEST(notices_that_wait_cause_no_events)
{
	duo_open(&(struct duo_attr){.len = 4096, .command = command});
	duo_ask('f');
	CHECK_EQ(duo_move(TENT_WRITE, 0, 1, 7), 0);
	CHECK_EQ(duo_ask('q'), 1);
	duo_ask('d');
	CHECK_EQ(duo_ask('n'), 7);
}

/* Confirmations are handled although the program takes no notices. */
TEST(notices_do_not_hide_them)
{
	struct ctl_msg m = {.type = CTL_NOTICE};
	GUEST a = {.fd = -1};
	uint32_t n = 0;

	if (!duo_shm_rails())
		return; /* other rails carry the marks of notices (notice.h) */
	host_begin();
	a = host_guest();
	for (; n < 4096 + 100; n++) {
		m.mark = (struct notice_mark){.lap = n / NOTICE_SLOTS + 1,
			.value = 1,
			.slot = n % NOTICE_SLOTS,
			.positions = 1};
		host_send(&a, m);
		if (n < 4096)
			host_await(&a, CTL_TAKEN);
	}
	begin_end(host, memory, HOST_LEN);
	host_is_told(&a, desc.buffers[0]->id);
	host_send(&a, (struct ctl_msg){.type = CTL_UNREGISTERED, .rail = desc.buffers[0]->id});
	CHECK_EQ(await_end(), 0);
}

static void *destroy_thread(void *arg)
{
	tent_destroy(host);
	end_over();
	return NULL;
}

/* The engine disconnects the peer, and waits until the peer has closed its end. */
TEST(destroy_waits_for_copies)
{
	pthread_t thread;
	struct ctl a;

	if (!duo_shm_rails())
		return; /* other rails need no help of the peer to end its accesses */
	host_begin();
	a = host_guest();
	end.over = false;
	CHECK_EQ(pthread_create(&thread, NULL, destroy_thread, NULL), 0);
	host_disconnects(&a);
	end_waits();
	ctl_close(&a);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	host = NULL;
}

/* The engine does not wait for a peer whose greeting it reads later. */
TEST(destroy_welcomes_nobody)
{
	pthread_t thread;
	struct ctl a, b;

	if (!duo_shm_rails())
		return; /* other rails need no help of the peer to end its accesses */
	host_begin();
	a = host_guest();
	b = host_call();
	while (host_connections() < 2)
		sched_yield();
	CHECK_EQ(pthread_create(&thread, NULL, destroy_thread, NULL), 0);
	host_disconnects(&a);
	CHECK_EQ(host_exchange(&b, host_hello(1), CTL_WELCOME).status, EACCES);
	ctl_close(&a);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	ctl_close(&b);
	host = NULL;
}

/* The engine does not wait until a program takes the notices of peers that have gone. */
TEST(destroy_drops_notices)
{
	struct ctl_msg m = {.type = CTL_NOTICE, .mark = {.lap = 1, .value = 1, .positions = 1}};
	struct ctl a;
	bool kept = false;

	if (!duo_shm_rails())
		return; /* other rails carry the marks of notices (notice.h) */
	host_begin();
	a = host_guest();
	pthread_mutex_lock(&host->lock);
	host->notice_tail = host->notice_head + NOTICE_RING; /* as if it were full */
	pthread_mutex_unlock(&host->lock);
	host_send(&a, m);
	ctl_end(&a);
	host_disconnects(&a);
	ctl_close(&a);
	while (!kept) {
		pthread_mutex_lock(&host->lock);
		kept = host->departed;
		pthread_mutex_unlock(&host->lock);
		sched_yield();
	}
}

/* The ring then has @n notices. Those that are added mean nothing. */
static void set_ring(uint32_t n)
{
	pthread_mutex_lock(&host->lock);
	host->notice_head = host->notice_tail - n;
	pthread_mutex_unlock(&host->lock);
}

static void notify(struct ctl *c, uint16_t value)
{
	host_send(c, (struct ctl_msg){.type = CTL_NOTICE,
			     .mark = {.lap = 1, .value = value, .positions = 1}});
}

/* The notices of peers that have gone do not keep those of others waiting. */
TEST(who_stays_notifies_first)
{
	GUEST a = {.fd = -1};

	if (!duo_shm_rails())
		return; /* other rails carry the marks of notices (notice.h) */
	host_begin();
	a = host_guest();
	set_ring(NOTICE_RING);
	for (uint16_t i = 1; i <= 2; i++) {
		struct ctl gone = host_guest();

		notify(&gone, i);
		ctl_end(&gone);
		host_disconnects(&gone);
		ctl_close(&gone);
	}
	notify(&a, 9);
	host_exchange(&a, (struct ctl_msg){.type = CTL_FENCE}, CTL_FENCED);
	CHECK_EQ(host_connections(), 3);
	set_ring(NOTICES - 2);
	host_await(&a, CTL_TAKEN);
	CHECK_EQ(host_connections(), 2); /* one more notice had room */
	set_ring(2);
	CHECK_EQ(duo_take_notice(host), 9);
	CHECK_EQ(duo_take_notice(host), 1);
	CHECK_EQ(duo_take_notice(host), 2);
}

/* Over shared memory a silent peer is disconnected; other rails refuse its later requests. */
TEST(a_silent_peer)
{
	bool shm = duo_shm_rails();
	uint64_t begin;
	GUEST a;

	host_begin();
	a = host_guest();
	begin = clock_ns();
	__atomic_store_n(&jump.hurry, true, __ATOMIC_RELEASE);
	begin_end(host, memory, HOST_LEN);
	host_is_told(&a, desc.buffers[0]->id);
	CHECK_EQ(await_end(), shm ? -ETIMEDOUT : 0);
	CHECK(clock_ns() - begin >= PEER_MS * NSEC_PER_MSEC);
	if (shm) {
		CHECK_EQ(__atomic_load_n(&jump.longest, __ATOMIC_ACQUIRE), PEER_MS * NSEC_PER_MSEC);
		host_disconnects(&a);
	}
	CHECK_EQ(tent_unregister(host, memory), -ENOENT);
	test_now(host_close); /* it does not wait for the silent peer for ever */
	__atomic_store_n(&jump.hurry, false, __ATOMIC_RELEASE);
}

/* Lets the clock jump over the time that peers have. */
static void jump_over_patience(bool wake)
{
	pthread_mutex_lock(&host->lock); /* no thread is between reading the clock and its sleep */
	jump_over(PEER_MS * NSEC_PER_MSEC);
	if (wake)
		pthread_cond_broadcast(&host->ended);
	pthread_mutex_unlock(&host->lock);
}

/*
 * The time of a peer that was disconnected ends while tent_unregister() waits for it again, or
 * @before that call.
 */
static void give_up(bool before)
{
	struct ctl_msg m = {.type = CTL_UNREGISTERED}, fence = {.type = CTL_FENCE};
	uint8_t *more = test_shared(HOST_LEN), *later = test_shared(HOST_LEN);
	GUEST a = {.fd = -1}, b = {.fd = -1};

	if (!duo_shm_rails())
		return; /* the others are not disconnected */
	host_begin();
	CHECK_EQ(tent_register(host, more, HOST_LEN, NULL, NULL), 0);
	a = host_guest();
	b = host_guest();
	for (m.rail = 1; m.rail <= 2; m.rail++) {
		begin_end(host, m.rail == 1 ? memory : more, HOST_LEN);
		host_is_told(&b, m.rail);
		if (m.rail == 2 && !before)
			jump_over_patience(false);
		host_send(&b, m);
		host_exchange(&b, fence, CTL_FENCED);
		if (m.rail == 1)
			jump_over_patience(true);
		CHECK_EQ(await_end(), -ETIMEDOUT);
		if (m.rail == 1 && before) {
			CHECK_EQ(tent_register(host, later, HOST_LEN, NULL, NULL), 0);
			host_await(&b, CTL_GREW);
			jump_over_patience(false);
			host_exchange(&b, fence, CTL_FENCED);
			CHECK_EQ(host_connections(), 1);
		}
	}
	if (before) { /* the peer did not know this memory */
		begin_end(host, later, HOST_LEN);
		host_is_told(&b, m.rail);
		host_send(&b, m);
		CHECK_EQ(await_end(), 0);
	}
	munmap(more, HOST_LEN);
	munmap(later, HOST_LEN);
}

TEST(a_silent_peer_is_given_up)
{
	give_up(false);
}

TEST(a_silent_peer_was_given_up)
{
	give_up(true);
}

/* A peer that is disconnected may not know it yet, and its request ends without an error. */
TEST(who_is_cut_notifies)
{
	struct ctl_msg m = {.mark = {.lap = 1, .positions = 1}};
	uint16_t value = 0;
	GUEST a = {.fd = -1};

	if (!duo_shm_rails())
		return; /* the others are not disconnected */
	host_begin();
	a = host_guest();
	__atomic_store_n(&jump.hurry, true, __ATOMIC_RELEASE);
	begin_end(host, memory, HOST_LEN);
	CHECK_EQ(await_end(), -ETIMEDOUT);
	__atomic_store_n(&jump.hurry, false, __ATOMIC_RELEASE);
	host_is_told(&a, desc.buffers[0]->id);
	host_disconnects(&a);
	pthread_mutex_lock(&host->lock);
	host->conns->until = UINT64_MAX; /* the end of the connection would give the notice, too */
	pthread_mutex_unlock(&host->lock);
	m.type = CTL_SKIP;
	host_send(&a, m);
	m.type = CTL_NOTICE;
	m.mark.slot = 1;
	m.mark.value = 9;
	host_send(&a, m);
	while (tent_notice(host, &value) == -EAGAIN)
		sched_yield();
	CHECK_EQ(value, 9);
	CHECK_EQ(host_connections(), 1);
}

/* A peer that violates the protocol is disconnected, and the engine waits for it too. */
TEST(who_is_sent_away_may_copy)
{
	struct ctl a;

	if (!duo_shm_rails())
		return; /* other rails need no help of the peer to end its accesses */
	host_begin();
	a = host_guest();
	host_send(&a, (struct ctl_msg){.type = 99});
	host_disconnects(&a);
	begin_end(host, memory, HOST_LEN);
	end_waits();
	ctl_close(&a);
	CHECK_EQ(await_end(), 0);
}

int main(int argc, char **argv)
{
	seed = test_seed();
	newer = test_shared(TEXT_MAX);
	held = test_shared(sizeof(*held));
	return test_main(argc, argv);
}
