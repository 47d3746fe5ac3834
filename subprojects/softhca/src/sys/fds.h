/* SPDX-License-Identifier: MIT */
/*
 * The kinds of the descriptors that this library has opened, for the program or for itself. Every
 * close() of the program looks its descriptor up, so a look-up takes no lock.
 */
#ifndef SOFTHCA_SYS_FDS_H
#define SOFTHCA_SYS_FDS_H

#include <stdbool.h>
#include <stdint.h>

enum fd_kind {
	FD_OTHER, /* not opened by this library */
	FD_DEVICE, /* an open device */
	/* The values of the next three are the numbers of their FIFOs (hca/event.h). */
	FD_CHANNEL, /* a completion channel */
	FD_ASYNC, /* the async fd of a context */
	FD_CM, /* an event channel of the connection manager */
	FD_OWN, /* the library's own; see fds_own() */
};

/* @value: identifies the object to the code of that kind. */
struct fd_entry {
	enum fd_kind kind;
	uint64_t value;
};

/* Returns the entry of @fd. */
struct fd_entry fds_get(int fd);

/* Returns the lowest descriptor with this entry, or -1. */
int fds_find(enum fd_kind kind, uint64_t value);

/* Returns the lowest descriptor from @fd on whose kind is not FD_OTHER, or -1. */
int fds_next(unsigned fd);

/* Sets the entry of @fd. Returns 0, or -EMFILE if @fd is too high for the table. */
int fds_set(int fd, enum fd_kind kind, uint64_t value);

/*
 * Many programs close all descriptors from some number on. So each descriptor that the library keeps
 * and cannot do without gets a number from 64 on if one is free, and is entered as FD_OWN. The shim
 * (shim/fds.c) does not close it, and calls fds_move() before a dup2() onto it.
 * *fd_p: the open descriptor, which this function and fds_move() change. It becomes -1 if the
 * program has closed the descriptor in another thread since the library opened it. If the program
 * also has a file of its own with the number already, that file is taken for the library's: this is
 * not noticed.
 */
void fds_own(int *fd_p);

/*
 * Closes such a descriptor, if *fd_p is not -1, and sets *fd_p to -1. If another thread calls dup2()
 * onto the descriptor in the same moment, the program's file may be closed.
 */
void fds_disown(int *fd_p);

/*
 * Does the same without closing it: the program has closed the descriptor by a system call of its
 * own, and may have another file with its number.
 */
void fds_lose(int *fd_p);

/*
 * fds_hold() is to be called before fds_move() and before fork(), and fds_release() after the
 * dup2(), and after fork() in both processes. No two threads are between these calls: otherwise a
 * child would have a descriptor without knowing it, and keep the locks of its parent. Signals are
 * blocked between them, because a handler may fork. Between these calls no descriptor of kind FD_OWN
 * gets another number.
 */
void fds_hold(void);
void fds_release(void);

/*
 * Gives another number to the descriptor @fd of kind FD_OWN. Returns 1, and then the caller must
 * close or replace @fd; 0 if @fd is not of that kind; or -errno.
 */
int fds_move(int fd);

/*
 * Records that @to has become a duplicate of @from, which may be FD_OTHER. Returns 0 or -EMFILE.
 */
int fds_duplicate(int from, int to);

/*
 * Must be called when @fd is closed. Returns true if @fd was the last descriptor of an object
 * of this library, with the object's entry in *entry_p.
 */
bool fds_drop(int fd, struct fd_entry *entry_p);

/*
 * Must be called in a forked child, before fds_disown(): forgets all descriptors except event
 * channels of the connection manager. The value of these becomes 0, so that the child's commands do
 * not reach its parent's ids.
 */
void fds_forget(void);

#endif
