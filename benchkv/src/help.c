/* SPDX-License-Identifier: MIT */
#include "help.h"

static const char head[] =
	"Usage: benchkv [BACKEND] [OPTION]...\n"
	"A distributed key-value store and its load, one rank per process of the job:\n"
	"  mpirun -np 2 benchkv delegation --daemons 2 --clients 4 --queue-depth 32\n"
	"Every reply is checked, and every key that was put is read back at the end. Without a\n"
	"PMIx launcher it is a single rank.\n"
	"\n"
	"Backends: the way of a request to another rank (benchkv BACKEND --help: its options)\n"
	"  delegation           client, delegrpc, daemon, copyrpc; the default\n"
	"  meta                 client, shmipc, daemon, flux, the rank's daemon, copyrpc\n"
	"  direct               client, copyrpc: each client has endpoints of its own\n"
	"  ucx                  client, UCX active messages\n"
	"or a command: measure  what the machine needs (benchkv measure --help)\n";

static const char *const about[] = {
	[BACKEND_DELEGATION] =
		"Usage: benchkv delegation [OPTION]...\n"
		"Clients write their requests for other ranks into a ring of shared memory (delegrpc),\n"
		"from which a daemon takes them to the rank (copyrpc).\n",
	[BACKEND_META] =
		"Usage: benchkv meta [OPTION]...\n"
		"Clients give their requests for other ranks to the daemon of the key's shard (shmipc),\n"
		"this to the daemon that has the endpoint of the rank (flux), this to the rank "
		"(copyrpc).\n",
	[BACKEND_DIRECT] =
		"Usage: benchkv direct [OPTION]...\n"
		"Each client has a copyrpc context of its own, and in it an endpoint for each daemon of\n"
		"the other ranks.\n",
	[BACKEND_UCX] =
		"Usage: benchkv ucx [OPTION]...\n"
		"Each client has a UCX worker of its own, and in it an endpoint for each daemon of the\n"
		"other ranks; requests and replies are active messages. UCX_TLS is rc_x if it is not\n"
		"set.\n",
};

static const char size_options[] =
	"\n"
	"Size\n"
	"  --daemons N          daemon threads, one shard each, per rank (1 to 64; 1)\n"
	"  --clients N          client threads per rank (1 to 1024; 2)\n"
	"  --queue-depth N      requests in flight per client (1 to 4096; 8)\n"
	"  --duration S         seconds of a run (0.001 to 86400; 3)\n"
	"  --ops N              instead: operations of a run, over all clients\n"
	"  --runs N             runs, one after the other (1 to 1000; 1)\n"
	"  --warmup S           seconds before those of each run, which are checked but not\n"
	"                       measured (0 to 86400; 0)\n"
	"  --rate R             operations per second of all clients together, each made when it\n"
	"                       is due, as far as the queue depth permits (1 to 10^12; as fast\n"
	"                       as replies come)\n"
	"Work\n"
	"  --key-range N        keys 0 to N-1 (1 to 2^32; 1048576)\n"
	"  --read-ratio R       share of gets (0 to 1; 0.5)\n"
	"  --distribution D     uniform, or zipf:THETA (above 0, at most 10; uniform)\n"
	"  --preload yes|no     store every key before the first run (yes)\n"
	"  --seed N             of the operation streams (0 to 2^63-1; 1)\n"
	"Network\n"
	"  --device NAME        mlx5 device; auto: the first one, else a software HCA (auto)\n";

static const char ring_option[] =
	"  --ring-size BYTES    of each endpoint: a power of two from 4096 to 2^30; auto: eight\n"
	"                       times what can be in flight on it (auto)\n";

static const char wait_option[] =
	"  --wait poll|event    idle daemons look again after a nap, or sleep on descriptors until\n"
	"                       there is something (poll)\n";

static const char daemon_options[] =
	"  --net-daemons N      daemons that own endpoints, that of rank r being daemon r mod N\n"
	"                       (1 to --daemons; 1 for delegation, all for meta)\n"
	"  --control C          of batching: none, budget:N, threshold:T,N, adaptive-budget,\n"
	"                       hold:US, adaptive-hold, little, auto, auto:K,B; US in\n"
	"                       microseconds (auto)\n"
	"  --stagger US         microseconds by which the first calls to rank r + 1 come later than\n"
	"                       those to rank r (0 to 1000000; 0)\n"
	"  --machine FILE       from which auto takes K and B, instead of measuring at the start\n"
	"                       (none)\n"
	"  --trace FILE         what the daemons with endpoints do, every millisecond: FILE.RANK\n"
	"                       (none)\n"
	"  --decisions FILE     what the control has decided, and why, as CSV: FILE.RANK (none)\n";

static const char other_options[] =
	"Other\n"
	"  --pin yes|no         a core per thread, when there are enough (yes)\n"
	"  --timeout S          seconds to wait for a reply, and for ranks that start; for their\n"
	"                       end of a run twice that (1 to 86400; 30)\n"
	"  --hgrm FILE          percentiles of the latency in microseconds, as HdrHistogram\n"
	"                       writes them, from rank 0\n"
	"  --json FILE          one JSON object, from rank 0; - is standard output\n"
	"  --dry-run            print what would run where, and stop\n"
	"  --help, --version\n"
	"\n"
	"Status: 0 all replies and keys verified, 1 an error, 2 a bad command line.\n";

static const char measure_help[] =
	"Usage: benchkv measure [--device NAME] [--machine FILE]\n"
	"Measures, in half a second, what the device and this machine need: the round trip of a lone\n"
	"call, the time per WRITE, and the CPU time per message, and which K and B the control auto\n"
	"derives from them.\n"
	"\n"
	"  --device NAME        mlx5 device; auto: the first one, else a software HCA (auto)\n"
	"  --machine FILE       writes a file for --machine of benchkv and of benchkv-sim (none)\n";

void help_measure(FILE *out)
{
	fputs(measure_help, out);
}

void help_all(FILE *out)
{
	fputs(head, out);
	fputs(size_options, out);
	fputs(ring_option, out);
	fputs(wait_option, out);
	fputs(daemon_options, out);
	fputs(other_options, out);
}

void help_backend(enum backend b, FILE *out)
{
	fputs(about[b], out);
	fputs(size_options, out);
	if (b != BACKEND_UCX) {
		fputs(ring_option, out);
		fputs(wait_option, out);
	}
	if (!backend_is_direct(b))
		fputs(daemon_options, out);
	fputs(other_options, out);
}
