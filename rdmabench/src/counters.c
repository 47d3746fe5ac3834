/* SPDX-License-Identifier: MIT */
#include "counters.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static void add(struct counters *c, const char *name, uint64_t value)
{
	if (c->n == COUNTERS_MAX)
		return;
	snprintf(c->c[c->n].name, COUNTER_NAME, "%.63s", name);
	c->c[c->n++].value = value;
}

/* Reads the first line of a file. Returns 0 if there is none. */
static int read_line(const char *path, char *line, int size)
{
	FILE *f = fopen(path, "re");
	char *got;

	if (!f)
		return 0;
	got = fgets(line, size, f);
	fclose(f);
	if (got)
		line[strcspn(line, "\n")] = 0;
	return got != NULL;
}

static void read_dir(const char *path, struct counters *c)
{
	DIR *d = opendir(path);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		char file[PATH_MAX], line[64], *end;
		uint64_t value;

		if (e->d_name[0] == '.' ||
			snprintf(file, sizeof(file), "%s/%s", path, e->d_name) >=
				(int)sizeof(file) ||
			!read_line(file, line, sizeof(line)) || !isdigit((unsigned char)line[0]))
			continue;
		errno = 0;
		value = strtoull(line, &end, 10);
		if (!*end && !errno)
			add(c, e->d_name, value);
	}
	if (d)
		closedir(d);
}

static int ethtool(int fd, const char *interface, void *command)
{
	struct ifreq r = {0};

	snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", interface);
	r.ifr_data = command;
	return ioctl(fd, SIOCETHTOOL, &r);
}

static uint32_t ethtool_count(int fd, const char *interface)
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};

	return ethtool(fd, interface, &info) ? 0 : info.n_stats;
}

static void read_ethtool(const char *interface, struct counters *c)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint32_t n = fd < 0 ? 0 : ethtool_count(fd, interface);
	struct ethtool_gstrings *names = NULL;
	struct ethtool_stats *values = NULL;

	if (n && n <= COUNTERS_MAX) {
		names = calloc(1, sizeof(*names) + n * ETH_GSTRING_LEN);
		values = calloc(1, sizeof(*values) + n * sizeof(uint64_t));
	}
	if (names && values) {
		names->cmd = ETHTOOL_GSTRINGS;
		names->string_set = ETH_SS_STATS;
		values->cmd = ETHTOOL_GSTATS;
		names->len = values->n_stats = n;
		if (ethtool(fd, interface, names) || ethtool(fd, interface, values) ||
			values->n_stats > n)
			n = 0;
		for (uint32_t i = 0; i < n; i++) {
			char name[ETH_GSTRING_LEN + 1] = "";

			memcpy(name, names->data + i * ETH_GSTRING_LEN, ETH_GSTRING_LEN);
			add(c, name, values->data[i]);
		}
	}
	free(names);
	free(values);
	if (fd >= 0)
		close(fd);
}

void counters_read(const char *class, const char *device, unsigned port, struct counters *c_p)
{
	static const char *const dirs[] = {"counters", "hw_counters"};
	char path[PATH_MAX], interface[IFNAMSIZ];

	c_p->n = 0;
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s/ports/%u/%s", class, device, port, dirs[i]);
		read_dir(path, c_p);
	}
	snprintf(path, sizeof(path), "%s/%s/ports/%u/gid_attrs/ndevs/0", class, device, port);
	if (read_line(path, interface, sizeof(interface)))
		read_ethtool(interface, c_p);
}

uint64_t counters_get(const struct counters *c, const char *name, int *has_p)
{
	for (uint32_t i = 0; i < c->n; i++) {
		if (!strcmp(c->c[i].name, name)) {
			*has_p = 1;
			return c->c[i].value;
		}
	}
	*has_p = 0;
	return 0;
}
