/* SPDX-License-Identifier: MIT */
/*
 * The kinds of the descriptors that this library has given to the program. Every
 * close() of the program looks here, so a look takes no lock.
 */
#ifndef SOFTHCA_SYS_FDS_H
#define SOFTHCA_SYS_FDS_H

#include <stdbool.h>
#include <stdint.h>

enum fd_kind {
	FD_OTHER, /* not ours */
	FD_DEVICE, /* an open device */
	FD_CHANNEL, /* a completion channel */
	FD_CM, /* an event channel of the connection manager */
};

/* @value: identifies the object to the owner of the kind. */
struct fd_entry {
	enum fd_kind kind;
	uint64_t value;
};

/* FD_OTHER for every descriptor that was never set. */
struct fd_entry fds_get(int fd);

/* Returns 0, or -EMFILE if @fd is too high to be tracked. */
int fds_set(int fd, enum fd_kind kind, uint64_t value);

/* @to has become a duplicate of @from. Returns 0 or -EMFILE. */
int fds_duplicate(int from, int to);

/*
 * @fd is being closed. Returns whether it was one of ours and the last one that stands for its
 * object, which is then in *entry_p.
 */
bool fds_drop(int fd, struct fd_entry *entry_p);

/*
 * In a forked child: no descriptor is ours any more, but for event channels of the connection
 * manager, whose value is now 0: what the child writes there must not get to its parent.
 */
void fds_forget(void);

#endif
