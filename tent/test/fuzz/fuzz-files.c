/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer: the files that a user names. Each input is read as a configuration, as a topology and
 * as a rail map. An accepted file has values within their limits. A refused file causes an error
 * message of one line, and changes nothing.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/fuzz.h"
#include "config.h"
#include "pairing.h"
#include "topo.h"

static void must_be_name(const char *name)
{
	size_t len = strnlen(name, TENT_NAME_LEN);

	must(len && len < TENT_NAME_LEN);
}

/* The message must be one line that is not empty. */
static void must_say(const char *why)
{
	must(why[0] && !strchr(why, '\n'));
}

static void check_config(const struct tent_config *c)
{
	must(config_mode_name(c->mode) && c->priorities >= 1 && c->priorities <= 3);
	must(c->min_bandwidth_gbps > 0 && c->min_bandwidth_gbps <= c->default_bandwidth_gbps);
	must(c->default_bandwidth_gbps <= c->max_bandwidth_gbps && isfinite(c->max_bandwidth_gbps));
	must(config_bandwidth_gbps(c, 100) >= c->min_bandwidth_gbps);
	must(config_bandwidth_gbps(c, 1e9) == c->default_bandwidth_gbps);
	must(c->score_epsilon > 0 && c->score_jitter_range >= 0 && config_half_life(c) >= 0);
	for (int i = 0; i < TENT_TIERS; i++)
		must(c->numa_penalties[i] > 0 && isfinite(c->numa_penalties[i]));
	must((!c->rail_map || c->rail_map[0]) && (!c->topology || c->topology[0]));
}

/* Reading the text, and reading a file with this text, must have the same result. */
static void read_config(const char *path, const uint8_t *data, size_t size)
{
	struct tent_why why = {""}, again = {""};
	struct tent_config c, d;
	int err = config_parse((const char *)data, size, &c, &why);

	must(config_load(path, &d, &again) == err);
	if (err) {
		must_say(why.text);
		must(!strncmp(again.text, path, strlen(path)));
		return;
	}
	check_config(&c);
	must(c.mode == d.mode && c.strict_numa == d.strict_numa);
	config_fini(&c);
	config_fini(&d);
}

static void read_topology(const char *path)
{
	struct tent_why why = {""};
	struct topo t = {.n_rails = 0};

	if (topo_load(path, &t, &why)) {
		must_say(why.text);
		must(!t.n_rails && !t.n_locations);
		return;
	}
	must(t.n_rails && t.n_rails <= TENT_MAX_RAILS);
	must(t.n_locations && t.n_locations <= TOPO_MAX_LOCATIONS);
	for (uint32_t r = 0; r < t.n_rails; r++) {
		must_be_name(t.rails[r]);
		must(topo_rail(&t, t.rails[r]) == (int)r); /* no two rails have the same name */
		for (uint32_t l = 0; l < t.n_locations; l++)
			must(t.tiers[l][r] < TENT_TIERS);
	}
	for (uint32_t l = 0; l < t.n_locations; l++)
		must(topo_location(&t, t.locations[l]) == (int)l);
}

static void read_map(const char *path)
{
	static const struct rail_id rails[] = {{.name = "a", .kind = "ib"},
		{.name = "b", .kind = "ib"}};
	struct rail_pair pairs[TENT_MAX_RAILS];
	struct tent_why why = {""};
	struct rail_map map = {.n = 0};
	int n;

	if (rail_map_load(path, &map, &why)) {
		must_say(why.text);
		must(!map.n);
		return;
	}
	must(map.n && map.n <= TENT_MAX_RAILS);
	for (uint32_t i = 0; i < map.n; i++) {
		must_be_name(map.local[i]);
		must_be_name(map.remote[i]);
	}
	n = pair_rails(rails, 2, rails, 2, &map, pairs, &why);
	for (int i = 0; i < n; i++)
		must(pairs[i].local < 2 && pairs[i].remote < 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", 0);
	char path[32];

	must(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	read_config(path, data, size);
	read_topology(path);
	read_map(path);
	close(fd);
	return 0;
}
