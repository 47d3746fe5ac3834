/* SPDX-License-Identifier: MIT */
/*
 * A doorbell store raises SIGSEGV or SIGBUS, except during the time in which the polling thread
 * polls the doorbell page (sched/doors.h). A store that the library's handler cannot decode is
 * executed by the processor, as a single step, which raises SIGTRAP (trap/step.h). So the program
 * must neither replace the handlers nor block these signals. The kernel ends a process that faults
 * while the signal is blocked. The program's own handlers are kept, and called for its own faults.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#include "shim/owner.h"
#include "shim/real.h"
#include "trap/trap.h"

/*
 * Copies @set to *copy_p without the signals that must not be blocked. Returns @copy_p, or NULL if
 * @set is NULL.
 */
static const sigset_t *deliverable(const sigset_t *set, sigset_t *copy_p)
{
	if (!set)
		return NULL;
	*copy_p = *set;
	sigdelset(copy_p, SIGSEGV);
	sigdelset(copy_p, SIGBUS);
	sigdelset(copy_p, SIGTRAP);
	return copy_p;
}

/*
 * Calls trap_set_action() if the signal is one of this library, and this process is the one in which
 * the library was initialised (not a child).
 */
static bool set_action(int sig, const struct sigaction *act, struct sigaction *old)
{
	return trap_owns(sig) && owner_is_self() && trap_set_action(sig, act, old);
}

EXPORT int sigaction(int sig, const struct sigaction *restrict act, struct sigaction *restrict old)
{
	struct sigaction copy;

	if (set_action(sig, act, old))
		return 0;
	if (!act)
		return REAL(sigaction)(sig, act, old);
	copy = *act;
	deliverable(&act->sa_mask, &copy.sa_mask);
	return REAL(sigaction)(sig, &copy, old);
}

EXPORT sighandler_t signal(int sig, sighandler_t handler)
{
	struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;

	if (set_action(sig, &act, &old))
		return old.sa_handler;
	return REAL(signal)(sig, handler);
}

EXPORT int sigprocmask(int how, const sigset_t *restrict set, sigset_t *restrict old)
{
	sigset_t copy;

	return REAL(sigprocmask)(how, how == SIG_UNBLOCK ? set : deliverable(set, &copy), old);
}

EXPORT int pthread_sigmask(int how, const sigset_t *restrict set, sigset_t *restrict old)
{
	sigset_t copy;

	return REAL(pthread_sigmask)(how, how == SIG_UNBLOCK ? set : deliverable(set, &copy), old);
}

/* Sets the signal mask with which a thread will be created. */
EXPORT int pthread_attr_setsigmask_np(pthread_attr_t *attr, const sigset_t *set)
{
	sigset_t copy;

	return REAL(pthread_attr_setsigmask_np)(attr, deliverable(set, &copy));
}

/*
 * The older functions, whose calls of sigaction() and sigprocmask() are internal to libc. Some
 * headers do not declare bsd_signal(). A program in strict C calls __sysv_signal() as signal().
 */
sighandler_t bsd_signal(int sig, sighandler_t handler);

static sighandler_t set_handler(int sig, sighandler_t handler, int flags)
{
	struct sigaction act = {.sa_handler = handler, .sa_flags = flags}, old;

	if (handler == SIG_ERR) {
		errno = EINVAL;
		return SIG_ERR;
	}
	return sigaction(sig, &act, &old) ? SIG_ERR : old.sa_handler;
}

/* Blocks or unblocks one signal. *was_p: whether it was blocked before. Returns 0 or -1. */
static int mask_one(int how, int sig, bool *was_p)
{
	sigset_t set, old;

	sigemptyset(&set);
	if (sigaddset(&set, sig) || sigprocmask(how, &set, &old))
		return -1;
	*was_p = sigismember(&old, sig) == 1;
	return 0;
}

EXPORT sighandler_t __sysv_signal(int sig, sighandler_t handler)
{
	return set_handler(sig, handler, (int)SA_RESETHAND | SA_NODEFER);
}

EXPORT sighandler_t sysv_signal(int sig, sighandler_t handler)
{
	return __sysv_signal(sig, handler);
}

EXPORT sighandler_t bsd_signal(int sig, sighandler_t handler)
{
	return signal(sig, handler);
}

EXPORT sighandler_t ssignal(int sig, sighandler_t handler)
{
	return signal(sig, handler);
}

EXPORT sighandler_t sigset(int sig, sighandler_t handler)
{
	bool hold = handler == SIG_HOLD, was;
	struct sigaction old;
	sighandler_t before;

	if (hold)
		before = sigaction(sig, NULL, &old) ? SIG_ERR : old.sa_handler;
	else
		before = set_handler(sig, handler, 0);
	if (before == SIG_ERR || mask_one(hold ? SIG_BLOCK : SIG_UNBLOCK, sig, &was))
		return SIG_ERR;
	return was ? SIG_HOLD : before;
}

EXPORT int sigignore(int sig)
{
	return set_handler(sig, SIG_IGN, 0) == SIG_ERR ? -1 : 0;
}

EXPORT int sighold(int sig)
{
	bool was;

	return mask_one(SIG_BLOCK, sig, &was);
}

/*
 * @word: one bit for each of the signals 1 to 31. Returns the old mask in the same form, or -1.
 */
static int change_word(int how, int word)
{
	sigset_t set, old;
	unsigned was = 0;

	sigemptyset(&set);
	for (int sig = 1; sig < 32; sig++)
		if ((unsigned)word >> (sig - 1) & 1)
			sigaddset(&set, sig);
	if (sigprocmask(how, &set, &old))
		return -1;
	for (int sig = 1; sig < 32; sig++)
		if (sigismember(&old, sig) == 1)
			was |= 1u << (sig - 1);
	return (int)was;
}

EXPORT int sigblock(int word)
{
	return change_word(SIG_BLOCK, word);
}

EXPORT int sigsetmask(int word)
{
	return change_word(SIG_SETMASK, word);
}
