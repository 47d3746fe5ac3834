/* SPDX-License-Identifier: MIT */
/*
 * There are three processes: this one, the program, and a guardian in a session of its own. The
 * guardian holds one end of a socket pair. It writes a byte when it has left this process's
 * session. This process starts the program only after that, so a signal to the program's whole
 * process group never reaches the guardian. The guardian reads pids from the socket. The first one
 * is the program's pid: the program's process sends it before the exec, so that the guardian gets
 * it even if this process dies early. A pid of 0 means that this process has cleaned up. End of
 * file means that this process has died; then the guardian cleans up. In both cases the guardian
 * stays, without the program's standard input, output and error, until the fabric has no members:
 * background processes of the program may still use the fabric, and may be killed.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fabric/fabric.h"
#include "fabric/sweep.h"
#include "run/supervise.h"

#define GRACE_MS 2000 /* between SIGTERM and SIGKILL */

static const int passed_on[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH,
	SIGALRM};

static void clean_up(void)
{
	fabric_let_go();
	fabric_sweep();
}

static bool read_all(int fd, void *buf, size_t n)
{
	ssize_t got;

	do
		got = read(fd, buf, n);
	while (got < 0 && errno == EINTR);
	return got == (ssize_t)n;
}

/* Errors are ignored: the other process may have been killed. */
static void tell(int fd, const void *buf, size_t n)
{
	ssize_t sent = send(fd, buf, n, MSG_NOSIGNAL);

	(void)sent;
}

/*
 * Waits for the program, which is not a child of the guardian. The program got SIGTERM when its
 * parent died; if it does not end, it is killed.
 */
static void end_orphan(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	if (fd < 0)
		return;
	if (poll(&p, 1, GRACE_MS) == 0) {
		syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
		poll(&p, 1, -1);
	}
}

/*
 * Replaces standard input, output and error by /dev/null. Otherwise a process that reads the
 * program's output until end of file would wait for this process, too.
 */
static void leave_terminal(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int i = 0; i < 3 && fd >= 0; i++)
		dup2(fd, i);
}

_Noreturn static void guard(int fd)
{
	int program = -1;
	pid_t pid = 0;
	bool told;

	setsid(); /* gets no signals from the terminal */
	tell(fd, "", 1);
	leave_terminal();
	/*
	 * The pidfd is opened at once, because after softhca-run has died another process may have
	 * the same pid.
	 */
	while ((told = read_all(fd, &pid, sizeof(pid))) && pid)
		program = (int)syscall(SYS_pidfd_open, pid, 0);
	if (!told) {
		end_orphan(program);
		clean_up();
	}
	close(fd); /* lets softhca-run end */
	fabric_outlast();
	_exit(0);
}

_Noreturn static void execute(char **argv, pid_t parent, int guardian_fd, const sigset_t *mask)
{
	pid_t self = getpid();
	int rc;

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(125); /* the parent died before prctl() */
	tell(guardian_fd, &self, sizeof(self));
	sigprocmask(SIG_SETMASK, mask, NULL);
	execvp(argv[0], argv);
	rc = errno;
	fprintf(stderr, "softhca-run: %s: %s\n", argv[0], strerror(rc));
	_exit(rc == ENOENT || rc == ENOTDIR ? 127 : 126);
}

/* Passes signals on until the program has ended; returns its wait status. */
static int wait_for(pid_t program, const sigset_t *signals)
{
	siginfo_t si;
	int status;

	for (;;) {
		if (sigwaitinfo(signals, &si) < 0)
			continue;
		if (si.si_signo == SIGCHLD) {
			if (waitpid(program, &status, WNOHANG) == program)
				return status;
			continue;
		}
		/* Signals from the terminal have reached the whole process group already. */
		if (si.si_code <= 0)
			kill(program, si.si_signo);
	}
}

static void block(sigset_t *signals, sigset_t *mask)
{
	sigemptyset(signals);
	sigaddset(signals, SIGCHLD);
	for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++)
		sigaddset(signals, passed_on[i]);
	/* The parent may have left SIGCHLD ignored; waitpid() would then get no status. */
	signal(SIGCHLD, SIG_DFL);
	sigprocmask(SIG_BLOCK, signals, mask);
}

static pid_t start_guardian(int *fd_p)
{
	int fds[2];
	char ready;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		return -1;
	pid = fork();
	if (!pid) {
		close(fds[1]);
		guard(fds[0]);
	}
	close(fds[0]);
	*fd_p = fds[1];
	if (pid > 0)
		read_all(fds[1], &ready, 1); /* or end of file, if the guardian was killed */
	return pid;
}

static int run(char **argv, int guardian_fd, const sigset_t *signals, const sigset_t *mask)
{
	pid_t self = getpid(), program = fork();
	int status;

	if (!program)
		execute(argv, self, guardian_fd, mask);
	if (program < 0) {
		perror("softhca-run: fork");
		return 125;
	}
	status = wait_for(program, signals);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int supervise(char **argv)
{
	sigset_t signals, mask;
	const pid_t cleaned_up = 0;
	pid_t guardian;
	int fd, status;
	char end;

	block(&signals, &mask);
	guardian = start_guardian(&fd);
	if (guardian < 0) {
		perror("softhca-run: guardian");
		clean_up(); /* there is no program yet */
		return 125;
	}
	status = run(argv, fd, &signals, &mask);
	clean_up();
	tell(fd, &cleaned_up, sizeof(cleaned_up));
	read_all(fd, &end, 1); /* until the guardian closes its end */
	close(fd);
	waitpid(guardian, NULL, WNOHANG);
	return status;
}
