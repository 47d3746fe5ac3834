/* SPDX-License-Identifier: MIT */
#ifndef SOFTHCA_RUN_PRELOAD_H
#define SOFTHCA_RUN_PRELOAD_H

/*
 * Adds libsofthca.so at the end of LD_PRELOAD, because a sanitizer's run-time must come first. The
 * library is searched for in the build directory or installation that contains this program. A path
 * with a colon or blank, which separate the entries of LD_PRELOAD, is added through a symbolic link
 * in the fabric's directory, so the caller must have joined the fabric. Returns 0, or -errno with
 * one line in err: -ENOENT if there is no library, -EINVAL if that link leads to another library,
 * -ENOMEM.
 */
int preload_softhca(char *err, size_t errlen);

#endif
