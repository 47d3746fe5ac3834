/* SPDX-License-Identifier: MIT */
/* Runs a program on the software HCA: sets its environment and cleans up after it. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dma/forbidden.h"
#include "fabric/fabric.h"
#include "fault/fault.h"
#include "hca/config.h"
#include "member/member.h"
#include "run/inspect.h"
#include "run/preload.h"
#include "run/supervise.h"
#include "sys/sys.h"
#include "sysfs/sysfs.h"
#include "topo/topo.h"
#include "xport/chaos.h"
#include "xport/link.h"

#define BAD_USAGE 2

#define SEED_GIVE "give a seed, a number from 1"
#define LINK_GIVE "give off, real or virtual"

enum {
	OPT_BF = 256,
	OPT_UAR,
	OPT_STRICT,
	OPT_DEATH,
	OPT_MODE,
	OPT_LINK,
	OPT_CHAOS,
	OPT_FAULTS,
	OPT_VERSION
};

static const struct option long_options[] = {
	{"rails", required_argument, NULL, 'n'},
	{"topology", required_argument, NULL, 't'},
	{"fabric", required_argument, NULL, 'f'},
	{"bf", no_argument, NULL, OPT_BF},
	{"uar", required_argument, NULL, OPT_UAR},
	{"strict", optional_argument, NULL, OPT_STRICT},
	{"death", required_argument, NULL, OPT_DEATH},
	{"mode", required_argument, NULL, OPT_MODE},
	{"link", required_argument, NULL, OPT_LINK},
	{"chaos", required_argument, NULL, OPT_CHAOS},
	{"faults", required_argument, NULL, OPT_FAULTS},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, OPT_VERSION},
	{0},
};

static const char usage[] =
	"usage: softhca-run [OPTION...] PROGRAM [ARGUMENT...]\n"
	"Runs PROGRAM on emulated ConnectX adapters, under the vendor's own libraries.\n"
	"\n"
	"  -n, --rails N        N adapters mlx5_0 .. (1 to 16; default 1)\n"
	"  -t, --topology FILE  the adapters that FILE describes; see softhca(7)\n"
	"  -f, --fabric NAME    share the adapters with all programs that run with the same\n"
	"                       NAME (default: the PMIx namespace of the job, else one name\n"
	"                       for all programs of this user)\n"
	"      --bf             offer BlueFlame\n"
	"      --uar SCHEME     dynamic: allocate doorbell pages one by one, as kernels since\n"
	"                       5.7 (default); legacy: a fixed set, as older kernels\n"
	"      --strict[=abort] report mistakes in the use of verbs that real hardware does\n"
	"                       not report; abort: the first one ends the process\n"
	"      --death HOW      at_once: messages to a peer that has ended fail immediately\n"
	"                       (default); timers: after the sender's timeouts and retries\n"
	"      --mode MODE      trap: each store to a doorbell executes the requests; poll: a\n"
	"                       thread polls the doorbells, and sleeps while none is rung;\n"
	"                       auto: poll while there are cores for it, else trap (default);\n"
	"                       step: PROGRAM calls softhca_step()\n"
	"      --link MODEL     off: messages take no time (default); real: they take the time\n"
	"                       of the adapters' rate and latency; virtual: they do so on a\n"
	"                       virtual clock\n"
	"      --chaos SEED     delay effects, in a random order that the specification\n"
	"                       permits; SEED: a number from 1\n"
	"      --faults FILE    the fault rules in FILE; see softhca(7)\n"
	"  -h, --help           print this text\n"
	"      --version        print the version\n"
	"\n"
	"The exit status is PROGRAM's, 128 + n if signal n ended it, 127 if it is not found,\n"
	"126 if it cannot be executed, 125 if softhca-run failed and 2 for wrong arguments.\n";

_Noreturn static void bad(const char *what, const char *value, const char *give)
{
	fprintf(stderr, "softhca-run: %s%s%s: %s\n", what, *value ? " " : "", value, give);
	exit(BAD_USAGE);
}

/* Prints @text and exits, with an error if it cannot be written. */
_Noreturn static void print(const char *text)
{
	if (fputs(text, stdout) != EOF && !fflush(stdout))
		exit(0);
	fprintf(stderr, "softhca-run: standard output: %s\n", strerror(errno));
	exit(1);
}

