/* SPDX-License-Identifier: MIT */
/* Removal of a fabric's directory; symbolic links are removed, never followed. */
#ifndef SOFTHCA_SYS_TREE_H
#define SOFTHCA_SYS_TREE_H

/* Removes all that is in @dir but the entry @keep. */
void tree_empty(const char *dir, const char *keep);

/* Removes @dir and all that is in it. */
void tree_remove(const char *dir);

#endif
