/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer: a topology file, or a file of fault rules. The input consists of the kind of the file,
 * half the size of the buffer for the error message, and the file. An accepted file is unchanged
 * after it is written and read again. A refused file changes nothing, and its error message is one
 * line that fits the buffer.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fault/fault.h"
#include "topo/topo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool so)
{
	if (!so)
		abort();
}

/* ---- topologies ---- */

static void print_rail(const struct softhca_rail *r, FILE *out)
{
	char gid[INET6_ADDRSTRLEN];

	fprintf(out, "name=%s pci=%04x:%02x:%02x.%x numa=%d rate_mbps=%llu latency_ns=%u mtu=%u",
		r->name, r->pci.domain, r->pci.bus, r->pci.device, r->pci.function, r->numa,
		(unsigned long long)r->rate_mbps, r->latency_ns, r->mtu);
	fprintf(out, " service_ns=%u pauses=%u atomics=%s state=%s", r->service_ns, r->pauses,
		r->no_atomics ? "none" : "hca", r->down ? "down" : "active");
	if (r->link == SOFTHCA_LINK_ROCE)
		fprintf(out, " link=roce netdev=%s udp=%s", r->netdev, r->udp ? "on" : "off");
	else
		fprintf(out, " lid=%u grh=%s", r->lid, r->grh_required ? "required" : "optional");
	for (uint32_t i = 0; i < r->npkeys; i++)
		fprintf(out, " pkey=%u", r->pkeys[i]);
	for (uint32_t i = 0; i < r->ngids; i++)
		fprintf(out, " gid=%s", inet_ntop(AF_INET6, r->gids[i], gid, sizeof(gid)));
	fputc('\n', out);
}

static void check_topology(const struct softhca_topology *t)
{
	static char text[65536];
	FILE *out = fmemopen(text, sizeof(text), "w");
	struct softhca_topology again;
	char err[160];

	must(t->nrails >= 1 && t->nrails <= SOFTHCA_RAILS_MAX);
	for (uint32_t i = 0; i < t->nrails; i++)
		print_rail(&t->rails[i], out);
	fclose(out);
	must(!softhca_topology_parse(text, "again", &again, err, sizeof(err)));
	must(!memcmp(t, &again, sizeof(again)));
	for (uint32_t i = 0; i < t->nrails; i++)
		must(softhca_topology_find(t, t->rails[i].name) == i);
}

static bool read_topology(char *err, size_t room)
{
	struct softhca_topology t, before;
	int rc;

	memset(&before, 0x5a, sizeof(before));
	t = before;
	rc = softhca_topology_from_env(&t, err, room);
	must(rc <= 0 && (!rc || !memcmp(&t, &before, sizeof(t))));
	if (!rc)
		check_topology(&t);
	return !rc;
}

/* ---- rules ---- */

static void check_rules(const struct fault_rule *rules)
{
	struct fault_rule again[FAULT_RULES] = {{0}};
	char text[FAULT_TEXT], err[160];

	for (size_t i = 0; i < FAULT_RULES && rules[i].action; i++) {
		fault_format(&rules[i], text);
		must(strlen(text) < sizeof(text) - 1);
		must(!fault_parse(text, "again", again, err, sizeof(err)));
		again[i].random = rules[i].random; /* fault_format() does not write this state */
	}
	must(!memcmp(rules, again, sizeof(again)));
}

static bool read_rules(char *err, size_t room)
{
	struct fault_rule rules[FAULT_RULES] = {{0}}, none[FAULT_RULES] = {{0}};
	struct softhca_topology t;
	int rc = fault_load_env(rules, err, room);

	must(rc <= 0 && (!rc || !memcmp(rules, none, sizeof(none))));
	if (rc)
		return false;
	check_rules(rules);
	softhca_topology_default(&t, 2);
	if (!fault_stray(rules, &t))
		for (size_t i = 0; i < FAULT_RULES; i++)
			must((!rules[i].device[0] || !strncmp(rules[i].device, "mlx5_", 5)) &&
				(!rules[i].peer[0] || !strncmp(rules[i].peer, "mlx5_", 5)));
	return true;
}

/* Makes an empty file, and sets the environment variables to its name. */
static int make_file(void)
{
	int fd = memfd_create("input", MFD_CLOEXEC);
	char path[32];

	must(fd >= 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	setenv("SOFTHCA_TOPOLOGY", path, 1);
	setenv("SOFTHCA_FAULT_FILE", path, 1);
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd;
	size_t room;
	char *err;

	if (size < 2)
		return 0;
	fd = fd ? fd : make_file();
	room = 1 + 2 * (size_t)data[1];
	err = malloc(room); /* of exactly this size, so that the sanitizer detects overruns */
	must(err && !ftruncate(fd, 0));
	must(pwrite(fd, data + 2, size - 2, 0) == (ssize_t)(size - 2));
	if (!(data[0] % 2 ? read_rules : read_topology)(err, room))
		must(strnlen(err, room) < room && !strchr(err, '\n'));
	free(err);
	return 0;
}