static void set_rails(const char *value)
{
	char *end;
	unsigned long n = strtoul(value, &end, 10);

	if (*value < '0' || *value > '9' || *end || n < 1 || n > SOFTHCA_RAILS_MAX)
		bad("--rails", value, "give a number of adapters, 1 to 16");
	setenv("SOFTHCA_RAILS", value, 1);
	unsetenv("SOFTHCA_TOPOLOGY");
}

/* Makes the path absolute, because the program may run in another directory. */
static void set_file(const char *option, const char *variable, const char *value, const char *give)
{
	char path[PATH_MAX];

	if (!realpath(value, path))
		bad(option, value, give);
	setenv(variable, path, 1);
}

static void set_choice(const char *option, const char *variable, const char *value,
	const char *const *choices, const char *give)
{
	for (int i = 0; choices[i]; i++) {
		if (strcmp(choices[i], value))
			continue;
		setenv(variable, value, 1);
		return;
	}
	bad(option, value, give);
}

static void set_fabric(const char *value)
{
	if (!fabric_name_ok(value))
		bad("--fabric", value, FABRIC_NAME_GIVE);
	setenv("SOFTHCA_FABRIC", value, 1);
}

/* An empty variable turns chaos mode off, but an empty option is not a seed. */
static void set_chaos(const char *value)
{
	setenv("SOFTHCA_CHAOS", value, 1);
	if (!*value || chaos_from_env(&(uint64_t){0}))
		bad("--chaos", value, SEED_GIVE);
}

/* Sets the variable of the environment for an option. */
static void set_value(int option, const char *value)
{
	static const char *const modes[] = {"auto", "trap", "poll", "step", NULL};
	static const char *const links[] = {"off", "real", "virtual", NULL};
	static const char *const uars[] = {"dynamic", "legacy", NULL};
	static const char *const deaths[] = {"at_once", "timers", NULL};

	switch (option) {
	case 'n':
		set_rails(value);
		break;
	case 't':
		set_file("--topology", "SOFTHCA_TOPOLOGY", value,
			"no such file; give a topology file");
		break;
	case 'f':
		set_fabric(value);
		break;
	case OPT_UAR:
		set_choice("--uar", "SOFTHCA_UAR", value, uars, "give dynamic or legacy");
		break;
	case OPT_DEATH:
		set_choice("--death", "SOFTHCA_DEATH", value, deaths, "give at_once or timers");
		break;
	case OPT_MODE:
		set_choice("--mode", "SOFTHCA_MODE", value, modes, "give auto, trap, poll or step");
		break;
	case OPT_LINK:
		set_choice("--link", "SOFTHCA_LINK", value, links, LINK_GIVE);
		break;
	case OPT_CHAOS:
		set_chaos(value);
		break;
	case OPT_FAULTS:
		set_file("--faults", "SOFTHCA_FAULT_FILE", value,
			"no such file; give a file of fault rules");
		break;
	}
}

/* Sets strict mode. @how: NULL or "abort". Without it, a SOFTHCA_STRICT of "abort" stays. */
static void be_strict(const char *how)
{
	const char *now = getenv("SOFTHCA_STRICT");

	if (how && strcmp(how, "abort"))
		bad("--strict", how, "give --strict or --strict=abort");
	if (how || !now || strcmp(now, "abort"))
		setenv("SOFTHCA_STRICT", how ? how : "1", 1);
}

