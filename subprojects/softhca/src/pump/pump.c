/* SPDX-License-Identifier: MIT */
#include "pump/pump.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "cm/remote.h"
#include "fabric/fabric.h"
#include "fabric/lockfile.h"
#include "fabric/rest.h"
#include "hca/timer.h"
#include "packet/frame.h"
#include "packet/packet.h"
#include "sys/fds.h"
#include "sys/sys.h"
#include "sys/thread.h"
#include "xport/udp.h"
#include "xport/wired.h"

#define PUMP_BYTE (1 + MAX_PROCS)
#define BATCH 32
#define PACKET_MAX (PACKET_HEADERS_MAX + PACKET_PAYLOAD_MAX + ICRC_BYTES)
#define RECEIVE_BUFFER (4 << 20)
#define SLICE_NS 100000u /* the shortest slice that Linux grants */
#define SOCKETS (SOFTHCA_RAILS_MAX * SOFTHCA_GIDS_MAX)
#define TURN 8 /* batches from one socket before the other sockets and the timers are served */
#define PATIENT_TRIES 100 /* attempts to bind a port that a dead process may keep for a moment */

static struct thread_once thread = THREAD_ONCE;
static bool leaving; /* pump_stop() was called */

/* A packet of a batch. */
struct arrived {
	struct flow flow;
	struct packet packet;
	int head; /* bytes of its headers; 0: the packet is dropped */
	struct qp *qp; /* the QP that has executed it */
};

/* The sockets: one for each address of an adapter with udp=on. */
struct pump {
	struct pollfd fds[SOCKETS]; /* fd -1: not open yet */
	const uint8_t *gids[SOCKETS];
	uint32_t rails[SOCKETS];
	uint32_t tries[SOCKETS];
	nfds_t n;
	bool holds; /* this process holds the lock, and the sockets may be open */
	struct mmsghdr msgs[BATCH];
	struct iovec iov[BATCH];
	union udp_address from[BATCH];
	uint8_t control[BATCH][UDP_CONTROL_BYTES] __attribute__((aligned(8)));
	uint8_t bytes[BATCH][PACKET_MAX];
	struct arrived arrived[BATCH];
};

static struct pump pump;

static int listen_on(uint32_t rail, const uint8_t *gid)
{
	int fd = udp_socket(rail, gid, ROCE_PORT), size = RECEIVE_BUFFER;

	/*
	 * SO_RCVBUFFORCE needs a privilege. Without it, the buffer has at most the system's limit.
	 */
	if (fd >= 0 && SYS(SYS_setsockopt, fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)))
		SYS(SYS_setsockopt, fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	return fd;
}

static void list_addresses(void)
{
	const struct softhca_topology *t = &arena()->topo;

	pump.n = 0;
	for (uint32_t i = 0; i < t->nrails; i++)
		for (uint32_t k = 0; k < t->rails[i].ngids && t->rails[i].udp; k++) {
			pump.gids[pump.n] = t->rails[i].gids[k];
			pump.rails[pump.n] = i;
			pump.tries[pump.n] = 0;
			pump.fds[pump.n++] = (struct pollfd){.fd = -1, .events = POLLIN};
		}
}

static void tell(nfds_t i, int error)
{
	const uint8_t *gid = pump.gids[i];
	bool v4 = gid_is_ipv4(gid);
	char address[INET6_ADDRSTRLEN];

	inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? gid + GID_IPV4 : gid, address, sizeof(address));
	fprintf(stderr, "softhca: %s: UDP port %d of %s: %s: no packets are received there\n",
		arena()->topo.rails[pump.rails[i]].name, ROCE_PORT, address,
		strerrordesc_np(error));
}

/*
 * Opens the sockets that are not open yet, because an address may appear later. Returns true if all
 * are open.
 */
static bool open_sockets(void)
{
	bool all = true;

	for (nfds_t i = 0; i < pump.n; i++) {
		int fd;

		if (pump.fds[i].fd >= 0)
			continue;
		fd = listen_on(pump.rails[i], pump.gids[i]);
		if (fd >= 0) {
			pump.fds[i].fd = fd;
			fds_own(&pump.fds[i].fd);
			all &= pump.fds[i].fd >= 0;
			continue;
		}
		all = false;
		if (pump.tries[i]++ == (fd == -EADDRINUSE ? PATIENT_TRIES : 0))
			tell(i, -fd);
	}
	return all;
}

