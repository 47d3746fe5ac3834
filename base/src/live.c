/* SPDX-License-Identifier: MIT */
#include "base/live.h"

#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"

/* The symbol is hidden, but global, so that the assembler code below can refer to it. */
extern struct live_page live_page __attribute__((visibility("hidden")));
struct live_page live_page __attribute__((used));

/* The note: lengths of name and value, type, name, and the distance from the value to the table. */
__asm__(".pushsection .note.mlx5rpc,\"a\",\"note\"\n\t"
	".balign 4\n\t"
	".4byte 8, 8, 1\n\t"
	".asciz \"mlx5rpc\"\n\t"
	".8byte live_page - .\n\t"
	".popsection");
static_assert(sizeof(LIVE_NOTE) == 8 && LIVE_NOTE_TYPE == 1, "as in the note");

/* live_add() returns this record if the table has no room. */
static struct live_record spare;

/*
 * Moves the record to another state. Release: pairs with the readers, which read the sequence
 * number before and after the other fields, with separate system calls.
 */
static void step(struct live_record *r, uint32_t steps)
{
	/* Relaxed: no other thread changes the number of a record that is not free. */
	uint32_t seq = __atomic_load_n(&r->seq, __ATOMIC_RELAXED);

	__atomic_store_n(&r->seq, seq + steps, __ATOMIC_RELEASE);
	/* Orders this store before later stores to the fields or to the freed object. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static bool take(struct live_record *r)
{
	/* Relaxed: the compare-exchange below checks that this value is current. */
	uint32_t seq = __atomic_load_n(&r->seq, __ATOMIC_RELAXED);

	/* Acquire: pairs with the release in step(), by the thread that removed an object. */
	return seq % 4 == LIVE_FREE && __atomic_compare_exchange_n(&r->seq, &seq, seq + LIVE_BUSY,
					       false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static void set_name(struct live_record *r, const char *name)
{
	size_t len = strnlen(name, LIVE_NAME - 1);

	memset(r->name, 0, sizeof(r->name));
	memcpy(r->name, name, len);
}

static void fill(struct live_record *r, const struct live_type *type, const void *object,
	const char *name)
{
	/* Orders the stores below after the exchange in take(). */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	r->pid = (uint32_t)getpid();
	r->type = type;
	r->object = object;
	live_wake(r);
	set_name(r, name);
	step(r, LIVE_USED - LIVE_BUSY);
}

struct live_record *live_add(const struct live_type *type, const void *object, const char *name)
{
	struct live_page *p = &live_page;

	/* Relaxed: these are constants, and readers check their values. */
	__atomic_store_n(&p->version, LIVE_VERSION, __ATOMIC_RELAXED);
	__atomic_store_n(&p->n_records, LIVE_RECORDS, __ATOMIC_RELAXED);
	__atomic_store_n(&p->record_size, sizeof(struct live_record), __ATOMIC_RELAXED);
	__atomic_store_n(&p->type_size, sizeof(struct live_type), __ATOMIC_RELAXED);
	__atomic_store_n(&p->magic, LIVE_MAGIC, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < LIVE_RECORDS; i++) {
		if (take(&p->record[i])) {
			fill(&p->record[i], type, object, name);
			return &p->record[i];
		}
	}
	/* Relaxed: a counter. */
	__atomic_fetch_add(&p->missed, 1, __ATOMIC_RELAXED);
	return &spare;
}

void live_rename(struct live_record *r, const char *name)
{
	if (r == &spare)
		return;
	step(r, 4 + LIVE_BUSY - LIVE_USED);
	set_name(r, name);
	step(r, LIVE_USED - LIVE_BUSY);
}

void live_remove(struct live_record *r)
{
	if (r == &spare)
		__atomic_fetch_sub(&live_page.missed, 1, __ATOMIC_RELAXED); /* as in live_add() */
	else if (r)
		step(r, 4 - LIVE_USED);
}

void live_wait(struct live_record *r, uint64_t since)
{
	/* All relaxed: see live_wake(). */
	if (__atomic_load_n(&r->tid, __ATOMIC_RELAXED))
		return;
	__atomic_store_n(&r->since, since, __ATOMIC_RELAXED);
	__atomic_store_n(&r->tid, (uint32_t)syscall(SYS_gettid), __ATOMIC_RELAXED);
}
