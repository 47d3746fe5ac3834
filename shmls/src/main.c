/* SPDX-License-Identifier: MIT */
/*
 * shmls: lists the regions of delegrpc and shmipc, removes those of dead servers, and shows the
 * objects of running processes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/args.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "base/output.h"
#include "livetext.h"
#include "print.h"
#include "region.h"

static const char usage[] =
	"Usage: shmls [OPTION]... [REGION]...\n"
	"       shmls --live [OPTION]... [PID]...\n"
	"Lists the regions of delegrpc and shmipc in /dev/shm, or only the given ones\n"
	"(delegrpc.NAME, shmipc.NAME).\n"
	"With --live: shows the objects of all layers in running processes, and what threads wait for.\n";

static const char columns[] = "Columns:\n"
			      "  server   dead, running, asleep\n"
			      "  depth    calls that a client can have in flight\n"
			      "  clients  connected and alive / at most\n"
			      "  dead     dead clients that the server has not cleaned up yet\n"
			      "  slots    of delegrpc's request ring: in use / all\n";

struct options {
	bool clients, json, remove, live;
	double watch; /* s */
};

#define AT(field) ARG_AT(struct options, field)

static const struct arg_row rows[] = {
	{"clients", 'c', NULL, ARG_FLAG, AT(clients), .help = "list the clients of each region"},
	{"json", 'j', NULL, ARG_FLAG, AT(json),
		.help = "print one JSON object per line, with the clients"},
	{"live", 'l', NULL, ARG_FLAG, AT(live), .not_with = "clients remove",
		.help = "show the objects of the given processes, or of all that may be read"},
	{"watch", 'w', "SECONDS", ARG_REAL, AT(watch), .low = .01, .high = 86400,
		.not_with = "remove", .help = "print again after each interval, until interrupted"},
	{"remove", 'r', NULL, ARG_FLAG, AT(remove), .not_with = "json clients",
		.help = "remove the listed regions of this user whose server is dead"},
	{"help", 'h', .kind = ARG_HELP},
	{"version", 'V', .kind = ARG_VERSION},
};

static int complain(const char *what, const char *why)
{
	fputs("shmls: ", stderr);
	for (; *what; what++)
		fputc(*what >= ' ' && *what <= '~' ? *what : '?', stderr);
	fprintf(stderr, ": %s\n", why);
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
		return n < 0 ? complain("/dev/shm", region_why(n)) : 0;
	}
	*regions_p = r = (struct region *)calloc((size_t)n_files, sizeof(*r));
	if (!r)
		return complain("no memory", strerror(ENOMEM));
	for (int i = 0; i < n_files; i++) {
		int err = region_read(files[i], &r[*n_p]);

		if (!err && (r[*n_p].err == -ENOENT || r[*n_p].err == -EINVAL)) {
			err = r[*n_p].err;
			free((char *)r[*n_p].name);
		}
		if (err)
			status = complain(files[i], region_why(err));
		else
			++*n_p;
	}
	return status;
}

/* Removes the region if its server is dead. Returns the exit status. */
static int remove_region(const struct region *r, bool named)
{
	int err = r->err ? r->err : r->server != REGION_DEAD ? -EADDRINUSE : 0;
	char text[REGION_TEXT];

	if (!err)
		err = r->layer->remove_dead(r->name);
	if (!err) {
		print_name(stdout, r->layer->name, r->name);
		puts(": removed");
		return 0;
	}
	if (!named) /* all regions: not an error if one cannot be removed */
		return 0;
	fputs("shmls: ", stderr);
	print_name(stderr, r->layer->name, r->name);
	fprintf(stderr, ": not removed: %s\n",
		err == r->err ? region_unread(r, text) : region_why(err));
	return 1;
}

/* ---- running processes ---- */

static const char *live_why(int err)
{
	switch (err) {
	case -EINVAL:
		return "give the number of a process";
	case -ESRCH:
		return "no such process";
	case -EPERM:
		return "may not be read: run shmls as its user, or as root if "
		       "kernel.yama.ptrace_scope is not 0";
	case -E2BIG:
		return "its tables are forged";
	default:
		return strerror(-err);
	}
}

/* Returns the exit status. Processes that the user did not name are left out if they have no
 * objects or cannot be read. */
static int show_process(const struct options *o, const char *pid, bool named)
{
	uint64_t n = strtoull(pid, NULL, 10);
	struct live_process p = {0};
	char text[96];
	int err = -EINVAL;

	if (n <= INT32_MAX && strspn(pid, "0123456789") == strlen(pid) && *pid)
		err = live_read((pid_t)n, &p);
	if (!err && p.foreign) {
		snprintf(text, sizeof(text),
			"its tables are of version %u, this shmls reads version %u", p.foreign,
			LIVE_VERSION);
		complain(pid, text);
	}
	bool shown = !err && (p.n_objects || named);

	if (shown && o->json)
		err = live_print_json(&p);
	else if (shown)
		live_print(&p);
	live_free(&p);
	return named && err ? complain(pid, live_why(err)) : 0;
}

static int show_processes(const struct options *o, char **pids, int n_pids)
{
	struct dirent **entry;
	int status = 0, n;

	for (int i = 0; i < n_pids; i++)
		status |= show_process(o, pids[i], true);
	if (n_pids)
		return status;
	n = scandir("/proc", &entry, live_number, versionsort);
	if (n < 0)
		return complain("/proc", strerror(errno));
	for (int i = 0; i < n; i++) {
		show_process(o, entry[i]->d_name, false);
		free(entry[i]);
	}
	free(entry);
	return 0;
}

/* ---- regions ---- */

static int show_regions(const struct options *o, char **files, int n_files)
{
	struct region *regions = NULL;
	size_t n = 0;
	int status = read_regions(files, n_files, &regions, &n), err = 0;

	if (o->remove)
		for (size_t i = 0; i < n; i++)
			status |= remove_region(&regions[i], n_files > 0);
	else if (o->json)
		err = print_json(regions, n);
	else if (n || !n_files)
		print_table(regions, n, o->clients);
	regions_free(regions, n);
	return status | (err ? complain("not printed", strerror(-err)) : 0);
}

/* Prints once, or repeatedly at intervals until standard output cannot be written. */
static int run(const struct options *o, char **operands, int n)
{
	const struct timespec pause = clock_timespec((uint64_t)(o->watch * 1e9));
	int status;

	do
		status = o->live ? show_processes(o, operands, n) : show_regions(o, operands, n);
	while (o->watch > 0 && !fflush(stdout) && !nanosleep(&pause, NULL));
	return status;
}

static int shmls(int argc, char **argv)
{
	struct options o = {0};
	struct args args = {ARGS_ROWS(rows), .usage = usage, .tail = columns,
		.version = "shmls " SHMLS_VERSION, .operands = true};
	int first = args_main(&args, "shmls", argc, argv, &o);

	return run(&o, argv + first, argc - first);
}

int main(int argc, char **argv)
{
	return output_end("shmls", shmls(argc, argv));
}
