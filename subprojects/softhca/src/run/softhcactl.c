/* SPDX-License-Identifier: MIT */
/* Shows the fabrics of this user, and makes links and messages fail at run time. */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fabric/fabric.h"
#include "fabric/sweep.h"
#include "fault/fault.h"
#include "hca/config.h"
#include "hca/port.h"
#include "member/member.h"
#include "member/settings.h"
#include "packet/packet.h"
#include "run/record.h"
#include "run/show.h"

#define BAD_USAGE 2

static const struct option long_options[] = {
	{"fabric", required_argument, NULL, 'f'},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{0},
};

static const char usage[] =
	"usage: softhcactl [-f NAME] COMMAND\n"
	"Shows the emulated adapters of running programs, and makes links and messages fail.\n"
	"\n"
	"  list                      print the fabrics of this user\n"
	"  show                      print adapters, processes and QPs of a fabric\n"
	"  link DEVICE up|down       plug in or pull out the cable of an adapter\n"
	"  gid DEVICE INDEX ADDRESS  replace an address of an adapter; -: remove it\n"
	"  fault add KEY=VALUE...    add a rule for later messages; see softhca(7)\n"
	"  fault list                print the rules, and how many messages each has matched\n"
	"                            and affected\n"
	"  fault clear [NUMBER]      remove a rule, or all rules\n"
	"  capture [--qp N] FILE     write to a pcapng file the packets that a network would\n"
	"                            carry, until a signal or until the last program ends;\n"
	"                            -: standard output\n"
	"\n"
	"  -f, --fabric NAME  the fabric (default: as softhca-run chooses it)\n"
	"  -h, --help         print this text\n"
	"      --version      print the version\n";

_Noreturn __attribute__((format(printf, 2, 3))) static void quit(int status, const char *fmt, ...)
{
	va_list ap;

	if (fabric_self.arena)
		member_detach();
	fputs("softhcactl: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(status);
}

static void finish_output(void)
{
	if (fflush(stdout))
		quit(1, "standard output: %s", strerror(errno));
}

/* Returns the name of the fabric that the environment names. */
static const char *chosen_name(void)
{
	static char name[FABRIC_NAME_MAX + 1];

	fabric_name(name);
	return name;
}

/* Returns true if there is a fabric with this name. */
static int is_name(const char *name, void *wanted)
{
	return !strcmp(name, wanted);
}

/* Joins an existing fabric, which must have a living member. */
static void join(void)
{
	const char *name = chosen_name();
	int rc;

	fabric_sweep();
	rc = fabric_each(is_name, (void *)name);
	if (rc < 0)
		quit(1, "/dev/shm: %s", strerror(-rc));
	if (!rc)
		quit(1, "no fabric '%s': give --fabric a name from 'softhcactl list'", name);
	rc = member_attach();
	if (rc)
		quit(1, "%s: %s", name, member_why());
}

/* Inspects a fabric in a child process, because a process can join only one fabric. */
static int list_one(const char *name, void *arg)
{
	int status;
	pid_t pid;

	if (!fabric_name_ok(name))
		return 0; /* not a fabric */
	finish_output();
	pid = fork();
	if (!pid) {
		setenv("SOFTHCA_FABRIC", name, 1);
		if (member_attach())
			_exit(0); /* it cannot be joined: of another version, for example */
		show_summary(stdout, name);
		member_detach();
		_exit(fflush(stdout) ? errno : 0);
	}
	if (pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status))
		quit(1, "standard output: %s", strerror(WEXITSTATUS(status)));
	return 0;
}

static void cmd_list(char **argv)
{
	int rc;

	fabric_sweep();
	rc = fabric_each(list_one, NULL);
	if (rc)
		quit(1, "/dev/shm: %s", strerror(-rc));
}

static void cmd_show(char **argv)
{
	join();
	show_fabric(stdout, chosen_name());
}

/*
 * Returns the index of the adapter @name of the joined fabric. Ends the program if there is no such
 * adapter.
 */