/*
 * Returns true if the program has closed a socket by a system call of its own. open_sockets() opens
 * it again.
 */
static bool lose_closed(void)
{
	bool any = false;

	for (nfds_t i = 0; i < pump.n; i++) {
		struct pollfd *p = &pump.fds[i];

		if (!(p->revents & POLLNVAL) || sys_fcntl(p->fd, F_GETFD, NULL) >= 0)
			continue; /* fds_move() may have changed the number meanwhile */
		fds_lose(&p->fd);
		any = true;
	}
	return any;
}

static void close_sockets(void)
{
	for (nfds_t i = 0; i < pump.n; i++)
		fds_disown(&pump.fds[i].fd);
	pump.n = 0;
}

static void count(uint64_t *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/*
 * Checks packet @i of the batch, which has arrived at socket @s. Does not need the mutex. Returns
 * true if the packet must be executed.
 */
static bool look(nfds_t s, uint32_t i)
{
	struct port_counts *counts = &arena()->rails[pump.rails[s]].counts;
	struct arrived *a = &pump.arrived[i];
	size_t len = pump.msgs[i].msg_len;

	a->flow = udp_flow(&pump.msgs[i].msg_hdr, pump.gids[s]);
	if (!(pump.msgs[i].msg_hdr.msg_flags & MSG_TRUNC)) {
		if (frame_check(&a->flow, pump.bytes[i], len))
			a->head = packet_decode(pump.bytes[i], len - ICRC_BYTES, &a->packet);
		else
			count(&counts->bad_icrcs);
	}
	if (a->head > 0 && a->packet.payload <= PACKET_PAYLOAD_MAX)
		return true;
	a->head = 0;
	count(&counts->bad_packets);
	return false;
}

/*
 * Executes the first @n packets for socket @s, and acknowledges them before the mutex is released,
 * because a program may end as soon as it has seen its last completion. Returns the time of the
 * earliest timer, or 0.
 */
static uint64_t execute(nfds_t s, uint32_t n)
{
	uint64_t next, t;

	if (fabric_lock_by_naps())
		return 0; /* the packets are lost */
	next = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct arrived *a = &pump.arrived[i];
		bool taken;

		if (a->head <= 0)
			continue;
		if (a->packet.dest_qpn == MAD_QPN) {
			taken = remote_packet(&a->flow, &a->packet, pump.bytes[i] + a->head);
		} else {
			a->qp = wired_packet(&a->flow, &a->packet, pump.bytes[i] + a->head);
			taken = a->qp != NULL;
		}
		if (!taken)
			count(&arena()->rails[pump.rails[s]].counts.bad_packets);
	}
	for (uint32_t i = 0; i < n; i++) {
		t = pump.arrived[i].qp ? wired_acknowledge(pump.arrived[i].qp) : 0;
		if (t && (!next || t < next))
			next = t;
	}
	fabric_unlock();
	return next;
}

/*
 * Receives one batch of socket @s. Returns true if there may be more packets. Lowers *next if a
 * timer of the batch's QPs expires earlier.
 */
static bool receive(nfds_t s, uint64_t *next)
{
	bool any = false;
	uint64_t t;
	long n;

	for (uint32_t i = 0; i < BATCH; i++) {
		pump.iov[i] = (struct iovec){pump.bytes[i], PACKET_MAX};
		pump.msgs[i] = (struct mmsghdr){.msg_hdr = {.msg_name = &pump.from[i],
							.msg_namelen = sizeof(pump.from[i]),
							.msg_iov = &pump.iov[i],
							.msg_iovlen = 1,
							.msg_control = pump.control[i],
							.msg_controllen = UDP_CONTROL_BYTES}};
		pump.arrived[i] = (struct arrived){0};
	}
	n = SYS(SYS_recvmmsg, pump.fds[s].fd, pump.msgs, BATCH, MSG_DONTWAIT, NULL);
	for (long i = 0; i < n; i++)
		any |= look(s, (uint32_t)i);
	t = any ? execute(s, (uint32_t)n) : 0;
	if (t && t < *next)
		*next = t;
	return n == BATCH;
}

