/* SPDX-License-Identifier: MIT */
/*
 * copyrpc-traffic-peer PORT GID CALLS [HOST]: one end of the random traffic of traffic.h between
 * two hosts, first over one endpoint, then over several with the smallest rings. Without HOST it is
 * the server. GID is the index of this end's GID.
 *
 * With the time-out 0 (`patient`) the software HCA repeats lost messages without limit, so all
 * messages must arrive, even if late. The test checks them.
 */
#include "copyrpc_tcp.h"
#include "traffic.h"

#define CONNECT_MS 60000

static int meet(const char *host, uint16_t port)
{
	int fd, listener;

	if (host) {
		CHECK_EQ(copyrpc_tcp_connect(host, port, CONNECT_MS, &fd), 0);
		return fd;
	}
	CHECK_EQ(copyrpc_tcp_listen(NULL, port, &listener), 0);
	CHECK_EQ(copyrpc_tcp_accept(listener, -1, &fd), 0);
	close(listener);
	return fd;
}

int main(int argc, char **argv)
{
	static struct node n;
	const struct copyrpc_path patient = {.set = COPYRPC_SET_TIMEOUT};
	struct copyrpc_ctx_attr attr = {.set = COPYRPC_SET_GID_INDEX, .path = &patient};
	uint32_t calls;
	int fd;

	alarm(600);
	CHECK(argc == 4 || argc == 5);
	attr.gid_index = atoi(argv[2]);
	calls = (uint32_t)atoi(argv[3]);
	fd = meet(argv[4], (uint16_t)atoi(argv[1]));
	node_with_peer(&n, fd, &attr, 1, 20000, calls, test_seed());
	attr.ring_size = 4096;
	node_with_peer(&n, fd, &attr, 4, 500, calls, test_seed());
	printf("all is right\n");
	return 0;
}
