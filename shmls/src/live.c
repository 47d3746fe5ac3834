/* SPDX-License-Identifier: MIT */
#include "live.h"

#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/compiler.h"

#define HEAD 4096u /* bytes read at the start of a mapped file, for its program headers */
#define NOTES 4096u /* maximum number of bytes that are read of a segment of notes */
#define ELEMENTS 4096u /* maximum number of elements of an array that is summed up */
/* Most reads of a process's memory, about twice what the tables of all layers need if full. */
#define READS (1u << 20)

/* Reads up to @len bytes of the process's memory. Returns the number of bytes, or -errno. */
static ssize_t peek(struct live_process *p, uint64_t at, void *buf, size_t len)
{
	struct iovec to = {buf, len}, from = {(void *)(uintptr_t)at, len};
	ssize_t n = p->n_reads < READS ? process_vm_readv(p->pid, &to, 1, &from, 1, 0) : 0;

	p->n_reads += p->n_reads < READS;
	return n < 0 ? -errno : n;
}

static bool get(struct live_process *p, uint64_t at, void *buf, size_t len)
{
	return peek(p, at, buf, len) == (ssize_t)len;
}

static bool get_number(struct live_process *p, uint64_t at, uint32_t size, uint64_t *n_p)
{
	*n_p = 0; /* little-endian: the lower bytes are the first */
	return get(p, at, n_p, size);
}

/* Copies a text of at most @most bytes; characters that are not printable become '?'. */
static void copy_text(char *to, size_t size, const char *from, size_t most)
{
	size_t n = strnlen(from, most < size ? most : size - 1);

	for (size_t i = 0; i < n; i++)
		to[i] = from[i] >= ' ' && from[i] <= '~' ? from[i] : '?';
	to[n] = 0;
}

/* ---- values ---- */

static bool field_fits(const struct live_field *f)
{
	return is_pow2(f->size) && f->size <= 8 && f->form <= LIVE_WORD &&
	       (!f->op || f->op == '+' || f->op == '-');
}

/* Reads one element of a field: a number, or the sum or difference of two. */
static bool get_element(struct live_process *p, const struct live_field *f, uint64_t at,
	uint64_t *n_p)
{
	uint64_t other = 0;

	if (!get_number(p, at + f->at, f->size, n_p) ||
		(f->op && !get_number(p, at + f->other, f->size, &other)))
		return false;
	*n_p += f->op == '-' ? -other : other;
	return true;
}

static bool get_value(struct live_process *p, const struct live_field *f, uint64_t at,
	uint64_t *n_p)
{
	uint64_t base = at, elements = 1, one;

	*n_p = 0;
	if (f->via && !get_number(p, at + f->via - 1, 8, &base))
		return false;
	if (f->count && (!get_number(p, at + f->count - 1, 4, &elements) || elements > ELEMENTS))
		return false;
	for (uint64_t i = 0; i < elements; i++) {
		if (!get_element(p, f, base + i * f->stride, &one))
			return false;
		*n_p += one;
	}
	return true;
}

/* Copies word number @i of a list separated by blanks; nothing if there are fewer words. */
static void copy_word(char *to, size_t size, const char *words, uint64_t i)
{
	for (; i && *words; words++)
		i -= *words == ' ';
	if (!i)
		copy_text(to, size, words, strcspn(words, " "));
}

static void read_value(struct live_process *p, const struct live_type *t,
	const struct live_field *f, uint64_t object, struct live_value *v)
{
	char words[sizeof(t->words) + 1];
	unsigned above = 64 - 8 * f->size;

	copy_text(v->name, sizeof(v->name), f->name, sizeof(f->name));
	copy_text(words, sizeof(words), t->words, sizeof(t->words));
	v->form = (enum live_form)f->form;
	v->known = get_value(p, f, object, &v->value);
	v->value <<= above;
	v->value =
		v->form == LIVE_SIGNED ? (uint64_t)((int64_t)v->value >> above) : v->value >> above;
	if (v->known && v->form == LIVE_WORD)
		copy_word(v->word, sizeof(v->word), words, v->value);
}

