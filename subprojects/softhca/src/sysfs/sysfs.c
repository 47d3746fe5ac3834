/* SPDX-License-Identifier: MIT */
#include "sysfs/sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/tree.h"
#include "topo/topo.h"

/* A tree under construction. After the first error, all further steps do nothing. */
struct tree {
	int fd;
	int rc;
	char dir[128]; /* prefix of relative paths, "" or ending in '/' */
};

__attribute__((format(printf, 2, 3))) static void tree_chdir(struct tree *b, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(b->dir, sizeof(b->dir), fmt, ap);
	va_end(ap);
	if ((n < 0 || (size_t)n >= sizeof(b->dir)) && !b->rc)
		b->rc = -ENAMETOOLONG;
}

/* Makes all parent directories of path. */
static void make_parents(struct tree *b, char *path)
{
	for (char *p = strchr(path, '/'); p && !b->rc; p = strchr(p + 1, '/')) {
		*p = '\0';
		if (mkdirat(b->fd, path, 0755) && errno != EEXIST)
			b->rc = -errno;
		*p = '/';
	}
}

static bool full_path(struct tree *b, const char *name, char *path, size_t size)
{
	int n = snprintf(path, size, "%s%s", b->dir, name);

	if (n < 0 || (size_t)n >= size)
		b->rc = -ENAMETOOLONG;
	if (!b->rc)
		make_parents(b, path);
	return !b->rc;
}

/* Writes one attribute: the text and a newline, as the kernel does. */
__attribute__((format(printf, 3, 4))) static void put(struct tree *b, const char *name,
	const char *fmt, ...)
{
	char path[256];
	va_list ap;
	int fd, n;

	if (b->rc || !full_path(b, name, path, sizeof(path)))
		return;
	fd = openat(b->fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0) {
		b->rc = -errno;
		return;
	}
	va_start(ap, fmt);
	n = vdprintf(fd, fmt, ap);
	va_end(ap);
	if (n < 0 || write(fd, "\n", 1) != 1)
		b->rc = errno ? -errno : -EIO;
	close(fd);
}

__attribute__((format(printf, 3, 4))) static void put_link(struct tree *b, const char *name,
	const char *fmt, ...)
{
	char path[256], target[256];
	va_list ap;

	if (b->rc || !full_path(b, name, path, sizeof(path)))
		return;
	va_start(ap, fmt);
	vsnprintf(target, sizeof(target), fmt, ap);
	va_end(ap);
	if (symlinkat(target, b->fd, path))
		b->rc = -errno;
}

static void put_guid(struct tree *b, const char *name, uint64_t guid)
{
	put(b, name, "%04x:%04x:%04x:%04x", (unsigned int)(guid >> 48),
		(unsigned int)(guid >> 32) & 0xffff, (unsigned int)(guid >> 16) & 0xffff,
		(unsigned int)guid & 0xffff);
}

static void put_gid(struct tree *b, const char *name, const uint8_t gid[16])
{
	char text[SOFTHCA_GID_TEXT];

	softhca_gid_write(gid, text);
	put(b, name, "%s", text);
}

static void put_cpumask(struct tree *b, const char *name, const cpu_set_t *cpus)
{
	char text[SOFTHCA_MASK_TEXT];

	put(b, name, "%s", softhca_mask_write(cpus, "", text));
}

static void put_cpulist(struct tree *b, const char *name, const cpu_set_t *cpus)
{
	char text[CPU_SETSIZE * 5 + 1] = "", *p = text;
	size_t last;

	for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu = last + 1) {
		last = cpu;
		if (!CPU_ISSET(cpu, cpus))
			continue;
		while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, cpus))
			last++;
		p += sprintf(p, "%s%zu", p == text ? "" : ",", cpu);
		if (last > cpu)
			p += sprintf(p, "-%zu", last);
	}
	put(b, name, "%s", text);
}

static void pci_path(const struct softhca_rail *r, char *path, size_t size)
{
	snprintf(path, size, "devices/pci%04x:%02x/%04x:%02x:%02x.%x", r->pci.domain, r->pci.bus,
		r->pci.domain, r->pci.bus, r->pci.device, r->pci.function);
}

static void build_pci(struct tree *b, const struct softhca_topology *t,
	const struct softhca_rail *r, const char *pci)
{
	unsigned int subclass = r->link == SOFTHCA_LINK_IB ? 7 : 0;
	cpu_set_t cpus;

	tree_chdir(b, "%s/", pci);
	put(b, "vendor", "0x%04x", SOFTHCA_VENDOR_ID);
	put(b, "device", "0x%04x", SOFTHCA_PART_ID);
	put(b, "subsystem_vendor", "0x%04x", SOFTHCA_VENDOR_ID);
	put(b, "subsystem_device", "0x0000");
	put(b, "revision", "0x00");
	put(b, "class", "0x02%02x00", subclass);
	put(b, "modalias", "pci:v%08Xd%08Xsv%08Xsd%08Xbc02sc%02Xi00", SOFTHCA_VENDOR_ID,
		SOFTHCA_PART_ID, SOFTHCA_VENDOR_ID, 0, subclass);
	put(b, "numa_node", "%d", r->numa);
	softhca_numa_cpus(t, r->numa, &cpus);
	put_cpumask(b, "local_cpus", &cpus);
	put_cpulist(b, "local_cpulist", &cpus);
	put(b, "current_link_speed", "16.0 GT/s PCIe");
	put(b, "current_link_width", "16");
	put(b, "max_link_speed", "16.0 GT/s PCIe");
	put(b, "max_link_width", "16");
}

