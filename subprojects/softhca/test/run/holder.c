/* SPDX-License-Identifier: MIT */
/*
 * A program on the software HCA that stays until it is killed or its standard input ends. It joins
 * the fabric by reading the attributes of a device's file, prints "ready", and waits.
 */
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	char c;

	if (access("/sys/class/infiniband/mlx5_0/node_guid", R_OK)) {
		perror("mlx5_0");
		return 1;
	}
	puts("ready");
	fflush(stdout);
	while (read(0, &c, 1) > 0)
		;
	return 0;
}
