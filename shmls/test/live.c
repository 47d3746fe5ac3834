/* SPDX-License-Identifier: MIT */
/*
 * The table of objects (base/live.h) and its reader: each form of a value, full tables, forks,
 * objects and processes that end during a read, and tables, types and notes of a hostile process.
 */
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "../src/live.h"
#include "support/spawn.h"

extern struct live_page live_page __attribute__((visibility("hidden")));

struct inner {
	uint32_t kept, gone;
};

struct sample {
	uint64_t big, less;
	int32_t minus;
	uint8_t small, word;
	uint32_t n;
	const struct inner *inner, *none;
};

static const struct inner inner[3] = {{5, 1}, {6, 2}, {7, 3}};
static const struct sample sample = {.big = 1ull << 40,
	.less = 3,
	.minus = -104,
	.small = 200,
	.word = 1,
	.n = 3,
	.inner = inner};

static const struct live_type type = {LIVE_MAGIC, "layer", "kind", "idle busy",
	.field = {
		{"big", LIVE_AT(struct sample, big)},
		{"difference", LIVE_AT(struct sample, big), LIVE_LESS(struct sample, less)},
		{"sum", LIVE_AT(struct sample, big), LIVE_PLUS(struct sample, less)},
		{"wraps", LIVE_AT(struct sample, small), LIVE_PLUS(struct sample, small)},
		{"signed", LIVE_AT(struct sample, minus), .form = LIVE_SIGNED},
		{"hex", LIVE_AT(struct sample, small), .form = LIVE_HEX},
		{"word", LIVE_AT(struct sample, word), .form = LIVE_WORD},
		{"no-word", LIVE_AT(struct sample, small), .form = LIVE_WORD},
		{"via", LIVE_VIA(struct sample, inner), LIVE_AT(struct inner, gone)},
		{"array", LIVE_SUM(struct sample, inner, n, struct inner),
			LIVE_AT(struct inner, kept), LIVE_LESS(struct inner, gone)},
		{"null", LIVE_VIA(struct sample, none), LIVE_AT(struct inner, kept)},
		{"too-many", LIVE_SUM(struct sample, inner, minus, struct inner),
			LIVE_AT(struct inner, kept)},
	}};

static uint32_t foreign; /* live_process.foreign of the process that was read last */

/* Reads the process, which must succeed, and returns the number of its objects. */
static size_t objects_of(pid_t pid)
{
	struct live_process p;
	size_t n;

	CHECK_EQ(live_read(pid, &p), 0);
	foreign = p.foreign;
	n = p.n_objects;
	live_free(&p);
	return n;
}

TEST(values)
{
	static const struct {
		int64_t value;
		const char *word;
	} expected[] = {{1ll << 40, ""}, {(1ll << 40) - 3, ""}, {(1ll << 40) + 3, ""}, {144, ""},
		{-104, ""}, {200, ""}, {1, "busy"}, {200, ""}, {1, ""}, {12, ""}};
	struct live_record *r = live_add(&type, &sample, "a\x1b[2J");
	struct live_process p;
	const struct live_object *o;

	live_wait(r, 17);
	live_wait(r, 18); /* the next sleep of the same wait */
	CHECK_EQ(live_read(getpid(), &p), 0);
	CHECK_EQ(p.n_objects, 1);
	o = &p.object[0];
	CHECK(!strcmp(o->layer, "layer") && !strcmp(o->kind, "kind") && !strcmp(o->name, "a?[2J"));
	CHECK_EQ(o->address, (uintptr_t)&sample);
	CHECK_EQ(o->tid, gettid());
	CHECK_EQ(o->since, 17);
	CHECK_EQ(o->n_values, 12);
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		CHECK(o->value[i].known && !strcmp(o->value[i].word, expected[i].word));
		CHECK_EQ(o->value[i].value, expected[i].value);
	}
	CHECK(!o->value[10].known && !o->value[11].known);
	CHECK(p.n_threads == 1 && p.thread[0].own_tid == o->tid && p.thread[0].state == 'R');
	live_free(&p);
	live_wake(r);
	live_rename(r, "another");
	CHECK_EQ(live_read(getpid(), &p), 0);
	CHECK(p.n_objects == 1 && !p.object[0].tid && !strcmp(p.object[0].name, "another"));
	live_free(&p);
	live_remove(r);
	live_remove(NULL);
	CHECK_EQ(objects_of(getpid()), 0);
}

