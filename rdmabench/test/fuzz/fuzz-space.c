/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer: files of values. A space that is accepted can be written as text and read again. The
 * engine accepts all of its points, except those that need too much memory or too deep a queue.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mlx5dvl.h"
#include "spacefile.h"
#include "support/fuzz.h"

#define POINTS 20

static struct space space, again;

static void check_line(const char *why)
{
	must(*why && !strchr(why, '\n'));
}

static void check_values(void)
{
	char text[SPACE_NAME], why[300];
	uint32_t value = 0;

	for (unsigned dim = 0; dim < SPACE_DIMS; dim++) {
		must(space.n[dim] >= 1 && space.n[dim] <= SPACE_VALUES);
		for (unsigned at = 0; at < space.n[dim]; at++) {
			must(!at || space.value[dim][at] > space.value[dim][at - 1]);
			space_value(&space, dim, at, text);
			must(!space_parse(dim, text, &value, why, sizeof(why)));
			must(value == space.value[dim][at]);
		}
	}
}

/* The header of a search has the same values. */
static void check_text(void)
{
	json_t *list = space_json(&space);
	char why[300];

	space_init(&again);
	for (size_t i = 0; i < json_array_size(list); i++)
		must(!space_change(&again, json_string_value(json_array_get(list, i)), why,
			sizeof(why)));
	json_decref(list);
	must(!space_prune(&again, why, sizeof(why)));
	for (unsigned dim = 0; dim < SPACE_DIMS; dim++)
		must(again.n[dim] == space.n[dim] &&
			!memcmp(again.value[dim], space.value[dim],
				again.n[dim] * sizeof(again.value[dim][0])));
}

static void check_points(uint64_t rand)
{
	for (int i = 0; i < POINTS; i++) {
		struct point p, settled;
		char why[300];

		point_random(&space, &p, &rand);
		settled = p;
		point_settle(&space, &settled);
		must(point_equal(&p, &settled));
		for (unsigned traffic = 0; traffic < 2; traffic++) {
			struct traffic t;

			if (point_traffic(&space, &p, traffic, &t) &&
				traffic_check(&t, why, sizeof(why)))
				must(strstr(why, "memory") || strstr(why, "queue is that deep"));
		}
		point_mutate(&space, &p, &rand);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("space", MFD_CLOEXEC);
	char path[40], why[300] = "";

	must(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	space_init(&space);
	if (space_read(&space, path, why, sizeof(why)) || space_prune(&space, why, sizeof(why))) {
		check_line(why);
	} else {
		check_values();
		check_text();
		check_points(size);
	}
	close(fd);
	return 0;
}
