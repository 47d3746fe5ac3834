/* SPDX-License-Identifier: MIT */
/* Port counters, read from a directory tree that is like the kernel's. */
#include <errno.h>
#include <sys/stat.h>

#include "../../subprojects/softhca/test/tmpdir.h"
#include "support/test.h"
#include "counters.h"

/* Makes a file, and the directories above it. */
static void make_file(const char *name, const char *text)
{
	char path[400];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", tmpdir, name);
	for (char *at = path + strlen(tmpdir) + 1; (at = strchr(at, '/')); *at++ = '/') {
		*at = 0;
		CHECK(!mkdir(path, 0777) || errno == EEXIST);
	}
	f = fopen(path, "we");
	CHECK(f && fputs(text, f) >= 0 && !fclose(f));
}

TEST(reads_both_directories)
{
	static struct counters c;
	int has;

	counters_read(tmpdir, "mlx5_0", 1, &c);
	CHECK_EQ(c.n, 0);
	make_file("mlx5_0/ports/1/counters/port_xmit_data", "18446744073709551615\n");
	make_file("mlx5_0/ports/1/counters/N", "N/A (no PMA)\n");
	make_file("mlx5_0/ports/1/counters/large", "18446744073709551616\n");
	make_file("mlx5_0/ports/1/counters/tail", "12x\n");
	make_file("mlx5_0/ports/1/counters/empty", "");
	make_file("mlx5_0/ports/1/counters/blank", "\n");
	make_file("mlx5_0/ports/1/counters/negative", "-5\n");
	make_file("mlx5_0/ports/1/counters/space", " 5\n");
	make_file("mlx5_0/ports/1/hw_counters/out_of_sequence", "7\n");
	counters_read(tmpdir, "mlx5_0", 1, &c);
	CHECK_EQ(c.n, 2);
	CHECK(counters_get(&c, "port_xmit_data", &has) == UINT64_MAX && has);
	CHECK(counters_get(&c, "out_of_sequence", &has) == 7 && has);
	CHECK(counters_get(&c, "tail", &has) == 0 && !has);
	/* An interface without statistics, and an interface that does not exist. */
	make_file("mlx5_0/ports/1/gid_attrs/ndevs/0", "lo\n");
	counters_read(tmpdir, "mlx5_0", 1, &c);
	CHECK_EQ(c.n, 2);
	make_file("mlx5_0/ports/1/gid_attrs/ndevs/0", "nowhere0\n");
	counters_read(tmpdir, "mlx5_0", 1, &c);
	CHECK_EQ(c.n, 2);
}

int main(int argc, char **argv)
{
	tmpdir_make();
	return test_main(argc, argv);
}