static void parse_options(int argc, char **argv)
{
	bool rails = false, topology = false;
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "+:n:t:f:h", long_options, NULL)) != -1) {
		switch (c) {
		case OPT_BF:
			setenv("SOFTHCA_BF", "1", 1);
			break;
		case OPT_STRICT:
			be_strict(optarg);
			break;
		case 'h':
			print(usage);
		case OPT_VERSION:
			print("softhca-run " SOFTHCA_VERSION "\n");
		case ':':
			bad(argv[optind - 1], "", "give it a value; see softhca-run --help");
		case '?':
			bad(argv[optind - 1], "", "unknown option; see softhca-run --help");
		default:
			rails = rails || c == 'n';
			topology = topology || c == 't';
			set_value(c, optarg);
		}
	}
	if (rails && topology)
		bad("--rails and --topology", "", "give one of them");
	if (optind == argc)
		bad("no program", "", "give one; see softhca-run --help");
}

static void bad_variable(const char *name, const char *give)
{
	char text[256];

	snprintf(text, sizeof(text), "%s=%.100s: %s", name, getenv(name), give);
	bad("environment", "", text);
}

/* Exits with status 2 if a setting is invalid. */
static void check_environment(void)
{
	struct fault_rule *rules = calloc(FAULT_RULES, sizeof(*rules));
	struct softhca_topology topology;
	char err[256];

	if (config_check(err, sizeof(err)))
		bad("environment", "", err);
	if (softhca_topology_from_env(&topology, err, sizeof(err)))
		bad("topology", "", err);
	if (rules && fault_load_env(rules, err, sizeof(err)))
		bad("faults", "", err);
	free(rules);
	if (chaos_from_env(&(uint64_t){0}))
		bad_variable("SOFTHCA_CHAOS", SEED_GIVE);
	if (link_mode_from_env() < 0)
		bad_variable("SOFTHCA_LINK", LINK_GIVE);
}

#define HWLOC_MAX (1 << 20) /* more than the description of any topology */

/*
 * hwloc does not read the emulated sysfs, so it gets the adapters as an XML file. The file is in
 * memory and exists as long as this process.
 */
static void export_hwloc(const struct softhca_topology *t)
{
	char path[64];
	int fd;

	if (getenv("HWLOC_XMLFILE") || !sys_may_make(HWLOC_MAX))
		return;
	fd = memfd_create("softhca-hwloc.xml", MFD_CLOEXEC);
	if (fd < 0)
		return;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), fd);
	if (softhca_hwloc_write(path, t)) {
		close(fd);
		return;
	}
	setenv("HWLOC_XMLFILE", path, 1);
	setenv("HWLOC_THISSYSTEM", "1", 1);
}

static void join(void)
{
	int rc = member_attach();

	if (rc == -EACCES)
		bad("fabric", "", "it belongs to another user; give --fabric another name");
	if (rc == -EEXIST)
		bad("fabric", "", member_why());
	if (rc) {
		fprintf(stderr, "softhca-run: %s\n", member_why());
		exit(125);
	}
}

/*
 * Opens /dev/null in the place of each standard file that is closed. Otherwise another file would
 * get its number, and the guardian would replace that file. Writing fails, as to a closed file. The
 * program finds them closed.
 */
static void open_standard_files(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	bool nested = getenv("SOFTHCA_RUN") != NULL;
	char err[256];
	int rc;

	open_standard_files();
	parse_options(argc, argv);
	check_environment();
	join();
	rc = preload_softhca(err, sizeof(err));
	if (rc) {
		fprintf(stderr, "softhca-run: %s\n", err);
		member_detach();
		return 125;
	}
	export_hwloc(&fabric_self.arena->topo);
	if (!nested)
		fprintf(stderr, "softhca-run: emulated adapters: all figures describe software, "
				"not a network\n");
	if (!nested && dma_filtered())
		fputs("softhca-run: messages between processes will fail: " DMA_FILTERED "\n",
			stderr);
	inspect_program(argv[optind]);
	setenv("SOFTHCA_RUN", "1", 1);
	return supervise(argv + optind);
}
