/* SPDX-License-Identifier: MIT */
/* Regions in shared memory that killed ranks have left. */
#ifndef BENCHKV_REMAINS_H
#define BENCHKV_REMAINS_H

/* Removes what any job of this user has left on this machine and nobody serves. */
void remains_remove(void);

#endif
