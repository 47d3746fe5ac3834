/* SPDX-License-Identifier: MIT */
/* rdmabench: its sub-commands. */
#include <stdio.h>
#include <string.h>

#include "base/output.h"
#include "collect.h"
#include "engine.h"
#include "search.h"

static const char usage[] = "Usage: rdmabench COMMAND [OPTION]...\n"
			    "  lat        measure half round trips, as perftest's ib_write_lat\n"
			    "  bw         measure throughput, as perftest's ib_write_bw\n"
			    "  engine     send RDMA traffic and record latencies\n"
			    "  collect    merge the statistics of many files and machines\n"
			    "  search     look for traffic that a device handles badly\n"
			    "  --help, --version\n"
			    "rdmabench COMMAND --help lists the options of a command.\n";

static const struct {
	const char *name;
	int (*main)(int argc, char **argv);
} commands[] = {
	{"lat", engine_main},
	{"bw", engine_main},
	{"engine", engine_main},
	{"collect", collect_main},
	{"search", search_main},
};

static int run(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (!strcmp(argv[1], commands[i].name))
			return commands[i].main(argc - 1, argv + 1);
	}
	if (argc == 2 && !strcmp(argv[1], "--help"))
		return fputs(usage, stdout) < 0;
	if (argc == 2 && !strcmp(argv[1], "--version")) {
		puts("rdmabench " RDMABENCH_VERSION);
		return 0;
	}
	fprintf(stderr,
		"rdmabench: %s%.60s%s: give lat, bw, engine, collect, search, --help or --version\n",
		argc > 1 ? "unknown command '" : "no command", argc > 1 ? argv[1] : "",
		argc > 1 ? "'" : "");
	return 2;
}

int main(int argc, char **argv)
{
	return output_end("rdmabench", run(argc, argv));
}