static void build_port(struct tree *b, const struct softhca_rail *r)
{
	bool ib = r->link == SOFTHCA_LINK_IB;
	const char *generation;
	uint32_t gbps;
	char name[32];

	softhca_rate_speed(r->rate_mbps, &gbps, &generation);
	put(b, "state", r->down ? "1: DOWN" : "4: ACTIVE");
	put(b, "phys_state", r->down ? "3: Disabled" : "5: LinkUp");
	put(b, "rate", "%u Gb/sec (4X %s)", gbps, generation);
	put(b, "link_layer", "%s", ib ? "InfiniBand" : "Ethernet");
	put(b, "lid", "0x%x", r->lid);
	put(b, "lid_mask_count", "0");
	put(b, "sm_lid", "0x%x", ib ? SOFTHCA_SM_LID : 0);
	put(b, "sm_sl", "0");
	put(b, "cap_mask", "0x%08x", SOFTHCA_PORT_CAPS(ib));
	for (uint32_t i = 0; softhca_sysfs_counter(i); i++)
		put(b, softhca_sysfs_counter(i), "0");
	for (uint32_t i = 0; i < r->npkeys; i++) {
		snprintf(name, sizeof(name), "pkeys/%u", i);
		put(b, name, "0x%04x", r->pkeys[i]);
	}
	for (uint32_t i = 0; i < r->ngids; i++) {
		snprintf(name, sizeof(name), "gids/%u", i);
		put_gid(b, name, r->gids[i]);
		snprintf(name, sizeof(name), "gid_attrs/types/%u", i);
		/* The type file of an InfiniBand GID has the same text as RoCE v1. */
		put(b, name, "%s", ib ? "IB/RoCE v1" : "RoCE v2");
		snprintf(name, sizeof(name), "gid_attrs/ndevs/%u", i);
		if (!ib)
			put(b, name, "%s", r->netdev);
	}
}

static void build_ibdev(struct tree *b, const struct softhca_rail *r, const char *pci)
{
	tree_chdir(b, "%s/infiniband/%s/", pci, r->name);
	put_link(b, "device", "../../../%s", strrchr(pci, '/') + 1);
	put(b, "node_type", "1: CA");
	put_guid(b, "node_guid", r->guid);
	put_guid(b, "sys_image_guid", r->guid);
	put(b, "fw_ver", SOFTHCA_FW_VER);
	put(b, "hca_type", "MT4123");
	put(b, "board_id", "SOFT_HCA_0001");
	put(b, "hw_rev", "0");
	put(b, "node_desc", "softhca %s", r->name);
	tree_chdir(b, "%s/infiniband/%s/ports/1/", pci, r->name);
	build_port(b, r);
}

static void build_rail(struct tree *b, const struct softhca_topology *t, uint32_t index)
{
	const struct softhca_rail *r = &t->rails[index];
	char pci[64], uverbs[24];

	snprintf(uverbs, sizeof(uverbs), "uverbs%u", index);
	pci_path(r, pci, sizeof(pci));
	build_pci(b, t, r, pci);
	build_ibdev(b, r, pci);

	tree_chdir(b, "%s/infiniband_verbs/%s/", pci, uverbs);
	put_link(b, "device", "../../../%s", strrchr(pci, '/') + 1);
	put(b, "ibdev", "%s", r->name);
	put(b, "dev", "%d:%u", SOFTHCA_UVERBS_MAJOR, SOFTHCA_UVERBS_MINOR + index);
	put(b, "abi_version", "1");

	tree_chdir(b, "class/infiniband/");
	put_link(b, r->name, "../../%s/infiniband/%s", pci, r->name);
	tree_chdir(b, "class/infiniband_verbs/");
	put_link(b, uverbs, "../../%s/infiniband_verbs/%s", pci, uverbs);
}

static int build_at(const char *root, const struct softhca_topology *t)
{
	struct tree b = {.fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
	char xml[256];

	if (b.fd < 0)
		return -errno;
	put(&b, "class/infiniband_verbs/abi_version", "6");
	put(&b, "class/misc/rdma_cm/abi_version", "%d", SOFTHCA_CM_ABI);
	put(&b, "class/misc/rdma_cm/dev", "%d:%d", SOFTHCA_CM_MAJOR, SOFTHCA_CM_MINOR);
	/* tmpfs lists the newest entry first, and programs should find rail 0 first. */
	for (uint32_t i = t->nrails; i-- > 0;)
		build_rail(&b, t, i);
	close(b.fd);
	if (b.rc)
		return b.rc;
	if ((size_t)snprintf(xml, sizeof(xml), "%s/hwloc.xml", root) >= sizeof(xml))
		return -ENAMETOOLONG;
	return softhca_hwloc_write(xml, t);
}

int softhca_sysfs_build(const char *root, const struct softhca_topology *t)
{
	char aside[224];
	int rc;

	if ((size_t)snprintf(aside, sizeof(aside), "%s.XXXXXX", root) >= sizeof(aside))
		return -ENAMETOOLONG;
	if (!mkdtemp(aside))
		return -errno;
	rc = build_at(aside, t);
	/* rename() fails if the target is a directory with entries, which is then kept. */
	if (!rc && rename(aside, root))
		rc = errno == ENOTEMPTY ? -EEXIST : -errno;
	if (rc) {
		tree_empty(aside, NULL);
		rmdir(aside);
	}
	return rc;
}
