/* SPDX-License-Identifier: MIT */
/*
 * A doorbell store raises SIGSEGV or SIGBUS, and single steps raise SIGTRAP. So the program must
 * neither replace the handlers nor block these signals. The kernel ends a process that faults while
 * the signal is blocked. The program's own handlers are kept, and called for its own faults.
 */
#include <pthread.h>
#include <signal.h>
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

/* Does trap_set_action() for a signal of this library, unless the process is not the library's. */
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
