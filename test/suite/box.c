// SPDX-License-Identifier: MIT
/*
 * box [-n] PROGRAM ARGUMENT...: runs one test in namespaces of its own (mounts, network, System V
 * IPC) with an empty /dev/shm, so that tests of several builds run at once. The last line of
 * standard error has the CPU time of the test, of its ended children and of the commands that box
 * runs. A test that leaves a file in /dev/shm fails. -n runs the test without namespaces and without
 * this check.
 *
 * suite.py passes box to `meson test --wrapper`: with -n for tests of packages, which need the
 * network, and for all tests if `box true` fails.
 */
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS 240000 // limit of the wait for processes that outlive the test and keep a file

// Loopback, and one more interface: Slurm and PRRTE treat a host that has only loopback as one
// without a network.
static int network_up(void)
{
	return system("ip -batch - <<'END'\n"
		      "link set lo up\n"
		      "link add box type veth peer name other\n"
		      "link set box up\n"
		      "link set other up\n"
		      "address add 198.51.100.1/24 dev box\n"
		      "END\n");
}

// Makes the namespaces, or ends the program.
static void enter(void)
{
	if (unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC) ||
		mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		mount("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777") || network_up()) {
		perror("box");
		exit(1);
	}
	// Hides the names of the host's network namespaces. The directory exists only if `ip netns`
	// has run.
	if (mount("tmpfs", "/run/netns", "tmpfs", 0, NULL) && errno != ENOENT)
		perror("box: /run/netns");
}

// Returns the number of files in /dev/shm, and prints their names if `print`.
static int left_behind(bool print)
{
	DIR *d = opendir("/dev/shm");
	int n = 0;

	for (struct dirent *e; d && (e = readdir(d));) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (print)
			fprintf(stderr, "box: left behind in /dev/shm: %s\n", e->d_name);
		n++;
	}
	if (d)
		closedir(d);
	return n;
}

// A child that has ended must not stay as a zombie: programs would treat it as alive.
static void reap(void)
{
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

// A killed program leaves its fabric (the shared memory of the software HCA) in /dev/shm. The next
// search for fabrics removes it: $BOX_CLEANER is a command that searches.
static bool shm_is_clean(void)
{
	const char *cleaner = getenv("BOX_CLEANER");

	for (int ms = 0; ms < PATIENCE_MS && left_behind(false); ms += 50) {
		reap();
		if (cleaner && system(cleaner))
			break;
		nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
	}
	return !left_behind(true);
}

// Runs the test and adopts children that outlive their parents, so that their time counts.
static int run(char **argv)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	pid_t child = fork();

	if (child < 0) {
		perror("box: fork");
		return W_EXITCODE(1, 0);
	}
	if (!child) {
		execvp(argv[0], argv);
		fprintf(stderr, "box: %s: %s\n", argv[0], strerror(errno));
		_exit(127);
	}
	// At a time limit meson signals the whole process group. box ignores the signal and waits
	// for the end of the test.
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	int status = 0;
	pid_t pid;

	while ((pid = waitpid(-1, &status, 0)) != child)
		if (pid < 0 && errno != EINTR)
			break;
	reap();
	return status;
}

static void print_time(void)
{
	struct rusage u;

	getrusage(RUSAGE_CHILDREN, &u);
	fprintf(stderr, "box: cpu %.2f\n",
		u.ru_utime.tv_sec + u.ru_stime.tv_sec +
			(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6);
}

int main(int argc, char **argv)
{
	bool own = argc < 2 || strcmp(argv[1], "-n") != 0;

	if (argc < 3 - own) {
		fprintf(stderr, "box: give a program\n");
		return 2;
	}
	if (own)
		enter();
	int status = run(argv + 2 - own);
	// A failed test may have left anything, so this does not wait for the removal of its files.
	bool clean = !own || status || shm_is_clean();

	print_time();
	if (WIFSIGNALED(status)) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
		signal(WTERMSIG(status), SIG_DFL);
		raise(WTERMSIG(status));
	}
	return WEXITSTATUS(status) ? WEXITSTATUS(status) : !clean;
}