TEST(full_table)
{
	static struct live_record *r[LIVE_RECORDS + 3];
	struct live_process p;

	for (size_t i = 0; i < ARRAY_SIZE(r); i++)
		r[i] = live_add(&type, &sample, "");
	live_wait(r[LIVE_RECORDS], 1);
	live_rename(r[LIVE_RECORDS], "none");
	CHECK_EQ(live_read(getpid(), &p), 0);
	CHECK_EQ(p.n_objects, LIVE_RECORDS);
	CHECK_EQ(p.missed, 3);
	live_free(&p);
	for (size_t i = 0; i < ARRAY_SIZE(r); i++)
		live_remove(r[i]);
	CHECK_EQ(live_read(getpid(), &p), 0);
	CHECK(!p.n_objects && !p.missed);
	live_free(&p);
}

static void add_one(void)
{
	live_add(&type, &sample, "the child's");
}

TEST(children)
{
	struct live_record *r = live_add(&type, &sample, "the parent's");
	struct live_process p;
	pid_t pid = spawn(NULL);

	/* The child has a copy of the parent's record, which is not an object of the child. */
	CHECK_EQ(objects_of(pid), 0);
	test_kill(pid);
	pid = spawn(add_one);
	CHECK_EQ(live_read(pid, &p), 0);
	CHECK(p.n_objects == 1 && !strcmp(p.object[0].name, "the child's"));
	live_free(&p);
	CHECK_EQ(objects_of(getpid()), 1);
	test_kill(pid);
	CHECK_EQ(live_read(pid, &p), -ESRCH);
	live_free(&p);
	live_remove(r);
}

/*
 * The child adds and removes an object whose two numbers are equal while the table has the object.
 * After each removal the numbers differ for a while.
 */
struct twins {
	uint64_t a, b;
};

static const struct live_type twins_type = {LIVE_MAGIC, "layer", "twins",
	.field = {{"less", LIVE_AT(struct twins, a), LIVE_LESS(struct twins, b)}}};

/*
 * The longest life of an object: at least three times as long as a read takes, so that objects end
 * during some reads and not during others. A sanitizer makes reads much slower.
 */
static uint64_t pace_us = 64;

static void set_pace(void)
{
	uint64_t begun = clock_ns(), us;

	objects_of(getpid());
	us = (clock_ns() - begun) / NSEC_PER_USEC;
	pace_us = 3 * us > pace_us ? 3 * us : pace_us;
}

static void spend(uint64_t us)
{
	uint64_t until = clock_ns() + us * NSEC_PER_USEC;

	while (clock_ns() < until)
		cpu_relax();
}

static void churn(void)
{
	static struct twins t;

	if (fork())
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (uint64_t i = 1;; i++) {
		struct live_record *r;

		__atomic_store_n(&t.a, i, __ATOMIC_RELAXED);
		__atomic_store_n(&t.b, i, __ATOMIC_RELAXED);
		r = live_add(&twins_type, &t, "");
		spend(i % pace_us);
		live_remove(r);
		__atomic_store_n(&t.b, 0, __ATOMIC_RELAXED);
		spend(i % pace_us / 4);
	}
}

/* The only child of the process. */
static pid_t child_of(pid_t pid)
{
	char path[64];
	int child = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
	f = fopen(path, "re");
	CHECK(f && fscanf(f, "%d", &child) == 1);
	fclose(f);
	return child;
}