static uint32_t find_adapter(const char *what, const char *name)
{
	const struct softhca_topology *t = &fabric_self.arena->topo;
	uint32_t i = softhca_topology_find(t, name);

	if (i == t->nrails)
		quit(BAD_USAGE, "%s %s: no such adapter; give one from 'softhcactl show'", what,
			name);
	return i;
}

static void cmd_link(char **argv)
{
	bool up = !strcmp(argv[1], "up");
	sigset_t saved;
	uint32_t i;

	if (!up && strcmp(argv[1], "down"))
		quit(BAD_USAGE, "link %s %s: give up or down", argv[0], argv[1]);
	join();
	i = find_adapter("link", argv[0]);
	if (fabric_enter(&saved))
		_exit(1); /* not exit(): the interrupted code may hold a lock of libc */
	port_set_link(i, up);
	fabric_leave(&saved);
}

static void cmd_gid(char **argv)
{
	uint8_t gid[16] = {0};
	char *end;
	unsigned long index = strtoul(argv[1], &end, 10);
	sigset_t saved;
	uint32_t i;
	int rc;

	if (*argv[1] < '0' || *argv[1] > '9' || *end || index >= SOFTHCA_GIDS_MAX)
		quit(BAD_USAGE, "gid %s %s: give the index of an entry of the GID table", argv[0],
			argv[1]);
	if (strcmp(argv[2], "-") && !softhca_gid_read(argv[2], gid))
		quit(BAD_USAGE, "gid %s %s: give an IPv6 or IPv4 address, or -", argv[0], argv[2]);
	join();
	i = find_adapter("gid", argv[0]);
	if (fabric_enter(&saved))
		_exit(1); /* not exit(): the interrupted code may hold a lock of libc */
	rc = port_set_gid(i, (uint32_t)index, gid);
	fabric_leave(&saved);
	if (rc)
		quit(BAD_USAGE, "gid %s %s %s: %s", argv[0], argv[1], argv[2],
			rc == -EINVAL ? "no such entry" :
			rc == -EEXIST ? "an adapter has this address" :
					"the adapter has sockets at its addresses (udp=on)");
}

/* Adds the rule whose text consists of all arguments. */
static void cmd_fault_add(char **argv)
{
	char text[4 * FAULT_TEXT] = "", err[256];
	struct fault_rule *copy = calloc(FAULT_RULES, sizeof(*copy));
	const char *stray;
	size_t n = 0;
	sigset_t saved;
	int rc;

	for (; *argv && n < sizeof(text); argv++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s ", *argv);
	if (n >= sizeof(text))
		quit(BAD_USAGE, "fault add: give a shorter rule");
	if (!copy)
		quit(1, "fault add: %s", strerror(ENOMEM));
	rc = fault_parse(text, "fault", copy, err, sizeof(err));
	if (rc)
		quit(BAD_USAGE, "%s", err);
	if (!copy[0].action)
		quit(BAD_USAGE, "fault add: no rule; give at least action=...");
	join();
	stray = fault_stray(copy, &fabric_self.arena->topo);
	if (stray)
		find_adapter("fault add:", stray);
	free(copy);
	if (fabric_enter(&saved))
		_exit(1); /* not exit(): the interrupted code may hold a lock of libc */
	rc = fault_parse(text, "fault", fabric_self.arena->faults, err, sizeof(err));
	fault_changed(fabric_self.arena);
	fabric_leave(&saved);
	if (rc)
		quit(1, "%s", err);
}

static void cmd_fault_list(char **argv)
{
	join();
	show_faults(stdout);
}

/* Removes rule @n, or all rules if @n is 0. Returns true if @n is not 0 and the rule existed. */
static bool clear_faults(unsigned long n)
{
	struct fault_rule *rules = fabric_self.arena->faults;
	sigset_t saved;
	bool found;

	if (fabric_enter(&saved))
		_exit(1); /* not exit(): the interrupted code may hold a lock of libc */
	found = n && rules[n - 1].action;
	if (n)
		memset(&rules[n - 1], 0, sizeof(*rules));
	else
		memset(rules, 0, FAULT_RULES * sizeof(*rules));
	fault_changed(fabric_self.arena);
	fabric_leave(&saved);
	return found;
}

static void cmd_fault_clear(char **argv)
{
	char *end = NULL;
	unsigned long n = argv[0] ? strtoul(argv[0], &end, 10) : 0;
	bool found = n >= 1 && n <= FAULT_RULES && !*end;

	if (argv[0] && !found)
		quit(BAD_USAGE, "fault clear %s: give a number from 'softhcactl fault list'",
			argv[0]);
	join();
	found = clear_faults(argv[0] ? n : 0);
	if (argv[0] && !found)
		quit(BAD_USAGE, "fault clear %s: no such rule; see 'softhcactl fault list'",
			argv[0]);
}

static uint32_t qp_number(const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 0);

	if (*text < '0' || *text > '9' || *end || !n || n > QPN_MASK)
		quit(BAD_USAGE, "capture --qp %s: give a QP number from 'softhcactl show'", text);
	return (uint32_t)n;
}

