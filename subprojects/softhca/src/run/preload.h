/* SPDX-License-Identifier: MIT */
#ifndef SOFTHCA_RUN_PRELOAD_H
#define SOFTHCA_RUN_PRELOAD_H

/*
 * Puts libsofthca.so into LD_PRELOAD, behind what is there already: a sanitizer's
 * run-time must come first. The library is looked for where this program's build
 * directory or installation has it.
 * Returns 0, or -errno with one line in err: -ENOENT when there is no library,
 * -EINVAL when its path cannot stand in LD_PRELOAD.
 */
int preload_softhca(char *err, size_t errlen);

#endif
