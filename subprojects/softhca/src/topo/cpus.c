/* SPDX-License-Identifier: MIT */
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "topo/topo.h"

bool softhca_read_cpulist(const char *path, cpu_set_t *cpus)
{
	FILE *f = fopen(path, "re");
	unsigned int first, last;
	int next = ',';

	if (!f)
		return false;
	CPU_ZERO(cpus);
	while (next == ',' && fscanf(f, "%u", &first) == 1) {
		last = first;
		next = fgetc(f);
		if (next == '-') {
			if (fscanf(f, "%u", &last) != 1)
				break;
			next = fgetc(f);
		}
		for (unsigned int cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++)
			CPU_SET(cpu, cpus);
	}
	fclose(f);
	return true;
}

/*
 * Gets the online CPUs, in a container only those that the container may use. The affinity of this
 * process does not matter.
 */
static void usable_cpus(cpu_set_t *cpus)
{
	cpu_set_t allowed;

	if (!softhca_read_cpulist("/sys/devices/system/cpu/online", cpus) || !CPU_COUNT(cpus)) {
		CPU_ZERO(cpus);
		for (long cpu = 0; cpu < sysconf(_SC_NPROCESSORS_ONLN) && cpu < CPU_SETSIZE; cpu++)
			CPU_SET((size_t)cpu, cpus);
	}
	if (!softhca_read_cpulist("/sys/fs/cgroup/cpuset.cpus.effective", &allowed))
		return;
	CPU_AND(&allowed, &allowed, cpus);
	if (CPU_COUNT(&allowed))
		*cpus = allowed;
}

static bool machine_node(int numa, cpu_set_t *cpus)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/cpulist", numa);
	return softhca_read_cpulist(path, cpus);
}

static bool machine_has_all(const struct softhca_topology *t)
{
	cpu_set_t cpus;

	for (uint32_t i = 0; i < t->nrails; i++)
		if (t->rails[i].numa >= 0 && !machine_node(t->rails[i].numa, &cpus))
			return false;
	return true;
}

uint32_t softhca_topology_nodes(const struct softhca_topology *t)
{
	int highest = 0;
	cpu_set_t nodes;

	for (uint32_t i = 0; i < t->nrails; i++)
		if (t->rails[i].numa > highest)
			highest = t->rails[i].numa;
	if (machine_has_all(t) && softhca_read_cpulist("/sys/devices/system/node/online", &nodes))
		for (int i = highest + 1; i < SOFTHCA_NUMA_MAX; i++)
			if (CPU_ISSET((size_t)i, &nodes))
				highest = i;
	return (uint32_t)highest + 1;
}

/*
 * Gets part @numa of @all, which is divided into @nodes equal parts. If the division has a
 * remainder, the first parts have one CPU more.
 */
static void deal_out(const cpu_set_t *all, uint32_t nodes, uint32_t numa, cpu_set_t *cpus)
{
	uint32_t count = (uint32_t)CPU_COUNT(all), part = count / nodes, more = count % nodes;
	uint32_t first = numa * part + (numa < more ? numa : more);
	uint32_t end = first + part + (numa < more), nth = 0;

	CPU_ZERO(cpus);
	for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, all))
			continue;
		if (nth >= first && nth < end)
			CPU_SET(cpu, cpus);
		nth++;
	}
}

void softhca_numa_cpus(const struct softhca_topology *t, int numa, cpu_set_t *cpus_p)
{
	cpu_set_t all;

	usable_cpus(&all);
	if (numa < 0)
		*cpus_p = all;
	else if (!machine_has_all(t))
		deal_out(&all, softhca_topology_nodes(t), (uint32_t)numa, cpus_p);
	else if (machine_node(numa, cpus_p))
		CPU_AND(cpus_p, cpus_p, &all);
	else
		CPU_ZERO(cpus_p);
}

const char *softhca_mask_write(const cpu_set_t *cpus, const char *prefix,
	char text[SOFTHCA_MASK_TEXT])
{
	char *p = text;

	for (int word = CPU_SETSIZE / 32 - 1; word >= 0; word--) {
		unsigned int bits = 0;

		for (int bit = 0; bit < 32; bit++)
			if (CPU_ISSET((size_t)(word * 32 + bit), cpus))
				bits |= 1u << bit;
		if (bits || p != text || !word)
			p += sprintf(p, "%s%08x%s", prefix, bits, word ? "," : "");
	}
	return text;
}