static void cmd_capture(char **argv)
{
	uint32_t qpn = 0;
	char err[512];

	if (!strncmp(argv[0], "--qp=", 5))
		qpn = qp_number(*argv++ + 5);
	else if (!strcmp(argv[0], "--qp") && argv[1])
		qpn = qp_number((argv += 2)[-1]);
	if (!argv[0] || argv[1] || (argv[0][0] == '-' && argv[0][1]))
		quit(BAD_USAGE, "capture: give [--qp N] and one FILE, or - for standard output");
	join();
	if (record(argv[0], qpn, err, sizeof(err)))
		quit(1, "capture: %s", err);
}

static const struct command {
	const char *name, *sub;
	int min, max; /* number of arguments */
	void (*run)(char **argv);
} commands[] = {
	{"list", NULL, 0, 0, cmd_list},
	{"show", NULL, 0, 0, cmd_show},
	{"link", NULL, 2, 2, cmd_link},
	{"gid", NULL, 3, 3, cmd_gid},
	{"fault", "add", 1, 32, cmd_fault_add},
	{"fault", "list", 0, 0, cmd_fault_list},
	{"fault", "clear", 0, 1, cmd_fault_clear},
	{"capture", NULL, 1, 3, cmd_capture},
};

static void run(int argc, char **argv)
{
	for (size_t i = 0; argc && i < sizeof(commands) / sizeof(commands[0]); i++) {
		const struct command *c = &commands[i];
		int words = c->sub ? 2 : 1;

		if (strcmp(argv[0], c->name) || (c->sub && (argc < 2 || strcmp(argv[1], c->sub))))
			continue;
		if (argc - words < c->min || argc - words > c->max)
			break;
		c->run(argv + words);
		return;
	}
	quit(BAD_USAGE, "give a command with its arguments; see softhcactl --help");
}

static void set_fabric(const char *name)
{
	if (!fabric_name_ok(name))
		quit(BAD_USAGE, "--fabric %s: " FABRIC_NAME_GIVE, name);
	setenv("SOFTHCA_FABRIC", name, 1);
}

static void check_environment(void)
{
	char err[256];

	if (config_check(err, sizeof(err)))
		quit(BAD_USAGE, "environment: %s", err);
}

int main(int argc, char **argv)
{
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "+f:h", long_options, NULL)) != -1) {
		switch (c) {
		case 'f':
			set_fabric(optarg);
			break;
		case 'h':
			fputs(usage, stdout);
			finish_output();
			return 0;
		case 'V':
			puts("softhcactl " SOFTHCA_VERSION);
			finish_output();
			return 0;
		default:
			if (optopt && optopt != 'V')
				quit(BAD_USAGE,
					"-%c: unknown option, or no value; see softhcactl --help",
					optopt);
			quit(BAD_USAGE,
				"%s: unknown option, or it has no value; see softhcactl --help",
				argv[optind - 1]);
		}
	}
	check_environment();
	settings_forget(); /* a fabric need not have the settings of the environment */
	run(argc - optind, argv + optind);
	finish_output();
	if (fabric_self.arena)
		member_detach();
	return 0;
}
