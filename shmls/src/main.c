/* SPDX-License-Identifier: MIT */
/* shmls: lists the regions of delegrpc and shmipc, and removes those of dead servers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/args.h"
#include "base/compiler.h"
#include "base/output.h"
#include "print.h"
#include "region.h"

static const char usage[] =
	"Usage: shmls [OPTION]... [REGION]...\n"
	"Lists the regions of delegrpc and shmipc in /dev/shm, or these: delegrpc.NAME, shmipc.NAME.\n";

static const char columns[] = "Columns:\n"
			      "  server   dead, running, waiting (polls), asleep\n"
			      "  depth    calls that a client can have in flight\n"
			      "  clients  connected and alive / at most\n"
			      "  dead     dead clients that the server has not cleaned up yet\n"
			      "  slots    of delegrpc's request ring: in use / all\n";

struct options {
	bool clients, json, remove;
};

#define AT(field) ARG_AT(struct options, field)

static const struct arg_row rows[] = {
	{"clients", 'c', NULL, ARG_FLAG, AT(clients), .help = "list the clients of each region"},
	{"json", 'j', NULL, ARG_FLAG, AT(json),
		.help = "print one JSON object per line, with the clients"},
	{"remove", 'r', NULL, ARG_FLAG, AT(remove), .not_with = "json clients",
		.help = "remove the listed regions of this user whose server is dead"},
	{"help", 'h', .kind = ARG_HELP},
	{"version", 'V', .kind = ARG_VERSION},
};

static int complain(const char *what, int err)
{
	fputs("shmls: ", stderr);
	for (; *what; what++)
		fputc(*what >= ' ' && *what <= '~' ? *what : '?', stderr);
	fprintf(stderr, ": %s\n", region_why(err));
	return 1;
}

/* Reads the named regions, or all. Returns the exit status. */
static int read_regions(char **files, int n_files, struct region **regions_p, size_t *n_p)
{
	struct region *r;
	int status = 0, n;

	if (!n_files) {
		n = regions_read(regions_p);
		*n_p = n > 0 ? (size_t)n : 0;
		return n < 0 ? complain("/dev/shm", n) : 0;
	}
	*regions_p = r = (struct region *)calloc((size_t)n_files, sizeof(*r));
	if (!r)
		return complain("no memory", -ENOMEM);
	for (int i = 0; i < n_files; i++) {
		int err = region_read(files[i], &r[*n_p]);

		if (!err && (r[*n_p].err == -ENOENT || r[*n_p].err == -EINVAL)) {
			err = r[*n_p].err;
			free((char *)r[*n_p].name);
		}
		if (err)
			status = complain(files[i], err);
		else
			++*n_p;
	}
	return status;
}

/* Removes the region if its server is dead. Returns the exit status. */
static int remove_region(const struct region *r, bool named)
{
	int err = r->err ? r->err : r->server != REGION_DEAD ? -EADDRINUSE : 0;

	if (!err)
		err = r->layer->remove_dead(r->name);
	if (!err) {
		print_name(stdout, r->layer->name, r->name);
		puts(": removed");
		return 0;
	}
	if (!named) /* the user did not name it, or it has gone meanwhile */
		return 0;
	fputs("shmls: ", stderr);
	print_name(stderr, r->layer->name, r->name);
	fprintf(stderr, ": not removed: %s\n", region_why(err));
	return 1;
}

static int run(const struct options *o, char **files, int n_files)
{
	struct region *regions = NULL;
	size_t n = 0;
	int status = read_regions(files, n_files, &regions, &n);

	if (o->remove)
		for (size_t i = 0; i < n; i++)
			status |= remove_region(&regions[i], n_files > 0);
	else if (o->json)
		status |= print_json(regions, n) ? complain("no memory", -ENOMEM) : 0;
	else if (n || !n_files)
		print_table(regions, n, o->clients);
	regions_free(regions, n);
	return status;
}

static int shmls(int argc, char **argv)
{
	struct options o = {0};
	char why[160];
	struct args args = {.rows = rows,
		.n_rows = ARRAY_SIZE(rows),
		.usage = usage,
		.tail = columns,
		.version = "shmls " SHMLS_VERSION,
		.operands = true,
		.why = why,
		.size = sizeof(why)};
	int first = args_read(&args, argc, argv, &o);

	if (first < 0)
		fprintf(stderr, "shmls: %s\n", why);
	if (first <= 0)
		return first ? 2 : 0;
	return run(&o, argv + first, argc - first);
}

int main(int argc, char **argv)
{
	return output_end("shmls", shmls(argc, argv));
}