TEST(changes_meanwhile)
{
	uint32_t seen = 0;
	pid_t parent, pid;

	set_pace(); /* the child inherits the pace */
	parent = spawn(churn);
	pid = child_of(parent);
	for (int i = 0; i < 100000 && seen < 1000; i++) {
		AT_END(live_free) struct live_process p;

		CHECK_EQ(live_read(pid, &p), 0);
		for (size_t k = 0; k < p.n_objects; k++, seen++)
			CHECK_EQ(p.object[k].value[0].value, 0);
	}
	CHECK(seen);
	/* The process may end at any moment of a read. */
	for (int i = 0; i < 20; i++) {
		AT_END(live_free) struct live_process p;
		int err;

		if (i == 10)
			test_kill(parent);
		err = live_read(pid, &p);
		CHECK(!err || (i >= 10 && err == -ESRCH));
	}
}

/* A type whose list of fields is full has no empty field that ends the list. */
TEST(as_many_fields_as_fit)
{
	struct live_type full = type;
	struct live_record *r;
	struct live_process p;

	for (uint32_t i = 0; i < LIVE_FIELDS; i++)
		full.field[i] = type.field[0];
	r = live_add(&full, &sample, "full");
	CHECK_EQ(live_read(getpid(), &p), 0);
	CHECK_EQ(p.n_objects, 1);
	CHECK_EQ(p.object[0].n_values, LIVE_FIELDS);
	CHECK_EQ(p.object[0].value[LIVE_FIELDS - 1].value, p.object[0].value[0].value);
	live_free(&p);
	live_remove(r);
}

/* ---- a hostile process ---- */

/* A file as the linker makes one: header, notes, a table with two records, a type, an object. */
struct image {
	Elf64_Ehdr elf;
	Elf64_Phdr phdr[2];
	struct {
		Elf64_Nhdr h;
		char name[8];
		uint8_t value[8];
	} notes[2];
	struct live_page page;
	struct live_type type;
	struct sample object;
};

static struct image *image;

static void image_reset(void)
{
	int64_t away = (char *)&image->page - (char *)image->notes[1].value;

	memset(image, 0, sizeof(*image));
	memcpy(image->elf.e_ident, ELFMAG, SELFMAG);
	image->elf.e_ident[EI_CLASS] = ELFCLASS64;
	image->elf.e_phoff = offsetof(struct image, phdr);
	image->elf.e_phentsize = sizeof(Elf64_Phdr);
	image->elf.e_phnum = 2;
	image->phdr[0].p_type = PT_LOAD;
	image->phdr[1] = (Elf64_Phdr){.p_type = PT_NOTE,
		.p_offset = offsetof(struct image, notes),
		.p_filesz = sizeof(image->notes)};
	for (int i = 0; i < 2; i++) {
		image->notes[i].h = (Elf64_Nhdr){8, 8, LIVE_NOTE_TYPE};
		memcpy(image->notes[i].name, i ? LIVE_NOTE : "another", 8);
	}
	memcpy(image->notes[1].value, &away, sizeof(away));
	image->page.magic = LIVE_MAGIC;
	image->page.version = LIVE_VERSION;
	image->page.n_records = LIVE_RECORDS;
	image->page.record_size = sizeof(struct live_record);
	image->page.type_size = sizeof(struct live_type);
	image->type = type;
	image->object = sample;
	for (int i = 0; i < 2; i++)
		image->page.record[i] = (struct live_record){.seq = LIVE_USED,
			.pid = (uint32_t)getpid(),
			.type = i ? &image->type : &type,
			.object = &image->object};
}

/* live_read() reads only mappings that have a path in /proc/PID/maps; that of a memfd has one. */
static void image_open(void)
{
	size_t size = align_up(sizeof(*image), 4096);
	int fd = memfd_create("image", MFD_CLOEXEC);

	CHECK(fd >= 0 && !ftruncate(fd, (off_t)size));
	image = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(image != MAP_FAILED);
	close(fd);
	image_reset();
}

static void image_close(void)
{
	munmap(image, align_up(sizeof(*image), 4096));
}

