/* SPDX-License-Identifier: MIT */
/* shmls: lists the shared-memory regions of delegrpc and shmipc, and removes those of dead servers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/args.h"
#include "base/output.h"
#include "print.h"
#include "region.h"

static const char usage[] =
	"Usage: shmls [OPTION]... [REGION]...\n"
	"Lists the regions of delegrpc and shmipc in /dev/shm, or these: delegrpc.NAME, shmipc.NAME.\n"
	"  -c, --clients  list the clients of each region\n"
	"  -j, --json     print one JSON object per line, with the clients\n"
	"  -r, --remove   remove the listed regions of this user whose server is dead\n"
	"  -h, --help\n"
	"  -V, --version\n"
	"Columns:\n"
	"  server   dead, running, waiting (polls), asleep\n"
	"  depth    calls that a client can have in flight\n"
	"  clients  connected and alive / at most\n"
	"  dead     dead clients that the server has not cleaned up yet\n"
	"  slots    of delegrpc's request ring: in use / all\n";

struct options {
	bool clients, json, remove, help, version;
};

static int parse_option(void *options, int val, const struct arg *a)
{
	struct options *o = (struct options *)options;

	(void)a;
	switch (val) {
	case 'c':
		o->clients = true;
		break;
	case 'j':
		o->json = true;
		break;
	case 'r':
		o->remove = true;
		break;
	case 'h':
		o->help = true;
		break;
	default:
		o->version = true;
	}
	return 0;
}

static int complain(const char *what, int err)
{
	fputs("shmls: ", stderr);
	for (; *what; what++)
		fputc(*what >= ' ' && *what <= '~' ? *what : '?', stderr);
	fprintf(stderr, ": %s\n", region_why(err));
	return 1;
}

/* The regions that are named, or all. Returns the exit status. */
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
	if (!named) /* not meant for removal, or gone meanwhile */
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
	static const struct option long_options[] = {
		{"clients", no_argument, NULL, 'c'},
		{"json", no_argument, NULL, 'j'},
		{"remove", no_argument, NULL, 'r'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{0},
	};
	struct options o = {0};
	char why[160];
	int first =
		args_read(argc, argv, ":cjrhV", long_options, parse_option, &o, why, sizeof(why));

	if (first >= 0 && o.remove && (o.json || o.clients))
		first = args_fail(why, sizeof(why), "--remove prints no list; give it alone");
	if (first < 0) {
		fprintf(stderr, "shmls: %s\n", why);
		return 2;
	}
	if (o.help)
		return fputs(usage, stdout) < 0;
	if (o.version) {
		puts("shmls " SHMLS_VERSION);
		return 0;
	}
	return run(&o, argv + first, argc - first);
}

int main(int argc, char **argv)
{
	return output_end("shmls", shmls(argc, argv));
}
