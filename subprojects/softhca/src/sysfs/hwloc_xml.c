/* SPDX-License-Identifier: MIT */
/*
 * hwloc's XML: Machine > one Package per NUMA node > NUMANode, Cores, PUs and the rails of that
 * node, each on a host bridge of its own. Caches are omitted, because rails do not depend on them.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "sysfs/sysfs.h"
#include "topo/topo.h"

struct xml {
	FILE *f;
	const struct softhca_topology *t;
	unsigned int gp; /* last gp_index that was used; unique in the file */
	uint32_t nodes;
	unsigned long long node_bytes;
	cpu_set_t machine;
};

/* Writes the attributes that every object with CPUs has, in the order of hwloc's export. */
static void put_object(struct xml *x, const char *type, unsigned int os_index,
	const cpu_set_t *cpus, const cpu_set_t *nodes, const char *more)
{
	char cpu[SOFTHCA_MASK_TEXT], node[SOFTHCA_MASK_TEXT];

	softhca_mask_write(cpus, "0x", cpu);
	softhca_mask_write(nodes, "0x", node);
	fprintf(x->f,
		"<object type=\"%s\" os_index=\"%u\" cpuset=\"%s\" complete_cpuset=\"%s\" "
		"nodeset=\"%s\" complete_nodeset=\"%s\" gp_index=\"%u\"%s>\n",
		type, os_index, cpu, cpu, node, node, ++x->gp, more);
}

static void put_machine(struct xml *x, const cpu_set_t *nodes)
{
	char cpu[SOFTHCA_MASK_TEXT], node[SOFTHCA_MASK_TEXT], more[2 * SOFTHCA_MASK_TEXT + 64];
	struct utsname uts;

	snprintf(more, sizeof(more), " allowed_cpuset=\"%s\" allowed_nodeset=\"%s\"",
		softhca_mask_write(&x->machine, "0x", cpu), softhca_mask_write(nodes, "0x", node));
	put_object(x, "Machine", 0, &x->machine, nodes, more);
	if (!uname(&uts))
		fprintf(x->f, "<info name=\"Architecture\" value=\"%s\"/>\n", uts.machine);
	fprintf(x->f, "<info name=\"Backend\" value=\"softhca\"/>\n");
}

/* Gets the CPUs of @node that share the core of @cpu. */
static void core_of(size_t cpu, const cpu_set_t *node, cpu_set_t *core)
{
	char path[96];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%zu/topology/thread_siblings_list",
		cpu);
	if (!softhca_read_cpulist(path, core))
		CPU_ZERO(core);
	CPU_SET(cpu, core);
	CPU_AND(core, core, node);
}

static void put_cores(struct xml *x, const cpu_set_t *cpus, const cpu_set_t *nodes)
{
	cpu_set_t left = *cpus, core, pu;

	for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &left))
			continue;
		core_of(cpu, &left, &core);
		put_object(x, "Core", (unsigned int)cpu, &core, nodes, "");
		for (size_t i = cpu; i < CPU_SETSIZE; i++) {
			if (!CPU_ISSET(i, &core))
				continue;
			CPU_ZERO(&pu);
			CPU_SET(i, &pu);
			put_object(x, "PU", (unsigned int)i, &pu, nodes, "");
			fprintf(x->f, "</object>\n");
		}
		fprintf(x->f, "</object>\n");
		CPU_XOR(&left, &left, &core);
	}
}

static void put_memory(struct xml *x, uint32_t numa, const cpu_set_t *cpus, const cpu_set_t *nodes)
{
	char bytes[48];

	snprintf(bytes, sizeof(bytes), " local_memory=\"%llu\"", x->node_bytes);
	put_object(x, "NUMANode", numa, cpus, nodes, bytes);
	fprintf(x->f, "<page_type size=\"%ld\" count=\"%llu\"/>\n</object>\n",
		sysconf(_SC_PAGESIZE), x->node_bytes / (unsigned long long)sysconf(_SC_PAGESIZE));
}

static void put_guid(struct xml *x, const char *name, uint64_t guid)
{
	fprintf(x->f, "<info name=\"%s\" value=\"%04x:%04x:%04x:%04x\"/>\n", name,
		(unsigned int)(guid >> 48), (unsigned int)(guid >> 32) & 0xffff,
		(unsigned int)(guid >> 16) & 0xffff, (unsigned int)guid & 0xffff);
}

