/* SPDX-License-Identifier: MIT */
/* Removal of directory trees. Symbolic links are removed, never followed. */
#ifndef SOFTHCA_SYS_TREE_H
#define SOFTHCA_SYS_TREE_H

/* Removes everything in @dir except the entry @keep. */
void tree_empty(const char *dir, const char *keep);

/* Removes @dir and everything in it, the entry "lock" last. */
void tree_remove(const char *dir);

#endif