/* Returns false if the type is invalid. */
static bool read_values(struct live_process *p, const struct live_type *t, uint64_t object,
	struct live_object *o)
{
	if (t->magic != LIVE_MAGIC)
		return false;
	copy_text(o->layer, sizeof(o->layer), t->layer, sizeof(t->layer));
	copy_text(o->kind, sizeof(o->kind), t->kind, sizeof(t->kind));
	o->address = object;
	for (; o->n_values < LIVE_FIELDS && t->field[o->n_values].name[0]; o->n_values++) {
		if (!field_fits(&t->field[o->n_values]))
			return false;
		read_value(p, t, &t->field[o->n_values], object, &o->value[o->n_values]);
	}
	return true;
}

/* ---- records ---- */

/*
 * Reads the record at this address, then its object, then the record's sequence number again: pairs
 * with the stores in base/src/live.c. If the record has changed meanwhile, the bytes may be those
 * of another object or of freed memory. Returns false if the object must be left out.
 */
static bool read_object(struct live_process *p, uint64_t at, uint32_t seq, struct live_object *o)
{
	struct live_record r;
	struct live_type t;
	uint64_t now;

	if (!get(p, at, &r, sizeof(r)) || r.seq != seq || r.pid != p->main.own_tid ||
		!get(p, (uintptr_t)r.type, &t, sizeof(t)) ||
		!read_values(p, &t, (uintptr_t)r.object, o))
		return false;
	copy_text(o->name, sizeof(o->name), r.name, sizeof(r.name));
	o->tid = r.tid;
	o->since = r.since;
	return get_number(p, at, sizeof(r.seq), &now) && now == seq;
}

static int read_records(struct live_process *p, uint64_t at, const struct live_page *page)
{
	struct live_object *grown = (struct live_object *)realloc(p->object,
		(p->n_objects + LIVE_RECORDS) * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	p->object = grown;
	p->missed += page->missed;
	for (uint32_t i = 0; i < LIVE_RECORDS; i++) {
		uint32_t seq = page->record[i].seq;

		memset(&grown[p->n_objects], 0, sizeof(*grown));
		p->n_objects += seq % 4 == LIVE_USED &&
				read_object(p, at + offsetof(struct live_page, record[i]), seq,
					&grown[p->n_objects]);
	}
	return 0;
}

static int read_page(struct live_process *p, uint64_t at)
{
	struct live_page *page = (struct live_page *)malloc(sizeof(*page));
	int err = page ? 0 : -ENOMEM;

	if (page && get(p, at, page, sizeof(*page)) && page->magic == LIVE_MAGIC) {
		if (page->version != LIVE_VERSION)
			p->foreign = page->version;
		else if (page->n_records == LIVE_RECORDS &&
			 page->record_size == sizeof(struct live_record) &&
			 page->type_size == sizeof(struct live_type))
			err = read_records(p, at, page);
	}
	free(page);
	return err;
}

/* ---- the note in a mapped file ---- */

/* Returns the address of the table that the notes at this address name, or 0. */
static uint64_t find_note(struct live_process *p, uint64_t at, uint64_t size)
{
	char notes[NOTES];
	ssize_t got = peek(p, at, notes, size < NOTES ? size : NOTES);
	uint64_t n = got > 0 ? (uint64_t)got : 0, i = 0, value, away;
	Elf64_Nhdr h;

	while (i + sizeof(h) <= n) {
		memcpy(&h, notes + i, sizeof(h));
		value = i + sizeof(h) + align_up(h.n_namesz, 4);
		i = value + align_up(h.n_descsz, 4);
		if (i > n)
			break;
		if (h.n_type != LIVE_NOTE_TYPE || h.n_descsz != sizeof(away) ||
			memcmp(notes + value - h.n_namesz, LIVE_NOTE, sizeof(LIVE_NOTE)) != 0)
			continue;
		memcpy(&away, notes + value, sizeof(away));
		return at + value + away;
	}
	return 0;
}

/* Reads the objects of the program or library whose start is mapped here. */
static int read_file(struct live_process *p, uint64_t start)
{
	union {
		Elf64_Ehdr elf;
		char bytes[HEAD];
	} head;
	ssize_t got = peek(p, start, &head, sizeof(head));
	uint64_t page;
	Elf64_Phdr h;
	int err = 0;

	if (got < (ssize_t)sizeof(head.elf))
		return got == -EPERM || got == -ESRCH ? (int)got : 0;
	if (memcmp(head.bytes, ELFMAG, SELFMAG) != 0 || head.bytes[EI_CLASS] != ELFCLASS64 ||
		head.elf.e_phentsize != sizeof(h) || head.elf.e_phoff > (size_t)got ||
		head.elf.e_phnum * sizeof(h) > (size_t)got - head.elf.e_phoff)
		return 0;
	for (uint32_t i = 0; i < head.elf.e_phnum && !err; i++) {
		memcpy(&h, head.bytes + head.elf.e_phoff + i * sizeof(h), sizeof(h));
		if (h.p_type != PT_NOTE)
			continue;
		/* Notes are near the start of the file, which is mapped here without a gap. */
		page = find_note(p, start + h.p_offset, h.p_filesz);
		if (page)
			err = read_page(p, page);
	}
	return err;
}

static int read_files(struct live_process *p)
{
	unsigned long start, offset;
	char path[40], *line = NULL;
	size_t size = 0;
	int err = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)p->pid);
	f = fopen(path, "re");
	if (!f)
		return errno == EACCES ? -EPERM : errno == ENOENT ? -ESRCH : -errno;
	while (!err && getline(&line, &size, f) > 0)
		if (strchr(line, '/') && sscanf(line, "%lx-%*x r%*s %lx", &start, &offset) == 2 &&
			!offset)
			err = read_file(p, start);
	free(line);
	fclose(f);
	return !err && p->n_reads == READS ? -E2BIG : err;
}

