/* SPDX-License-Identifier: MIT */
/* rdmabench: its sub-commands. */
#include "base/args.h"
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

static const struct args_command commands[] = {
	{"lat", engine_main},
	{"bw", engine_main},
	{"engine", engine_main},
	{"collect", collect_main},
	{"search", search_main},
	{NULL, NULL},
};

int main(int argc, char **argv)
{
	return output_end("rdmabench",
		args_commands("rdmabench", usage, RDMABENCH_VERSION, commands, argc, argv));
}
