/* SPDX-License-Identifier: MIT */
/*
 * Checks the ring, as a consumer would see it, after each instruction of a producer that publishes
 * a burst. Once the head is visible, the whole burst is visible. As long as another line of the
 * burst is missing, the line of the head, which the consumer polls, is unchanged.
 */
#include <sys/mman.h>

#include "support/step.h"
#include "cellring.h"

#define MESSAGES 6
#define WORDS 4

static unsigned char *ring; /* shared with the producer */

static void producer(const struct cellring_plan *plan)
{
	static struct cellring_burst burst;
	struct cellring_cursor out;

	cellring_cursor_init(&out, ring, plan);
	cellring_burst_close(&burst);
	CHECK(cellring_burst_open(&burst, &out, MESSAGES + 1));
	for (uint64_t i = 1; i <= MESSAGES; i++) {
		uint64_t data[WORDS] = {i, i, i, i};

		cellring_burst_add(&burst, (uint32_t)i, data, sizeof(data));
	}
	step_trace_me();
	cellring_burst_write_part(&burst);
	raise(SIGSTOP);
	_exit(0);
}

/* Returns the number of words that are zero. */
static size_t zeros(const uint64_t *words, size_t n)
{
	size_t found = 0;

	for (size_t i = 0; i < n; i++)
		found += !words[i];
	return found;
}

/* Checks the ring after an instruction. Returns true if the head has been stored. */
static bool look(const struct cellring_plan *plan)
{
	const uint64_t *words = (const uint64_t *)(const void *)ring;
	size_t line = CELLRING_LINE / sizeof(*words), n = MESSAGES * plan->stride / sizeof(*words);

	if (words[0])
		CHECK_EQ(zeros(words, n), 0);
	if (zeros(words + line, n - line))
		CHECK_EQ(zeros(words, line), line);
	return words[0] != 0;
}

TEST(each_instruction)
{
	struct cellring_plan plan = cellring_plan_for(WORDS * sizeof(uint64_t), 32, 0);
	bool head = false;
	uint32_t steps = 0;
	pid_t pid;

	ring = mmap(NULL, cellring_bytes(&plan), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		-1, 0);
	CHECK(ring != MAP_FAILED);
	pid = test_fork();
	if (!pid)
		producer(&plan);
	CHECK_EQ(step_wait(pid, NULL, NULL), SIGSTOP);
	while (step_next(pid, PTRACE_SINGLESTEP, NULL, NULL) == SIGTRAP && steps++ < 1000000) {
		bool now = look(&plan);

		CHECK(now || !head);
		head = now;
	}
	CHECK(head);
	CHECK(steps > MESSAGES * WORDS / 2);
	step_kill(pid);
	CHECK_EQ(munmap(ring, cellring_bytes(&plan)), 0);
}
