/* SPDX-License-Identifier: MIT */
#include "sysfs/sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>

#include "../tmpdir.h"
#include "topo/topo.h"

static char root[128];
static struct softhca_topology t;

static const char topology[] =
	"name=mlx5_0 pci=0001:b1:00.1 numa=0 link=ib rate_mbps=100000 lid=33\n"
	"name=rdma1 link=roce numa=-1 netdev=eth7 gid=fe80::1:2 gid=10.1.2.3\n"
	"link=ib\nlink=ib\nlink=ib\nlink=ib\nlink=ib\nlink=ib\nlink=ib\nlink=ib\nlink=ib\n";

static void attribute_is(const char *path, const char *want)
{
	char full[256], got[256];
	FILE *f;
	size_t n;

	snprintf(full, sizeof(full), "%s/%s", root, path);
	f = fopen(full, "r");
	if (!f) {
		perror(full);
		exit(1);
	}
	n = fread(got, 1, sizeof(got) - 1, f);
	fclose(f);
	got[n] = '\0';
	CHECK(n && got[n - 1] == '\n');
	got[n - 1] = '\0';
	if (strcmp(got, want)) {
		fprintf(stderr, "%s is \"%s\", not \"%s\"\n", path, got, want);
		exit(1);
	}
}

static void resolves_to(const char *path, const char *want)
{
	char full[256], real_root[PATH_MAX], real[PATH_MAX];

	snprintf(full, sizeof(full), "%s/%s", root, path);
	CHECK(realpath(root, real_root));
	CHECK(realpath(full, real));
	CHECK(!strncmp(real, real_root, strlen(real_root)));
	CHECK_STR(real + strlen(real_root) + 1, want);
}

static int entries(void)
{
	DIR *d = opendir(tmpdir);
	int n = 0;

	for (struct dirent *e; (e = readdir(d));)
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

TEST(built_once)
{
	CHECK_EQ(softhca_sysfs_build("/nonexistent/sysfs", &t), -ENOENT);
	CHECK_EQ(softhca_sysfs_build(root, &t), -EEXIST);
	CHECK_EQ(entries(), 1);
}

TEST(shape)
{
	resolves_to("class/infiniband/mlx5_0", "devices/pci0001:b1/0001:b1:00.1/infiniband/mlx5_0");
	resolves_to("class/infiniband/mlx5_0/device", "devices/pci0001:b1/0001:b1:00.1");
	resolves_to("class/infiniband_verbs/uverbs0",
		"devices/pci0001:b1/0001:b1:00.1/infiniband_verbs/uverbs0");
	resolves_to("class/infiniband_verbs/uverbs0/device", "devices/pci0001:b1/0001:b1:00.1");
	attribute_is("class/infiniband_verbs/abi_version", "6");
	attribute_is("class/infiniband_verbs/uverbs0/ibdev", "mlx5_0");
	attribute_is("class/infiniband_verbs/uverbs0/dev", "231:192");
	attribute_is("class/infiniband_verbs/uverbs10/ibdev", "mlx5_10");
	attribute_is("class/infiniband_verbs/uverbs10/dev", "231:202");
	attribute_is("class/infiniband_verbs/uverbs10/abi_version", "1");
}

TEST(pci_device)
{
	attribute_is("class/infiniband/mlx5_0/device/vendor", "0x15b3");
	attribute_is("class/infiniband/mlx5_0/device/device", "0x101b");
	attribute_is("class/infiniband/mlx5_0/device/numa_node", "0");
	attribute_is("class/infiniband/mlx5_0/device/modalias",
		"pci:v000015B3d0000101Bsv000015B3sd00000000bc02sc07i00");
	attribute_is("class/infiniband/rdma1/device/numa_node", "-1");
	attribute_is("class/infiniband/rdma1/device/class", "0x020000");
}

TEST(ports)
{
	attribute_is("class/infiniband/mlx5_0/node_type", "1: CA");
	attribute_is("class/infiniband/mlx5_0/node_guid", "025f:48ff:fe00:0000");
	attribute_is("class/infiniband/mlx5_2/node_guid", "025f:48ff:fe00:0002");
	attribute_is("class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand");
	attribute_is("class/infiniband/mlx5_0/ports/1/rate", "100 Gb/sec (4X EDR)");
	attribute_is("class/infiniband/mlx5_0/ports/1/lid", "0x21");
	attribute_is("class/infiniband/mlx5_0/ports/1/gids/0",
		"fe80:0000:0000:0000:025f:48ff:fe00:0000");
	attribute_is("class/infiniband/mlx5_0/ports/1/gid_attrs/types/0", "IB/RoCE v1");
	attribute_is("class/infiniband/mlx5_0/ports/1/pkeys/0", "0xffff");
	attribute_is("class/infiniband/rdma1/ports/1/link_layer", "Ethernet");
	attribute_is("class/infiniband/rdma1/ports/1/lid", "0x0");
	attribute_is("class/infiniband/rdma1/ports/1/gids/1",
		"0000:0000:0000:0000:0000:ffff:0a01:0203");
	attribute_is("class/infiniband/rdma1/ports/1/gid_attrs/types/1", "RoCE v2");
	attribute_is("class/infiniband/rdma1/ports/1/gid_attrs/ndevs/0", "eth7");
}

/* local_cpus and local_cpulist name the same CPUs: all, as the adapter's node is unknown. */
TEST(local_cpus)
{
	cpu_set_t want, got;
	char path[256], mask[512];
	size_t bit = 0;
	FILE *f;

	softhca_numa_cpus(&t, -1, &want);
	CHECK(CPU_COUNT(&want) > 0);
	snprintf(path, sizeof(path), "%s/class/infiniband/rdma1/device/local_cpulist", root);
	CHECK(softhca_read_cpulist(path, &got));
	CHECK(CPU_EQUAL(&want, &got));
	snprintf(path, sizeof(path), "%s/class/infiniband/rdma1/device/local_cpus", root);
	f = fopen(path, "r");
	CHECK(f && fgets(mask, sizeof(mask), f));
	fclose(f);
	CPU_ZERO(&got);
	for (char *p = mask + strcspn(mask, "\n"); p > mask; p--) {
		if (p[-1] == ',')
			continue;
		for (int i = 0; i < 4; i++, bit++)
			if (strtol((char[]){p[-1], 0}, NULL, 16) & 1 << i)
				CPU_SET(bit, &got);
	}
	CHECK(CPU_EQUAL(&want, &got));
}

static void *builder(void *unused)
{
	return (void *)(intptr_t)softhca_sysfs_build(root, &t);
}

/* If several threads build the tree, one succeeds, and no files of the others are left. */
TEST(race)
{
	pthread_t threads[4];
	int won = 0;
	void *rc;

	snprintf(root, sizeof(root), "%s/raced", tmpdir);
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_create(&threads[i], NULL, builder, NULL));
	for (int i = 0; i < 4; i++) {
		CHECK(!pthread_join(threads[i], &rc));
		won += !rc;
		CHECK(!rc || (intptr_t)rc == -EEXIST);
	}
	CHECK_EQ(won, 1);
	CHECK_EQ(entries(), 2);
}

int main(int argc, char **argv)
{
	char err[160];

	tmpdir_make();
	snprintf(root, sizeof(root), "%s/sysfs", tmpdir);
	CHECK_EQ(softhca_topology_parse(topology, "T", &t, err, sizeof(err)), 0);
	CHECK_EQ(t.nrails, 11);
	CHECK_EQ(softhca_sysfs_build(root, &t), 0);
	return test_main(argc, argv);
}
