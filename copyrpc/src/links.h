/* SPDX-License-Identifier: MIT */
/*
 * Lists from which any item can be removed: an item has the members `next` and `link_p`, the
 * address of the pointer to the item. Queues: @link is the name of the member of an item that
 * points to the next item.
 */
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

#define QUEUE_OF(type)                                                                             \
	struct {                                                                                   \
		type *head, **tail_p;                                                              \
	}

/* Makes the queue empty. */
#define QUEUE_CLEAR(queue)                                                                         \
	do {                                                                                       \
		(queue)->head = NULL;                                                              \
		(queue)->tail_p = &(queue)->head;                                                  \
	} while (0)

#define QUEUE_APPEND(queue, item, link)                                                            \
	do {                                                                                       \
		(item)->link = NULL;                                                               \
		*(queue)->tail_p = (item);                                                         \
		(queue)->tail_p = &(item)->link;                                                   \
	} while (0)

/* Removes the first item. */
#define QUEUE_SHIFT(queue, link)                                                                   \
	do {                                                                                       \
		(queue)->head = (queue)->head->link;                                               \
		if (!(queue)->head)                                                                \
			(queue)->tail_p = &(queue)->head;                                          \
	} while (0)

/* Removes the item, if it is in the queue. */
#define QUEUE_REMOVE(queue, item, link)                                                            \
	do {                                                                                       \
		__typeof__((queue)->tail_p) link_to = &(queue)->head;                              \
                                                                                                   \
		while (*link_to && *link_to != (item))                                             \
			link_to = &(*link_to)->link;                                               \
		if (*link_to)                                                                      \
			*link_to = (item)->link;                                                   \
		if (!*link_to)                                                                     \
			(queue)->tail_p = link_to;                                                 \
	} while (0)

#endif
