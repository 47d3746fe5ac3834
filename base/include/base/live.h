/* SPDX-License-Identifier: MIT */
/*
 * A table of the objects of a process, which another process reads with process_vm_readv(2): see
 * `shmls --live`. A record points to an object and to its type. The type describes which bytes of
 * the object are numbers. The process does no work for the numbers; the reader copies them.
 *
 *	static const struct live_type type = {LIVE_MAGIC, "shmipc", "client",
 *		.field = {{"calls", LIVE_AT(struct client, called)}}};
 *
 *	c->live = live_add(&type, c, "job7");
 *	live_wait(c->live, since);	before the thread sleeps
 *	live_wake(c->live);		at the end of the wait
 *	live_remove(c->live);		before the object is freed
 *
 * An ELF note, which is mapped with the code, contains the distance from itself to the table. No
 * function can fail, because the table needs no descriptor, file or allocation. exec() and
 * dlclose() remove the table. A forked child has copies of the records, which name its parent's
 * pid; readers ignore these.
 *
 * src/live.c is compiled into each library that uses this header, so each has its own table.
 */
#ifndef BASE_LIVE_H
#define BASE_LIVE_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define LIVE_MAGIC 0x4556494c50523558ull /* "X5RPLIVE" */
#define LIVE_VERSION 1u
#define LIVE_RECORDS 1024u /* further objects are only counted */
#define LIVE_FIELDS 20 /* maximum number of fields of a type */
#define LIVE_NAME 64
#define LIVE_NOTE "mlx5rpc" /* name of the ELF note; src/live.c has it in assembler as well */
#define LIVE_NOTE_TYPE 1u

enum live_form {
	LIVE_NUMBER,
	LIVE_SIGNED,
	LIVE_HEX,
	LIVE_WORD, /* an index into the type's words */
};

/*
 * The value is the integer of @size bytes at offset @at. If @op is '+' or '-', the integer at
 * offset @other is added or subtracted. If @via is not 0, the object has a pointer at offset via -
 * 1, and @at and @other are offsets from the address in that pointer. If @count is not 0, the
 * pointer is to an array of elements of @stride bytes, whose number is the uint32_t at offset
 * count - 1 of the object, and the value is the sum over the elements.
 */
struct live_field {
	char name[13]; /* "": no field; ends the list */
	uint8_t size; /* 1, 2, 4 or 8 */
	uint8_t form; /* enum live_form */
	char op;
	uint32_t at, other, via, count, stride;
};

#define LIVE_AT(type, field) .size = sizeof(((type *)NULL)->field), .at = offsetof(type, field)
#define LIVE_LESS(type, field) .op = '-', .other = offsetof(type, field)
#define LIVE_PLUS(type, field) .op = '+', .other = offsetof(type, field)
#define LIVE_VIA(type, pointer) .via = 1 + offsetof(type, pointer)
#define LIVE_SUM(type, pointer, number, element)                                                   \
	LIVE_VIA(type, pointer), .count = 1 + offsetof(type, number), .stride = sizeof(element)

struct live_type {
	uint64_t magic;
	char layer[12], kind[12];
	char words[64]; /* for LIVE_WORD, separated by blanks */
	struct live_field field[LIVE_FIELDS];
};

/* The low two bits of a record's sequence number. Each change of state increases the number. */
enum live_state {
	LIVE_FREE,
	LIVE_BUSY, /* is being written */
	LIVE_USED,
};

struct live_record {
	uint32_t seq;
	uint32_t pid; /* of the process that made it */
	const struct live_type *type;
	const void *object;
	uint64_t since; /* CLOCK_MONOTONIC: when the wait began */
	uint32_t tid; /* of the thread that waits; 0: none does */
	uint32_t unused;
	char name[LIVE_NAME];
};

struct live_page {
	uint64_t magic; /* 0: nothing was ever added */
	uint32_t version, n_records, record_size, type_size;
	uint64_t missed; /* objects for which there was no record */
	struct live_record record[LIVE_RECORDS];
};

static_assert(offsetof(struct live_page, record) == 32, "layout");
static_assert(sizeof(struct live_record) == 40 + LIVE_NAME, "layout");
static_assert(sizeof(struct live_type) == 96 + LIVE_FIELDS * 36, "layout");

/* Any thread may call these functions, but for each object only one at a time. */
struct live_record *live_add(const struct live_type *type, const void *object, const char *name);
void live_rename(struct live_record *r, const char *name);
void live_remove(struct live_record *r); /* NULL: no effect */
/*
 * Stores @since and the id of the calling thread, unless the record has a waiting thread already.
 * So a wait that sleeps several times makes one system call for the id.
 */
void live_wait(struct live_record *r, uint64_t since);

/* Relaxed: pairs only with the reads of another process, which tolerate any order. */
static inline void live_wake(struct live_record *r)
{
	__atomic_store_n(&r->tid, 0, __ATOMIC_RELAXED);
}

#endif
