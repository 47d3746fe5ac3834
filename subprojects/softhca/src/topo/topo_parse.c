/* SPDX-License-Identifier: MIT */
#include "topo/topo.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/keyvalue.h"
#include "topo/topo_rail.h"

static bool copy_name(char dst[SOFTHCA_NAME_MAX], const char *v)
{
	size_t n = strlen(v);

	if (!n || n >= SOFTHCA_NAME_MAX)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)v[i]) && v[i] != '_' && v[i] != '-')
			return false;
	memcpy(dst, v, n + 1);
	return true;
}

static bool set_name(void *object, const char *v)
{
	struct softhca_rail *r = object;

	return copy_name(r->name, v);
}

static bool set_netdev(void *object, const char *v)
{
	struct softhca_rail *r = object;

	return copy_name(r->netdev, v);
}

static bool set_pci(void *object, const char *v)
{
	struct softhca_rail *r = object;
	unsigned int dom, bus, dev, fn;
	int end = 0;

	/* sscanf() would accept signs, 0x and blanks. */
	if (v[strspn(v, "0123456789abcdefABCDEF:.")] ||
		sscanf(v, "%4x:%2x:%2x.%1x%n", &dom, &bus, &dev, &fn, &end) != 4 || v[end] ||
		dev > 31 || fn > 7)
		return false;
	r->pci.domain = (uint16_t)dom;
	r->pci.bus = (uint8_t)bus;
	r->pci.device = (uint8_t)dev;
	r->pci.function = (uint8_t)fn;
	return true;
}

static bool set_numa(void *object, const char *v)
{
	struct softhca_rail *r = object;
	unsigned long long n;

	if (!strcmp(v, "-1")) {
		r->numa = -1;
		return true;
	}
	if (!kv_number(v, 0, SOFTHCA_NUMA_MAX - 1, &n))
		return false;
	r->numa = (int32_t)n;
	return true;
}

static bool set_link(void *object, const char *v)
{
	struct softhca_rail *r = object;
	bool roce = !strcmp(v, "roce");

	if (!roce && strcmp(v, "ib"))
		return false;
	r->link = roce ? SOFTHCA_LINK_ROCE : SOFTHCA_LINK_IB;
	return true;
}

static bool set_mtu(void *object, const char *v)
{
	struct softhca_rail *r = object;
	unsigned long long n;

	if (!kv_number(v, 256, 4096, &n) || (n & (n - 1)))
		return false;
	r->mtu = (uint32_t)n;
	return true;
}

static bool set_gid(void *object, const char *v)
{
	struct softhca_rail *r = object;

	if (r->ngids == SOFTHCA_GIDS_MAX || !softhca_gid_read(v, r->gids[r->ngids]))
		return false;
	r->ngids++;
	return true;
}

static bool set_pkey(void *object, const char *v)
{
	struct softhca_rail *r = object;
	unsigned long long n;

	if (r->npkeys == SOFTHCA_PKEYS_MAX || !kv_number(v, 1, 0xffff, &n))
		return false;
	r->pkeys[r->npkeys++] = (uint16_t)n;
	return true;
}

/* Parses one of two words. Sets *is_on_p if the word is @on. */
static bool set_word(const char *v, const char *off, const char *on, uint8_t *is_on_p)
{
	*is_on_p = !strcmp(v, on);
	return *is_on_p || !strcmp(v, off);
}

static bool set_grh(void *object, const char *v)
{
	struct softhca_rail *r = object;

	return set_word(v, "optional", "required", &r->grh_required);
}

static bool set_atomics(void *object, const char *v)
{
	struct softhca_rail *r = object;

	return set_word(v, "hca", "none", &r->no_atomics);
}

static bool set_state(void *object, const char *v)
{
	struct softhca_rail *r = object;

	return set_word(v, "active", "down", &r->down);
}

static bool set_udp(void *object, const char *v)
{
	struct softhca_rail *r = object;

	return set_word(v, "off", "on", &r->udp);
}

static const struct kv_key keys[] = {
	{"name", "up to 15 letters, digits, '_' or '-'", .set = set_name},
	{"pci", "a PCI address such as 0000:17:00.0", .set = set_pci},
	{"numa", "a NUMA node, 0 to 63, or -1", .set = set_numa},
	{"link", "ib or roce", .set = set_link},
	{"rate_mbps", "megabits a second, 1 to 10000000",
		.field = KV_FIELD(struct softhca_rail, rate_mbps, 1, 10000000)},
	{"latency_ns", "nanoseconds, 0 to 1000000000",
		.field = KV_FIELD(struct softhca_rail, latency_ns, 0, 1000000000)},
	{"service_ns", "nanoseconds, 0 to 1000000000",
		.field = KV_FIELD(struct softhca_rail, service_ns, 0, 1000000000)},
	{"pauses", "percent of the time, 0 to 90",
		.field = KV_FIELD(struct softhca_rail, pauses, 0, SOFTHCA_PAUSES_MAX)},
	{"mtu", "256, 512, 1024, 2048 or 4096", .set = set_mtu},
	{"lid", "a unicast LID, 1 to 49151",
		.field = KV_FIELD(struct softhca_rail, lid, 1, 0xbfff)},
	{"netdev", "up to 15 letters, digits, '_' or '-'", .set = set_netdev},
	{"gid", "up to 8 IPv6 or IPv4 addresses", .repeats = true, .set = set_gid},
	{"pkey", "up to 8 partition keys, 1 to 0xffff", .repeats = true, .set = set_pkey},
	{"grh", "optional or required", .set = set_grh},
	{"atomics", "hca or none", .set = set_atomics},
	{"udp", "off or on", .set = set_udp},
	{"state", "active or down", .set = set_state},
};

