/* SPDX-License-Identifier: MIT */
/* Lists from which any item can be removed: an item has the members `next` and `link_p`, the
 * address of the pointer to the item. */
#ifndef COPYRPC_LINKS_H
#define COPYRPC_LINKS_H

/* Inserts the item at the beginning of the list. */
#define LINK(head_p, item)                                                                         \
	do {                                                                                       \
		(item)->link_p = (head_p);                                                         \
		(item)->next = *(head_p);                                                          \
		if ((item)->next)                                                                  \
			(item)->next->link_p = &(item)->next;                                      \
		*(head_p) = (item);                                                                \
	} while (0)

#define UNLINK(item)                                                                               \
	do {                                                                                       \
		*(item)->link_p = (item)->next;                                                    \
		if ((item)->next)                                                                  \
			(item)->next->link_p = (item)->link_p;                                     \
	} while (0)

#endif
