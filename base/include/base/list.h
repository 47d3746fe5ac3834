/* SPDX-License-Identifier: MIT */
/* Lists that are linked by the member `next` of their items. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

/* Removes @item from the list that begins at *@head. Does nothing if the item is not in it. */
#define LIST_REMOVE(head, item)                                                                    \
	do {                                                                                       \
		__typeof__(item) *link_ = (head);                                                  \
		while (*link_ && *link_ != (item))                                                 \
			link_ = &(*link_)->next;                                                   \
		if (*link_)                                                                        \
			*link_ = (item)->next;                                                     \
	} while (0)

#endif
