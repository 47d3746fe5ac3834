/* SPDX-License-Identifier: MIT */
/*
 * eventloop NAME...: a copyrpc server, shmipc clients, a timer and signals in one epoll(7).
 * gateway.h describes the gateway and the order of a turn. SIGINT or SIGTERM ends the program,
 * after the last reply.
 *
 *	cc eventloop.c $(pkg-config --cflags --libs copyrpc shmipc) -o eventloop
 */
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

#include "gateway.h"

enum source { HANDLE, TIMER, SIGNAL };

static void watch(int set, int fd, enum source source)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u32 = source};

	check(fd < 0 ? fd : epoll_ctl(set, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0, "epoll");
}

/* Handles an event of the timer or of the signals. gateway_serve() handles those of the handles. */
static void handle(struct gateway *g, enum source source, int timer, int signals)
{
	struct signalfd_siginfo info;
	uint64_t ticks;

	if (source == TIMER && read(timer, &ticks, sizeof(ticks)) > 0)
		gateway_print(g);
	else if (source == SIGNAL && read(signals, &info, sizeof(info)) > 0)
		g->stopping = true;
}

int main(int argc, char **argv)
{
	struct itimerspec second = {{1, 0}, {1, 0}};
	int set = epoll_create1(EPOLL_CLOEXEC), timer, signals, n;
	struct epoll_event ev[LOCALS + 3];
	struct gateway g;
	sigset_t ends;

	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	signals = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
	timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	timerfd_settime(timer, 0, &second, NULL);

	gateway_open(&g, argc, argv);
	watch(set, timer, TIMER);
	watch(set, signals, SIGNAL);
	watch(set, copyrpc_ctx_fd(g.ctx), HANDLE);
	for (uint32_t i = 0; i < g.n_locals; i++)
		watch(set, shmipc_client_fd(g.local[i]), HANDLE);

	for (;;) {
		bool more = gateway_serve(&g);

		if (gateway_is_done(&g))
			break;
		n = epoll_wait(set, ev, LOCALS + 3,
			more || gateway_arm(&g) ? 0 : gateway_timeout(&g));
		for (int i = 0; i < n; i++)
			handle(&g, ev[i].data.u32, timer, signals);
	}
	close(set);
	close(timer);
	close(signals);
	return gateway_close(&g);
}
