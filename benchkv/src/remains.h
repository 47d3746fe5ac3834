/* SPDX-License-Identifier: MIT */
/* Regions in shared memory that killed ranks have left. */
#ifndef BENCHKV_REMAINS_H
#define BENCHKV_REMAINS_H

/* Removes the regions that jobs of this user have left on this machine: no process serves them. */
void remains_remove(void);

#endif
