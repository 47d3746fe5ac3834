/* SPDX-License-Identifier: MIT */
#include "topo/topo.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "../tmpdir.h"

static struct softhca_topology t;
static char err[160];

static int parse(const char *text)
{
	memset(&t, 0, sizeof(t));
	err[0] = '\0';
	return softhca_topology_parse(text, "F", &t, err, sizeof(err));
}

TEST(default_rails)
{
	CHECK_EQ(softhca_topology_default(&t, 0), -EINVAL);
	CHECK_EQ(softhca_topology_default(&t, SOFTHCA_RAILS_MAX + 1), -EINVAL);
	CHECK_EQ(softhca_topology_default(&t, SOFTHCA_RAILS_MAX), 0);
	CHECK_EQ(t.nrails, SOFTHCA_RAILS_MAX);
	CHECK_STR(t.rails[0].name, "mlx5_0");
	CHECK_STR(t.rails[15].name, "mlx5_15");
	for (uint32_t i = 0; i < t.nrails; i++) {
		CHECK_EQ(t.rails[i].numa, 0);
		CHECK_EQ(t.rails[i].ngids, 1);
		CHECK_EQ(t.rails[i].gids[0][0], 0xfe);
		CHECK(t.rails[i].lid && t.rails[i].guid);
		for (uint32_t j = 0; j < i; j++) {
			CHECK(memcmp(&t.rails[i].pci, &t.rails[j].pci, sizeof(t.rails[i].pci)));
			CHECK(t.rails[i].lid != t.rails[j].lid);
			CHECK(t.rails[i].guid != t.rails[j].guid);
			CHECK(memcmp(t.rails[i].gids, t.rails[j].gids, 16));
		}
	}
}

TEST(every_key)
{
	const struct softhca_rail *r = t.rails;
	static const uint8_t v4[16] = {[10] = 0xff, 0xff, 10, 1, 2, 3};

	CHECK_EQ(parse("# two rails\n\n"
		       "name=mlx5_7 pci=0001:b1:1f.7 numa=-1 link=ib rate_mbps=100000 "
		       "latency_ns=0 mtu=256 lid=0xbfff gid=fe80::1 gid=fe80::2 "
		       "pkey=0x7fff pkey=0x8001 grh=required atomics=none state=down pauses=90 "
		       "service_ns=1000000000 # end\r\n"
		       "\tlink=roce numa=63 netdev=eth0 gid=10.1.2.3"),
		0);
	CHECK_EQ(t.nrails, 2);
	CHECK_STR(r[0].name, "mlx5_7");
	CHECK_EQ(r[0].pci.domain, 1);
	CHECK_EQ(r[0].pci.bus, 0xb1);
	CHECK_EQ(r[0].pci.device, 31);
	CHECK_EQ(r[0].pci.function, 7);
	CHECK_EQ(r[0].numa, -1);
	CHECK_EQ(r[0].link, SOFTHCA_LINK_IB);
	CHECK_EQ(r[0].rate_mbps, 100000);
	CHECK_EQ(r[0].latency_ns, 0);
	CHECK_EQ(r[0].mtu, 256);
	CHECK_EQ(r[0].lid, 0xbfff);
	CHECK_EQ(r[0].ngids, 2);
	CHECK_EQ(r[0].gids[1][15], 2);
	CHECK_STR(r[0].netdev, "");
	CHECK_EQ(r[0].npkeys, 2);
	CHECK_EQ(r[0].pkeys[0], 0x7fff);
	CHECK_EQ(r[0].pkeys[1], 0x8001);
	CHECK(r[0].grh_required && r[0].no_atomics && r[0].down);
	CHECK_EQ(r[0].pauses, 90);
	CHECK_EQ(r[0].service_ns, 1000000000);
	CHECK_EQ(r[1].service_ns, 0);
	CHECK_EQ(r[1].pauses, 0);
	CHECK_EQ(r[1].npkeys, 1);
	CHECK_EQ(r[1].pkeys[0], 0xffff);
	CHECK(!r[1].grh_required && !r[1].no_atomics && !r[1].down);
	CHECK_STR(r[1].name, "mlx5_1");
	CHECK_EQ(r[1].numa, 63);
	CHECK_EQ(r[1].lid, 0);
	CHECK_STR(r[1].netdev, "eth0");
	CHECK_EQ(r[1].ngids, 1);
	CHECK(!memcmp(r[1].gids[0], v4, 16));
}

