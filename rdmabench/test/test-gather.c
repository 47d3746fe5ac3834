/* SPDX-License-Identifier: MIT */
/* The work of rdmabench collect grows as n log n with the number n of windows, not as n * n. */
#include <unistd.h>

#include "support/test.h"
#include "gather.h"
#include "statsfile.h"

/* Returns the JSON lines of @n windows of one sample each. The caller must free the text. */
static char *make_windows(uint64_t n, size_t *len_p)
{
	char dir[] = "/tmp/rdmabench-gather-XXXXXX", path[100];
	struct statsfile_attr a = {.path = path,
		.run = "r",
		.role = "w",
		.clock = "c",
		.window = 1};
	struct statsfile *f;
	char *text;
	FILE *in;

	CHECK(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/w.txt", dir);
	CHECK_EQ(statsfile_open(&a, &f), 0);
	for (uint64_t i = 0; i < n; i++)
		CHECK_EQ(statsfile_add(f, i % 200, i), 0);
	CHECK_EQ(statsfile_close(f), 0);
	unlink(path);
	snprintf(path, sizeof(path), "%s/w.jsonl", dir);
	in = fopen(path, "re");
	CHECK(in && !fseek(in, 0, SEEK_END));
	*len_p = (size_t)ftell(in);
	text = malloc(*len_p);
	rewind(in);
	CHECK_EQ(fread(text, 1, *len_p, in), *len_p);
	fclose(in);
	unlink(path);
	rmdir(dir);
	return text;
}

/* Each line is added twice, and counts once. */
TEST(looks_are_few)
{
	static const struct gather_attr attr;

	for (uint64_t n = 10; n <= 1000; n *= 10) {
		struct gather *g = gather_create(&attr);
		size_t len;
		AT_END(end_free) char *text = make_windows(n, &len);

		gather_add(g, "once", text, len);
		gather_add(g, "twice", text, len);
		CHECK(gather_merge(g));
		CHECK_EQ(latrec_hist_count(gather_hist(g)), n);
		printf("  %llu windows: %llu looks\n", (unsigned long long)n,
			(unsigned long long)gather_looks(g));
		CHECK(gather_looks(g) < 4 * n * (64 - (uint64_t)__builtin_clzll(n)));
		gather_destroy(g);
	}
}
