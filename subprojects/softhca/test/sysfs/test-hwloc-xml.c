/* SPDX-License-Identifier: MIT */
/* The XML of the emulated machine, read back by hwloc itself. */
#include <hwloc.h>

#include "../tmpdir.h"
#include "sysfs/sysfs.h"
#include "topo/topo.h"

static struct softhca_topology t;

static hwloc_topology_t load(const char *path)
{
	hwloc_topology_t h;

	setenv("HWLOC_XMLFILE", path, 1);
	setenv("HWLOC_THISSYSTEM", "1", 1);
	CHECK(!hwloc_topology_init(&h));
	CHECK(!hwloc_topology_set_io_types_filter(h, HWLOC_TYPE_FILTER_KEEP_ALL));
	CHECK(!hwloc_topology_load(h));
	CHECK(hwloc_topology_is_thissystem(h));
	hwloc_topology_check(h); /* aborts when the tree is not consistent */
	return h;
}

static hwloc_obj_t find_rail(hwloc_topology_t h, const struct softhca_rail *r)
{
	for (hwloc_obj_t o = NULL; (o = hwloc_get_next_osdev(h, o));)
		if (o->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS && !strcmp(o->name, r->name))
			return o;
	fprintf(stderr, "hwloc shows no %s\n", r->name);
	exit(1);
}

static void rail_is(hwloc_topology_t h, const struct softhca_rail *r)
{
	hwloc_obj_t os = find_rail(h, r), pci = os->parent, near;
	cpu_set_t cpus;
	char lid[16];

	CHECK_EQ(pci->type, HWLOC_OBJ_PCI_DEVICE);
	CHECK_EQ(pci->attr->pcidev.domain, r->pci.domain);
	CHECK_EQ(pci->attr->pcidev.bus, r->pci.bus);
	CHECK_EQ(pci->attr->pcidev.dev, r->pci.device);
	CHECK_EQ(pci->attr->pcidev.func, r->pci.function);
	CHECK_EQ(pci->attr->pcidev.vendor_id, SOFTHCA_VENDOR_ID);
	snprintf(lid, sizeof(lid), "0x%x", r->lid);
	CHECK_STR(hwloc_obj_get_info_by_name(os, "Port1LID"), lid);
	near = hwloc_get_non_io_ancestor_obj(h, os);
	CHECK(near);
	CPU_ZERO(&cpus);
	if (r->numa >= 0)
		softhca_numa_cpus(&t, r->numa, &cpus);
	if (!CPU_COUNT(&cpus)) {
		CHECK(near == hwloc_get_root_obj(h));
		return;
	}
	CHECK(hwloc_bitmap_isset(near->nodeset, (unsigned int)r->numa));
	CHECK_EQ(hwloc_bitmap_weight(near->cpuset), CPU_COUNT(&cpus));
	for (unsigned int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		CHECK_EQ(hwloc_bitmap_isset(near->cpuset, cpu), !!CPU_ISSET(cpu, &cpus));
}

/* Every CPU of the machine is in exactly one node. */
static void cpus_are_dealt_out(hwloc_topology_t h, int nodes)
{
	hwloc_bitmap_t seen = hwloc_bitmap_alloc();
	cpu_set_t all, node;

	CHECK_EQ(hwloc_get_nbobjs_by_type(h, HWLOC_OBJ_NUMANODE), nodes);
	softhca_numa_cpus(&t, -1, &all);
	CHECK_EQ(hwloc_get_nbobjs_by_type(h, HWLOC_OBJ_PU), CPU_COUNT(&all));
	for (int i = 0; i < nodes; i++) {
		hwloc_obj_t o = hwloc_get_numanode_obj_by_os_index(h, (unsigned int)i);

		CHECK(o);
		softhca_numa_cpus(&t, i, &node);
		if (!CPU_COUNT(&node)) {
			/*
			 * A node with memory only: hwloc attaches it to the machine, with all CPUs.
			 */
			CHECK(o->parent == hwloc_get_root_obj(h));
			continue;
		}
		CHECK(!hwloc_bitmap_intersects(seen, o->cpuset));
		hwloc_bitmap_or(seen, seen, o->cpuset);
		CHECK_EQ(hwloc_bitmap_weight(o->cpuset), CPU_COUNT(&node));
	}
	CHECK(hwloc_bitmap_isequal(seen, hwloc_get_root_obj(h)->cpuset));
	hwloc_bitmap_free(seen);
}

static void check_topology(const char *text, const char *name)
{
	char err[160], path[128];
	hwloc_topology_t h;

	tmpdir_make();
	CHECK_EQ(softhca_topology_parse(text, name, &t, err, sizeof(err)), 0);
	snprintf(path, sizeof(path), "%s/%s.xml", tmpdir, name);
	CHECK_EQ(softhca_hwloc_write(path, &t), 0);
	h = load(path);
	for (uint32_t i = 0; i < t.nrails; i++)
		rail_is(h, &t.rails[i]);
	cpus_are_dealt_out(h, (int)softhca_topology_nodes(&t));
	hwloc_topology_destroy(h);
}

TEST_WITH(one_node, check_topology, "numa=0\nnuma=0 link=roce\n", "one-node");
TEST_WITH(two_nodes, check_topology, "numa=0\nnuma=0\nnuma=1 pci=0001:b1:1f.7\nnuma=1 link=roce\n",
	"two-nodes");
TEST_WITH(unknown_node, check_topology, "numa=0\nnuma=-1\n", "unknown-node");
TEST_WITH(more_nodes_than_cpus, check_topology, "numa=63\nnuma=0\n", "more-nodes-than-cpus");
