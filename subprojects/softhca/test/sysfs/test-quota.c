/* SPDX-License-Identifier: MIT */
/* The quota of a cgroup, as both versions of the interface show it. */
#include "sys/quota.h"

#include <errno.h>
#include <sys/stat.h>

#include "../tmpdir.h"

/* Writes a file below the directory of the test, with the directories that it needs. */
static void put(const char *name, const char *text)
{
	char path[256];
	FILE *f;

	tmpdir_make();
	snprintf(path, sizeof(path), "%s/%s", tmpdir, name);
	for (char *p = path + strlen(tmpdir) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		CHECK(!mkdir(path, 0700) || errno == EEXIST);
		*p = '/';
	}
	f = fopen(path, "we");
	CHECK(f && fputs(text, f) >= 0 && !fclose(f));
}

static uint32_t of(const char *cgroups)
{
	char path[256];

	put("cgroup", cgroups);
	snprintf(path, sizeof(path), "%s/cgroup", tmpdir);
	return quota_read(path, tmpdir);
}

TEST(version_2)
{
	CHECK_EQ(of("0::/\n"), 0);
	put("a/cpu.max", "max 100000\n");
	CHECK_EQ(of("0::/a\n"), 0);
	put("a/b/cpu.max", "150000 100000\n");
	CHECK_EQ(of("0::/a/b\n"), 1500);
	put("a/cpu.max", "50000 200000\n");
	CHECK_EQ(of("0::/a/b\n"), 250); /* the smallest quota among the parents counts */
	put("unified/u/cpu.max", "300000 100000\n");
	CHECK_EQ(of("0::/u\n"), 3000);
}

TEST(version_1)
{
	put("cpu,cpuacct/x/cpu.cfs_quota_us", "-1\n");
	put("cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
	CHECK_EQ(of("3:cpuset:/x\n2:cpu,cpuacct:/x\n"), 0);
	put("cpu,cpuacct/x/cpu.cfs_quota_us", "1\n");
	CHECK_EQ(of("3:cpuset:/x\n2:cpu,cpuacct:/x\n"), 1); /* rounded up: 0 is no limit */
	put("cpu,cpuacct/x/cpu.cfs_quota_us", "400000\n");
	CHECK_EQ(of("3:cpuset:/x\n2:cpu,cpuacct:/x\n"), 4000);
	put("cpuacct/x/cpu.cfs_quota_us", "100\n");
	put("cpuacct/x/cpu.cfs_period_us", "100\n");
	CHECK_EQ(of("3:cpuset:/x\n2:cpuacct:/x\n"), 0);
}

/* A file that cannot be read, or makes no sense, is no limit. */
TEST(damaged)
{
	static const char *const texts[] = {"", "0", "0:", "0:cpu", "0::", "0::a", "\n\n",
		"x:cpu:/y\n"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		CHECK_EQ(of(texts[i]), 0);
	put("d/cpu.max", "100000\n");
	CHECK_EQ(of("0::/d\n"), 0);
	put("d/cpu.max", "100000 0\n");
	CHECK_EQ(of("0::/d\n"), 0);
	put("d/cpu.max", "-5 100\n");
	CHECK_EQ(of("0::/d\n"), 0);
	put("d/cpu.max", "9223372036854775807 1\n");
	CHECK_EQ(of("0::/d\n"), 0);
	CHECK_EQ(quota_read("/nowhere", tmpdir), 0);
}

int main(int argc, char **argv)
{
	return test_main(argc, argv);
}
