/* SPDX-License-Identifier: MIT */
/*
 * udp-pingpong poll|sleep BYTES ROUNDS [HOST]: prints the time of a round trip of datagrams without
 * any HCA, in us. Without HOST it answers for ever.
 */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include "check.h"

#define PORT 4790
#define BYTES_MAX 9000

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

int main(int argc, char **argv)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	static uint8_t bytes[BYTES_MAX];
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_DGRAM, 0), flags, rounds;
	double begun = 0;
	size_t size;

	CHECK(argc >= 4 && fd >= 0);
	flags = strcmp(argv[1], "poll") ? 0 : MSG_DONTWAIT;
	size = (size_t)atoi(argv[2]);
	rounds = atoi(argv[3]);
	CHECK(size >= 1 && size <= BYTES_MAX && rounds >= 1);
	if (argc > 4)
		CHECK_EQ(inet_pton(AF_INET, argv[4], &a.sin_addr), 1);
	else
		CHECK(!bind(fd, (struct sockaddr *)&a, sizeof(a)));
	for (int i = 0; argc == 4 || i <= rounds; i++) {
		if (i == 1)
			begun = now_us(); /* the first round also resolves the server's address */
		if (argc > 4)
			CHECK(sendto(fd, bytes, size, 0, (struct sockaddr *)&a, sizeof(a)) > 0);
		while (recvfrom(fd, bytes, sizeof(bytes), flags, (struct sockaddr *)&a, &len) < 0)
			;
		if (argc == 4)
			sendto(fd, bytes, size, 0, (struct sockaddr *)&a, sizeof(a));
	}
	printf("%.1f\n", (now_us() - begun) / rounds);
	return 0;
}
