/* SPDX-License-Identifier: MIT */
#include "topo/topo.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "topo/topo_rail.h"

#define FILE_MAX 65536 /* a topology of SOFTHCA_RAILS_MAX lines is far below */

struct parser {
	const char *name;
	unsigned int line;
	char *err;
	size_t errlen;
	struct softhca_topology *t;
};

__attribute__((format(printf, 2, 3))) static int fail(const struct parser *p, const char *fmt, ...)
{
	va_list ap;
	int n;

	n = snprintf(p->err, p->errlen, "%s:%u: ", p->name, p->line);
	if (n < 0 || (size_t)n >= p->errlen)
		return -EINVAL;
	va_start(ap, fmt);
	vsnprintf(p->err + n, p->errlen - (size_t)n, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

static bool number(const char *v, unsigned long long min, unsigned long long max,
	unsigned long long *out_p)
{
	unsigned long long n;
	char *end;

	if (!isdigit((unsigned char)*v))
		return false; /* strtoull would take a sign or spaces */
	errno = 0;
	n = strtoull(v, &end, 0);
	if (*end || errno || n < min || n > max)
		return false;
	*out_p = n;
	return true;
}

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

static bool set_name(struct softhca_rail *r, const char *v)
{
	return copy_name(r->name, v);
}

static bool set_netdev(struct softhca_rail *r, const char *v)
{
	return copy_name(r->netdev, v);
}

static bool set_pci(struct softhca_rail *r, const char *v)
{
	unsigned int dom, bus, dev, fn;
	int end = 0;

	if (sscanf(v, "%4x:%2x:%2x.%1x%n", &dom, &bus, &dev, &fn, &end) != 4 || v[end] ||
		dev > 31 || fn > 7)
		return false;
	r->pci.domain = (uint16_t)dom;
	r->pci.bus = (uint8_t)bus;
	r->pci.device = (uint8_t)dev;
	r->pci.function = (uint8_t)fn;
	return true;
}

static bool set_numa(struct softhca_rail *r, const char *v)
{
	unsigned long long n;

	if (!strcmp(v, "-1")) {
		r->numa = -1;
		return true;
	}
	if (!number(v, 0, SOFTHCA_NUMA_MAX - 1, &n))
		return false;
	r->numa = (int32_t)n;
	return true;
}

static bool set_link(struct softhca_rail *r, const char *v)
{
	bool roce = !strcmp(v, "roce");

	if (!roce && strcmp(v, "ib"))
		return false;
	r->link = roce ? SOFTHCA_LINK_ROCE : SOFTHCA_LINK_IB;
	return true;
}

static bool set_rate(struct softhca_rail *r, const char *v)
{
	unsigned long long n;

	if (!number(v, 1, 10000000, &n))
		return false;
	r->rate_mbps = n;
	return true;
}

static bool set_latency(struct softhca_rail *r, const char *v)
{
	unsigned long long n;

	if (!number(v, 0, 1000000000, &n))
		return false;
	r->latency_ns = (uint32_t)n;
	return true;
}

static bool set_mtu(struct softhca_rail *r, const char *v)
{
	unsigned long long n;

	if (!number(v, 256, 4096, &n) || (n & (n - 1)))
		return false;
	r->mtu = (uint32_t)n;
	return true;
}

static bool set_lid(struct softhca_rail *r, const char *v)
{
	unsigned long long n;

	if (!number(v, 1, 0xbfff, &n))
		return false;
	r->lid = (uint16_t)n;
	return true;
}

static bool set_gid(struct softhca_rail *r, const char *v)
{
	uint8_t *gid;

	if (r->ngids == SOFTHCA_GIDS_MAX)
		return false;
	gid = r->gids[r->ngids];
	if (inet_pton(AF_INET6, v, gid) != 1) {
		memset(gid, 0, 10);
		memset(gid + 10, 0xff, 2);
		if (inet_pton(AF_INET, v, gid + 12) != 1)
			return false;
	}
	r->ngids++;
	return true;
}

static const struct key {
	const char *name;
	bool (*set)(struct softhca_rail *rail, const char *value);
	bool repeats;
	const char *want;
} keys[] = {
	{ "name", set_name, false, "up to 15 letters, digits, '_' or '-'" },
	{ "pci", set_pci, false, "a PCI address such as 0000:17:00.0" },
	{ "numa", set_numa, false, "a NUMA node, 0 to 63, or -1" },
	{ "link", set_link, false, "ib or roce" },
	{ "rate_mbps", set_rate, false, "megabits a second, 1 to 10000000" },
	{ "latency_ns", set_latency, false, "nanoseconds, 0 to 1000000000" },
	{ "mtu", set_mtu, false, "256, 512, 1024, 2048 or 4096" },
	{ "lid", set_lid, false, "a unicast LID, 1 to 49151" },
	{ "netdev", set_netdev, false, "up to 15 letters, digits, '_' or '-'" },
	{ "gid", set_gid, true, "up to 8 IPv6 or IPv4 addresses" },
};
#define NKEYS (sizeof(keys) / sizeof(keys[0]))

static int unknown_key(const struct parser *p, const char *token)
{
	char all[128] = "";
	size_t n = 0;

	for (size_t i = 0; i < NKEYS; i++)
		n += (size_t)snprintf(all + n, sizeof(all) - n, "%s%s", i ? ", " : "",
			keys[i].name);
	return fail(p, "'%s': give key=value with one of %s", token, all);
}

static int parse_token(const struct parser *p, struct softhca_rail *rail, char *token,
	unsigned int *seen)
{
	char *value = strchr(token, '=');
	size_t i;

	if (!value)
		return unknown_key(p, token);
	*value++ = '\0';
	for (i = 0; i < NKEYS; i++)
		if (!strcmp(keys[i].name, token))
			break;
	if (i == NKEYS)
		return unknown_key(p, token);
	if ((*seen & (1u << i)) && !keys[i].repeats)
		return fail(p, "%s is given twice: give it once", token);
	*seen |= 1u << i;
	if (!keys[i].set(rail, value))
		return fail(p, "%s=%s: give %s", token, value, keys[i].want);
	return 0;
}

static bool same_pci(const struct softhca_pci_addr *a, const struct softhca_pci_addr *b)
{
	return a->domain == b->domain && a->bus == b->bus && a->device == b->device &&
		a->function == b->function;
}

static int check_link(const struct parser *p, const struct softhca_rail *rail)
{
	if (rail->link == SOFTHCA_LINK_ROCE && rail->lid)
		return fail(p, "lid is for link=ib only: leave it out");
	if (rail->link == SOFTHCA_LINK_IB && rail->netdev[0])
		return fail(p, "netdev is for link=roce only: leave it out");
	return 0;
}

/* After the defaults are in, because these may clash too. */
static int check_unique(const struct parser *p, const struct softhca_rail *rail)
{
	for (uint32_t i = 0; i < p->t->nrails; i++) {
		const struct softhca_rail *r = &p->t->rails[i];

		if (!strcmp(r->name, rail->name))
			return fail(p, "name=%s is taken by rail %u: give another", r->name, i);
		if (same_pci(&r->pci, &rail->pci))
			return fail(p, "pci is that of rail %u: give another", i);
		if (rail->lid && r->lid == rail->lid)
			return fail(p, "lid=%u is taken by rail %u: give another", r->lid, i);
	}
	return 0;
}

static int parse_line(struct parser *p, char *line)
{
	struct softhca_topology *t = p->t;
	struct softhca_rail rail;
	unsigned int seen = 0;
	char *save, *token;
	int rc;

	line[strcspn(line, "#")] = '\0';
	token = strtok_r(line, " \t\r", &save);
	if (!token)
		return 0;
	if (t->nrails == SOFTHCA_RAILS_MAX)
		return fail(p, "more than %d rails: leave this line out", SOFTHCA_RAILS_MAX);
	softhca_rail_init(&rail, t->nrails);
	for (; token; token = strtok_r(NULL, " \t\r", &save)) {
		rc = parse_token(p, &rail, token, &seen);
		if (rc)
			return rc;
	}
	rc = check_link(p, &rail);
	if (rc)
		return rc;
	softhca_rail_complete(&rail, t->nrails);
	rc = check_unique(p, &rail);
	if (rc)
		return rc;
	t->rails[t->nrails++] = rail;
	return 0;
}

int softhca_topology_parse(const char *text, const char *name, struct softhca_topology *t,
	char *err, size_t errlen)
{
	struct softhca_topology parsed = { 0 };
	struct parser p = { .name = name, .err = err, .errlen = errlen, .t = &parsed };
	char *copy = strdup(text), *rest = copy, *line;
	int rc = copy ? 0 : -ENOMEM;

	while (!rc && (line = strsep(&rest, "\n"))) {
		p.line++;
		rc = parse_line(&p, line);
	}
	if (!rc && !parsed.nrails)
		rc = fail(&p, "no rail: give a line such as 'name=mlx5_0'");
	if (!rc)
		*t = parsed;
	else if (rc == -ENOMEM)
		snprintf(err, errlen, "%s: %s", name, strerror(ENOMEM));
	free(copy);
	return rc;
}

static int read_file(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t n = 0;
	ssize_t got;

	if (fd < 0)
		return -errno;
	while (n < size && (got = read(fd, buf + n, size - n)) != 0) {
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			int rc = -errno;

			close(fd);
			return rc;
		}
		n += (size_t)got;
	}
	close(fd);
	if (n == size)
		return -EFBIG;
	buf[n] = '\0';
	return strlen(buf) == n ? 0 : -EILSEQ;
}

int softhca_topology_load(const char *path, struct softhca_topology *t, char *err,
	size_t errlen)
{
	char *buf = malloc(FILE_MAX);
	int rc = buf ? read_file(path, buf, FILE_MAX) : -ENOMEM;

	if (rc)
		snprintf(err, errlen, "%s: %s; give a topology file", path, strerror(-rc));
	else
		rc = softhca_topology_parse(buf, path, t, err, errlen);
	free(buf);
	return rc;
}
