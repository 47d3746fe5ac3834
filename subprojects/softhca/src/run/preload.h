/* SPDX-License-Identifier: MIT */
#ifndef SOFTHCA_RUN_PRELOAD_H
#define SOFTHCA_RUN_PRELOAD_H

/*
 * Adds libsofthca.so at the end of LD_PRELOAD, because a sanitizer's run-time must come first. The
 * library is searched in the build directory or installation that contains this program. Returns 0,
 * or -errno with one line in err: -ENOENT if there is no library, -EINVAL if LD_PRELOAD cannot
 * contain its path and the fabric has a link to another library. The caller must have joined the
 * fabric.
 */
int preload_softhca(char *err, size_t errlen);

#endif