TEST(roce_defaults)
{
	CHECK_EQ(parse("link=roce"), 0);
	CHECK_EQ(t.rails[0].ngids, 2);
	CHECK_EQ(t.rails[0].gids[1][10], 0xff);
	CHECK_EQ(t.rails[0].lid, 0);
	CHECK_STR(t.rails[0].netdev, "lo");
}

/* Wrong texts, each with a part of its error message; and right ones, with NULL. */
static const struct {
	const char *text, *says;
} wrong[] = {
	{"", "F:1: no rail"},
	{"# nothing\n", "no rail"},
	{"mlx5_0", "'mlx5_0': give key=value with one of name, pci"},
	{"nmae=x", "'nmae': give key=value"},
	{"name=", "name=: give up to 15"},
	{"name=../x", "name=../x: give"},
	{"name=abcdefghijklmnop", "up to 15"},
	{"name=mlx5_0\nname=mlx5_0", "F:2: name=mlx5_0 is taken by rail 0"},
	{"pci=00:11.0", "a PCI address"},
	{"pci=0000:17:20.0", "a PCI address"},
	{"pci=0000:17:00.8", "a PCI address"},
	{"pci=0000:17:00.0x", "a PCI address"},
	{"pci=-1:17:00.0", "a PCI address"},
	{"pci=0x12:17:00.0", "a PCI address"},
	{"name=a\nname=b pci=0000:11:00.0", "F:2: pci is that of rail 0"},
	{"pci=0000:1c:00.0\nlink=ib", "F:2: pci is that of rail 0"},
	{"numa=64", "0 to 63"},
	{"numa=-2", "0 to 63"},
	{"link=eth", "ib or roce"},
	{"rate_mbps=0", "1 to 10000000"},
	{"rate_mbps=10G", "1 to 10000000"},
	{"rate_mbps=-1", "1 to 10000000"},
	{"latency_ns=1000000001", "0 to 1000000000"},
	{"latency_ns= ", "0 to 1000000000"},
	{"service_ns=1000000001", "0 to 1000000000"},
	{"service_ns=-1", "0 to 1000000000"},
	{"pauses=91", "percent of the time, 0 to 90"},
	{"mtu=1500", "256, 512"},
	{"lid=0", "1 to 49151"},
	{"lid=49152", "1 to 49151"},
	{"lid=17\n\n", NULL},
	{"lid=17\nmtu=1024", "F:2: lid=17 is taken by rail 0"},
	{"link=roce lid=3", "leave it out"},
	{"udp=on", "udp is for link=roce only"},
	{"link=roce udp=yes", "off or on"},
	{"link=roce udp=on", "also give gid=, an address"},
	{"link=roce udp=on gid=2001:db8::1", NULL},
	{"link=ib netdev=eth0", "leave it out"},
	{"gid=10.0.0", "IPv6 or IPv4"},
	{"gid=::1 gid=::2 gid=0::1", "F:1: gid=::1 is given twice"},
	{"gid=::1\ngid=::2 gid=::1", "F:2: gid=::1 is taken by rail 0"},
	{"gid=10.95.1.1\nlink=roce", "F:2: gid=::ffff:10.95.1.1 is taken by rail 0"},
	{"numa=0 numa=1", "numa is given twice"},
};

