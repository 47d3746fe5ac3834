/* SPDX-License-Identifier: MIT */
/*
 * A program that uses the software HCA until it is killed or its standard input ends. It joins the
 * fabric by asking for access to a file of an adapter, prints "ready", and waits.
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