static void wait_for_packets(uint64_t next)
{
	uint64_t now = timer_now();
	struct timespec ts = {.tv_nsec = next > now ? (long)(next - now) : 0};

	SYS(SYS_ppoll, pump.fds, pump.n, &ts, NULL, 0);
}

static uint64_t tick(uint64_t now)
{
	uint64_t next;

	if (fabric_lock_by_naps())
		return now;
	next = wired_tick(now);
	fabric_unlock();
	return next;
}

/*
 * Takes the lock that makes this process the one that receives packets. @cmd: F_OFD_SETLKW waits
 * for the lock, F_OFD_SETLK does not. Returns 0 or -errno.
 */
static int take_over(int cmd)
{
	int r = fabric_byte_lock(fabric_self.lock_fd, cmd, F_WRLCK, PUMP_BYTE, 1);

	if (r)
		return r;
	list_addresses();
	__atomic_store_n(&pump.holds, true, __ATOMIC_SEQ_CST); /* see pump_stop() */
	return 0;
}

/* This is struct sched_attr of linux/sched/types.h, which cannot be included beside sched.h. */
struct slice {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

/*
 * A program that polls occupies its core. With a short time slice, which Linux supports from 6.12
 * on, a thread that wakes up for a packet gets the core immediately, not at the end of the
 * program's slice.
 */
static void ask_for_short_slices(void)
{
	struct slice s = {.size = sizeof(s)};

	SYS(SYS_prctl, PR_SET_TIMERSLACK, 1, 0, 0, 0);
	if (SYS(SYS_sched_getattr, 0, &s, sizeof(s), 0))
		return;
	s.runtime = SLICE_NS;
	SYS(SYS_sched_setattr, 0, &s, 0);
}

static void *work(void *arg)
{
	uint64_t next = 0, seen;
	bool open = false;

	ask_for_short_slices();
	if (!pump.holds && take_over(F_OFD_SETLKW))
		return NULL; /* the process has left the fabric */
	while (!__atomic_load_n(&leaving, __ATOMIC_SEQ_CST)) { /* see pump_stop() */
		open = open || open_sockets();
		/*
		 * Packets that have arrived by this time (of each socket, at most TURN batches)
		 * are received before the timers that are due by this time are served.
		 */
		seen = timer_now();
		wait_for_packets(next);
		open = !lose_closed() && open;
		for (nfds_t i = 0; i < pump.n; i++)
			for (int k = 0; k < TURN && (pump.fds[i].revents & POLLIN); k++)
				if (!receive(i, &next))
					break;
		if (seen >= next)
			next = tick(seen);
	}
	close_sockets();
	__atomic_store_n(&pump.holds, false, __ATOMIC_RELEASE); /* see pump_stop() */
	return NULL;
}

static void release_lock(void)
{
	fabric_byte_lock(fabric_self.lock_fd, F_OFD_SETLK, F_UNLCK, PUMP_BYTE, 1);
}

/* Undoes take_over(), because there is no thread that receives packets. */
static void hand_back(void)
{
	close_sockets();
	__atomic_store_n(&pump.holds, false, __ATOMIC_RELEASE); /* see pump_stop() */
	release_lock();
}

static int start(void)
{
	int r;

	if (!take_over(F_OFD_SETLK))
		open_sockets();
	r = thread_start(work, NULL);
	if (r && pump.holds)
		hand_back();
	return r;
}

int pump_start(void)
{
	return thread_start_once(&thread, start);
}

/*
 * If the thread takes the lock at the same time, either the thread sees `leaving` and opens no
 * socket, or this function sees `pump.holds`: both threads store first and load afterwards.
 */
void pump_stop(void)
{
	__atomic_store_n(&leaving, true, __ATOMIC_SEQ_CST); /* read by work() */
	if (!__atomic_load_n(&pump.holds, __ATOMIC_SEQ_CST)) /* written by take_over() */
		return;
	/*
	 * Pairs with the release at the end of work(). The thread gets there soon, because the time
	 * that wired_tick() returns limits its wait for packets.
	 */
	for (uint32_t n = 0; __atomic_load_n(&pump.holds, __ATOMIC_ACQUIRE); n++)
		rest(n, REST_SPINS);
	release_lock();
}

void pump_forget(void)
{
	close_sockets();
	pump.holds = false;
	thread_forget(&thread);
	wired_forget();
}