TEST(wrong_texts)
{
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		int rc = parse(wrong[i].text);

		CHECK_EQ(rc, wrong[i].says ? -EINVAL : 0);
		if (!wrong[i].says)
			continue;
		CHECK_EQ(t.nrails, 0);
		CHECK(!strchr(err, '\n'));
		printf("%s: %s\n", wrong[i].text, err);
		fflush(stdout);
		CHECK(strstr(err, wrong[i].says));
	}
}

TEST(too_many)
{
	char text[SOFTHCA_RAILS_MAX * 8 + 16] = "";

	for (int i = 0; i < SOFTHCA_RAILS_MAX; i++)
		strcat(text, "numa=1\n");
	CHECK_EQ(parse(text), 0);
	CHECK_EQ(t.nrails, SOFTHCA_RAILS_MAX);
	strcat(text, "numa=1\n");
	CHECK_EQ(parse(text), -EINVAL);
	CHECK(strstr(err, "F:17: more than 16 rails"));
	CHECK_EQ(parse("gid=::1 gid=::2 gid=::3 gid=::4 gid=::5 gid=::6 gid=::7 gid=::8"), 0);
	CHECK_EQ(parse("gid=::1 gid=::2 gid=::3 gid=::4 gid=::5 gid=::6 gid=::7 gid=::8 gid=::9"),
		-EINVAL);
}

TEST(environment)
{
	unsetenv("SOFTHCA_TOPOLOGY");
	unsetenv("SOFTHCA_RAILS");
	CHECK_EQ(softhca_topology_from_env(&t, err, sizeof(err)), 0);
	CHECK_EQ(t.nrails, 1);
	setenv("SOFTHCA_RAILS", "4", 1);
	CHECK_EQ(softhca_topology_from_env(&t, err, sizeof(err)), 0);
	CHECK_EQ(t.nrails, 4);
	setenv("SOFTHCA_RAILS", "17", 1);
	CHECK_EQ(softhca_topology_from_env(&t, err, sizeof(err)), -EINVAL);
	CHECK(strstr(err, "1 to 16"));
	tmpdir_topology("mtu=512\nmtu=512\n");
	CHECK_EQ(softhca_topology_from_env(&t, err, sizeof(err)), 0);
	CHECK_EQ(t.nrails, 2);
	CHECK_EQ(t.rails[1].mtu, 512);
	unlink(getenv("SOFTHCA_TOPOLOGY"));
	CHECK_EQ(softhca_topology_from_env(&t, err, sizeof(err)), -ENOENT);
	CHECK(strstr(err, getenv("SOFTHCA_TOPOLOGY")));
	CHECK_EQ(t.nrails, 2);
	unsetenv("SOFTHCA_TOPOLOGY");
	unsetenv("SOFTHCA_RAILS");
}

static void refuses(const char *path)
{
	CHECK_EQ(softhca_topology_load(path, &t, err, sizeof(err)), -EINVAL);
	CHECK(strstr(err, "not a regular file; give a topology file"));
}

/*
 * Files that are not regular are refused without waiting: a directory, a FIFO without a writer, and
 * one with a writer.
 */
TEST(no_regular_file)
{
	char fifo[80];
	int writer;

	tmpdir_make();
	refuses(tmpdir);
	snprintf(fifo, sizeof(fifo), "%s/fifo", tmpdir);
	CHECK(!mkfifo(fifo, 0600));
	alarm(300); /* only against hanging */
	refuses(fifo);
	writer = open(fifo, O_RDWR);
	CHECK(writer >= 0);
	refuses(fifo);
	alarm(0);
	close(writer);
}

TEST(rates)
{
	const char *name;
	uint32_t gbps;

	CHECK_EQ(softhca_rate_speed(1, &gbps, &name), 1);
	CHECK_EQ(gbps, 10);
	CHECK_EQ(softhca_rate_speed(100000, &gbps, &name), 32);
	CHECK_STR(name, "EDR");
	CHECK_EQ(softhca_rate_speed(100001, &gbps, &name), 64);
	CHECK_EQ(softhca_rate_speed(10000000, &gbps, &name), 128);
	CHECK_EQ(gbps, 400);
}