/* ---- threads ---- */

/* Reads DIRECTORY/TID/status. Returns false if there is none. */
static bool read_status(const char *directory, const char *tid, struct live_thread *t)
{
	char line[512], *last;
	FILE *f;

	snprintf(line, sizeof(line), "%s/%s/status", directory, tid);
	f = fopen(line, "re");
	while (f && fgets(line, sizeof(line), f)) {
		last = strrchr(line, '\t');
		if (!strncmp(line, "Name:\t", 6))
			copy_text(t->name, sizeof(t->name), line + 6, strcspn(line + 6, "\n"));
		else if (!strncmp(line, "State:\t", 7))
			t->state = line[7];
		else if (!strncmp(line, "NSpid:\t", 7) && last)
			t->own_tid = (uint32_t)strtoul(last, NULL, 10);
	}
	if (f)
		fclose(f);
	t->tid = (uint32_t)strtoul(tid, NULL, 10);
	return t->own_tid;
}

int live_number(const struct dirent *e)
{
	return isdigit((unsigned char)e->d_name[0]);
}

static int read_threads(struct live_process *p)
{
	struct dirent **entry;
	char path[40];
	int n;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)p->pid);
	n = scandir(path, &entry, live_number, versionsort);
	if (n < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	p->thread = (struct live_thread *)calloc((size_t)n + 1, sizeof(*p->thread));
	for (int i = 0; i < n; i++) {
		if (p->thread)
			p->n_threads +=
				read_status(path, entry[i]->d_name, &p->thread[p->n_threads]);
		free(entry[i]);
	}
	free(entry);
	return p->thread ? 0 : -ENOMEM;
}

int live_read(pid_t pid, struct live_process *p)
{
	char text[16];
	int err;

	*p = (struct live_process){.pid = pid};
	snprintf(text, sizeof(text), "%d", (int)pid);
	if (!read_status("/proc", text, &p->main))
		return -ESRCH;
	err = read_files(p);
	if (!err && p->n_objects)
		err = read_threads(p);
	return err;
}

void live_free(struct live_process *p)
{
	free(p->object);
	free(p->thread);
}