static void put_gid(struct xml *x, uint32_t index, const uint8_t gid[16])
{
	char text[SOFTHCA_GID_TEXT];

	softhca_gid_write(gid, text);
	fprintf(x->f, "<info name=\"Port1GID%u\" value=\"%s\"/>\n", index, text);
}

static void put_rail(struct xml *x, const struct softhca_rail *r)
{
	const struct softhca_pci_addr *a = &r->pci;

	fprintf(x->f,
		"<object type=\"Bridge\" gp_index=\"%u\" bridge_type=\"0-1\" depth=\"0\" "
		"bridge_pci=\"%04x:[%02x-%02x]\">\n",
		++x->gp, a->domain, a->bus, a->bus);
	fprintf(x->f,
		"<object type=\"PCIDev\" gp_index=\"%u\" pci_busid=\"%04x:%02x:%02x.%01x\" "
		"pci_type=\"%s [%04x:%04x] [%04x:0000] 00\" pci_link_speed=\"31.507692\">\n",
		++x->gp, a->domain, a->bus, a->device, a->function,
		r->link == SOFTHCA_LINK_IB ? "0207" : "0200", SOFTHCA_VENDOR_ID, SOFTHCA_PART_ID,
		SOFTHCA_VENDOR_ID);
	fprintf(x->f, "<object type=\"OSDev\" gp_index=\"%u\" name=\"%s\" osdev_type=\"3\">\n",
		++x->gp, r->name);
	put_guid(x, "NodeGUID", r->guid);
	put_guid(x, "SysImageGUID", r->guid);
	fprintf(x->f, "<info name=\"Port1State\" value=\"4\"/>\n");
	fprintf(x->f, "<info name=\"Port1LID\" value=\"0x%x\"/>\n", r->lid);
	fprintf(x->f, "<info name=\"Port1LMC\" value=\"0\"/>\n");
	for (uint32_t i = 0; i < r->ngids; i++)
		put_gid(x, i, r->gids[i]);
	fprintf(x->f, "</object>\n</object>\n</object>\n");
}

static void put_node(struct xml *x, uint32_t numa)
{
	cpu_set_t cpus, nodes;

	CPU_ZERO(&nodes);
	CPU_SET(numa, &nodes);
	softhca_numa_cpus(x->t, (int)numa, &cpus);
	if (!CPU_COUNT(&cpus)) {
		/*
		 * A node without CPUs (it has only memory, its CPUs must not be used, or there are
		 * more nodes than CPUs) becomes a child of the Machine, without a Package.
		 */
		put_memory(x, numa, &cpus, &nodes);
		return;
	}
	put_object(x, "Package", numa, &cpus, &nodes, "");
	put_memory(x, numa, &cpus, &nodes);
	put_cores(x, &cpus, &nodes);
	for (uint32_t i = 0; i < x->t->nrails; i++)
		if (x->t->rails[i].numa == (int)numa)
			put_rail(x, &x->t->rails[i]);
	fprintf(x->f, "</object>\n");
}

/* Rails whose node is unknown or has no CPU are equally far from every CPU. */
static void put_remote_rails(struct xml *x)
{
	for (uint32_t i = 0; i < x->t->nrails; i++) {
		const struct softhca_rail *r = &x->t->rails[i];
		cpu_set_t cpus;

		CPU_ZERO(&cpus);
		if (r->numa >= 0)
			softhca_numa_cpus(x->t, r->numa, &cpus);
		if (!CPU_COUNT(&cpus))
			put_rail(x, r);
	}
}

int softhca_hwloc_write(const char *path, const struct softhca_topology *t)
{
	struct xml x = {.f = fopen(path, "we"), .t = t, .nodes = softhca_topology_nodes(t)};
	unsigned long long pages = (unsigned long long)sysconf(_SC_PHYS_PAGES);
	cpu_set_t nodes;
	int failed;

	if (!x.f)
		return -errno;
	x.node_bytes = pages / x.nodes * (unsigned long long)sysconf(_SC_PAGESIZE);
	softhca_numa_cpus(t, -1, &x.machine);
	CPU_ZERO(&nodes);
	for (uint32_t i = 0; i < x.nodes; i++)
		CPU_SET(i, &nodes);
	fprintf(x.f, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		     "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">\n");
	put_machine(&x, &nodes);
	for (uint32_t i = 0; i < x.nodes; i++)
		put_node(&x, i);
	put_remote_rails(&x);
	fprintf(x.f, "</object>\n</topology>\n");
	failed = ferror(x.f);
	if (fclose(x.f) || failed)
		return errno ? -errno : -EIO;
	return 0;
}