#define FORGE(statement, left)                                                                     \
	do {                                                                                       \
		image_reset();                                                                     \
		CHECK_EQ(objects_of(getpid()), 2);                                                 \
		statement;                                                                         \
		if (objects_of(getpid()) != (left)) {                                              \
			fprintf(stderr, "not %d objects after: %s\n", left, #statement);           \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

TEST(forged)
{
	image_open();
	FORGE(image->elf.e_ident[0] = 0, 0);
	FORGE(image->elf.e_ident[EI_CLASS] = ELFCLASS32, 0);
	FORGE(image->elf.e_phentsize = 8, 0);
	FORGE(image->elf.e_phoff = UINT64_MAX, 0);
	FORGE(image->elf.e_phoff = UINT64_MAX - 7, 0);
	FORGE(image->elf.e_phnum = UINT16_MAX, 0);
	FORGE(image->phdr[1].p_offset = UINT64_MAX, 0);
	FORGE(image->phdr[1].p_filesz = UINT64_MAX, 2);
	FORGE(image->notes[0].h.n_namesz = UINT32_MAX, 0);
	FORGE(image->notes[0].h.n_descsz = UINT32_MAX, 0);
	FORGE(image->phdr[1].p_filesz -= 4, 0);
	FORGE(image->notes[1].h.n_descsz = 4, 0);
	FORGE(image->notes[1].h.n_type = 2, 0);
	FORGE(image->notes[1].name[0] = 'M', 0);
	FORGE(memset(image->notes[1].value, 0x70, 8), 0);
	FORGE(image->page.magic = 0, 0);
	FORGE(image->page.version++, 0);
	CHECK_EQ(foreign, LIVE_VERSION + 1);
	FORGE(image->page.version--, 0);
	FORGE(image->page.n_records--, 0);
	FORGE(image->page.record_size--, 0);
	FORGE(image->page.type_size++, 0);
	FORGE(image->page.record[0].seq = LIVE_BUSY, 1);
	FORGE(image->page.record[0].pid++, 1);
	FORGE(image->page.record[0].type = NULL, 1);
	FORGE(image->page.record[0].object = NULL, 2);
	FORGE(memset(image->page.record[0].name, 0xff, LIVE_NAME), 2);
	FORGE(image->type.magic = 0, 1);
	FORGE(memset(image->type.layer, 'x', 12), 2);
	FORGE(memset(image->type.kind, 0xff, 12), 2);
	FORGE(memset(image->type.words, ' ', 64), 2);
	FORGE(memset(image->type.field[1].name, 'n', 13), 2);
	FORGE(image->type.field[1].size = 0, 1);
	FORGE(image->type.field[1].size = 3, 1);
	FORGE(image->type.field[1].size = 16, 1);
	FORGE(image->type.field[1].form = LIVE_WORD + 1, 1);
	FORGE(image->type.field[1].op = '*', 1);
	FORGE(image->object.n = UINT32_MAX, 2);
	image_close();
}

/* The reader gives up if every field of every record is a long array. */
TEST(endless)
{
	struct live_process p;

	image_open();
	image->object.n = 4096;
	image->type.field[0] = type.field[9];
	image->type.field[0].stride = 0;
	for (uint32_t i = 0; i < LIVE_RECORDS; i++)
		image->page.record[i] = image->page.record[1];
	for (uint32_t i = 1; i < LIVE_FIELDS; i++)
		image->type.field[i] = image->type.field[0];
	CHECK_EQ(live_read(getpid(), &p), -E2BIG);
	live_free(&p);
	image_close();
}

TEST(random_bytes)
{
	uint64_t seed = test_seed();

	image_open();
	for (int i = 0; i < 1000; i++) {
		AT_END(live_free) struct live_process p;
		size_t head = offsetof(struct image, page.record[2]);
		size_t rest = sizeof(*image) - offsetof(struct image, type);

		image_reset();
		for (uint64_t k = test_rand(&seed) % 4; k < 4; k++) {
			uint64_t at = test_rand(&seed) % (head + rest);
			size_t offset = at < head ? at : at - head + offsetof(struct image, type);

			((uint8_t *)image)[offset] = (uint8_t)test_rand(&seed);
		}
		CHECK_EQ(live_read(getpid(), &p), 0);
	}
	image_close();
}