static bool same_pci(const struct softhca_pci_addr *a, const struct softhca_pci_addr *b)
{
	return a->domain == b->domain && a->bus == b->bus && a->device == b->device &&
	       a->function == b->function;
}

static int check_link(const struct kv_source *src, const struct softhca_rail *rail)
{
	if (rail->link == SOFTHCA_LINK_ROCE && rail->lid)
		return kv_fail(src, "lid is for link=ib only: leave it out");
	if (rail->link == SOFTHCA_LINK_ROCE && rail->grh_required)
		return kv_fail(src, "grh is for link=ib only: leave it out");
	if (rail->link == SOFTHCA_LINK_IB && rail->netdev[0])
		return kv_fail(src, "netdev is for link=roce only: leave it out");
	if (rail->link == SOFTHCA_LINK_IB && rail->udp)
		return kv_fail(src, "udp is for link=roce only: leave it out");
	if (rail->udp && !rail->ngids)
		return kv_fail(src, "udp=on: also give gid=, an address of this host");
	return 0;
}

/* Returns true if GID @n of @r is among those before it. */
static bool is_given_twice(const struct softhca_rail *r, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (!memcmp(r->gids[i], r->gids[n], 16))
			return true;
	return false;
}

static int check_gids(const struct kv_source *src, const struct softhca_topology *t,
	const struct softhca_rail *rail)
{
	char text[INET6_ADDRSTRLEN];

	for (uint32_t i = 0; i < rail->ngids; i++) {
		inet_ntop(AF_INET6, rail->gids[i], text, sizeof(text));
		if (is_given_twice(rail, i))
			return kv_fail(src, "gid=%s is given twice: give it once", text);
		for (uint32_t j = 0; j < t->nrails; j++)
			if (softhca_rail_has_gid(&t->rails[j], rail->gids[i]))
				return kv_fail(src, "gid=%s is taken by rail %u: give another",
					text, j);
	}
	return 0;
}

/* Called after the defaults are filled in, because they may clash too. */
static int check_unique(const struct kv_source *src, const struct softhca_topology *t,
	const struct softhca_rail *rail)
{
	for (uint32_t i = 0; i < t->nrails; i++) {
		const struct softhca_rail *r = &t->rails[i];

		if (!strcmp(r->name, rail->name))
			return kv_fail(src, "name=%s is taken by rail %u: give another", r->name,
				i);
		if (same_pci(&r->pci, &rail->pci))
			return kv_fail(src, "pci is that of rail %u: give another", i);
		if (rail->lid && r->lid == rail->lid)
			return kv_fail(src, "lid=%u is taken by rail %u: give another", r->lid, i);
	}
	return check_gids(src, t, rail);
}

static int parse_line(const struct kv_source *src, char *line, struct softhca_topology *t)
{
	struct softhca_rail rail;
	int rc;

	softhca_rail_init(&rail, t->nrails);
	rc = kv_line(src, line, keys, sizeof(keys) / sizeof(keys[0]), &rail);
	if (rc <= 0)
		return rc;
	if (t->nrails == SOFTHCA_RAILS_MAX)
		return kv_fail(src, "more than %d rails: leave this line out", SOFTHCA_RAILS_MAX);
	rc = check_link(src, &rail);
	if (rc)
		return rc;
	softhca_rail_complete(&rail, t->nrails);
	rc = check_unique(src, t, &rail);
	if (rc)
		return rc;
	t->rails[t->nrails++] = rail;
	return 0;
}

int softhca_topology_parse(const char *text, const char *name, struct softhca_topology *t,
	char *err, size_t errlen)
{
	struct softhca_topology parsed = {0};
	struct kv_source src = {.name = name, .err = err, .errlen = errlen};
	char *copy = strdup(text), *rest = copy, *line;
	int rc = 0;

	if (!copy) {
		snprintf(err, errlen, "%s: %s", name, strerror(ENOMEM));
		return -ENOMEM;
	}
	while (!rc && (line = strsep(&rest, "\n"))) {
		src.line++;
		rc = parse_line(&src, line, &parsed);
	}
	if (!rc && !parsed.nrails)
		rc = kv_fail(&src, "no rail: give a line such as 'name=mlx5_0'");
	if (!rc)
		*t = parsed;
	free(copy);
	return rc;
}

int softhca_topology_load(const char *path, struct softhca_topology *t, char *err, size_t errlen)
{
	int rc;
	char *text = kv_read_file(path, "a topology file", err, errlen, &rc);

	if (!text)
		return rc;
	rc = softhca_topology_parse(text, path, t, err, errlen);
	free(text);
	return rc;
}
