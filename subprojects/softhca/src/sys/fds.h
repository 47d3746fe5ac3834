/* SPDX-License-Identifier: MIT */
/*
 * The kinds of the descriptors that this library has opened for the program. Every close() of the
 * program looks its descriptor up, so a look-up takes no lock.
 */
#ifndef SOFTHCA_SYS_FDS_H
#define SOFTHCA_SYS_FDS_H

#include <stdbool.h>
#include <stdint.h>

enum fd_kind {
	FD_OTHER, /* not opened by this library */
	FD_DEVICE, /* an open device */
	FD_CHANNEL, /* a completion channel */
	FD_CM, /* an event channel of the connection manager */
};

/* @value: identifies the object to the code of that kind. */
struct fd_entry {
	enum fd_kind kind;
	uint64_t value;
};

/* Returns the entry of @fd. */
struct fd_entry fds_get(int fd);

/* Sets the entry of @fd. Returns 0, or -EMFILE if @fd is too high for the table. */
int fds_set(int fd, enum fd_kind kind, uint64_t value);

/* Records that @to has become a duplicate of @from. Returns 0 or -EMFILE. */
int fds_duplicate(int from, int to);

/*
 * Must be called when @fd is closed. Returns true if @fd was the last descriptor of an object
 * of this library, with the object's entry in *entry_p.
 */
bool fds_drop(int fd, struct fd_entry *entry_p);

/*
 * Must be called in a forked child: forgets all descriptors except event channels of the connection
 * manager. The value of these becomes 0, so that the child's commands do not reach its parent's
 * ids.
 */
void fds_forget(void);

#endif
