/* SPDX-License-Identifier: MIT */
/*
 * Storms: programs that derive a random schedule of all operations of a layer from a seed, run it,
 * and check what the layer's header promises.
 *
 *	int main(int argc, char **argv)
 *	{
 *		return storm_main(argc, argv, one_seed);	// test-storm [SEED [COUNT]]
 *	}
 *
 * Each seed runs in a child of its own. Without SEED, or with 0, the seed is TEST_SEED or a new
 * one. If a seed fails or does not end, the storm prints it, with the command that repeats it.
 */
#ifndef SUPPORT_STORM_H
#define SUPPORT_STORM_H

#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "support/fdtest.h"

/* Returns the time limit of a seed, in seconds. On an idle machine a seed takes one or two. */
static inline unsigned storm_guard(void)
{
	const char *env = getenv("STORM_GUARD");

	return env ? (unsigned)strtoul(env, NULL, 0) : 800;
}

/* Must be called in each child that a storm forks: the child ends with its parent. */
static inline void storm_child(void)
{
	CHECK_EQ(prctl(PR_SET_PDEATHSIG, SIGKILL), 0);
	alarm(storm_guard());
}

static inline uint32_t storm_draw(uint64_t *rng, uint32_t from, uint32_t to)
{
	return from + (uint32_t)(test_rand(rng) % (to - from + 1));
}

/* Returns true with a probability of 1/n. */
static inline bool storm_one_in(uint64_t *rng, uint32_t n)
{
	return test_rand(rng) % n == 0;
}

/*
 * Draws a number from 1 to @most. Draws a power of two as its upper limit first, so that small
 * numbers are often drawn.
 */
static inline uint32_t storm_size(uint64_t *rng, uint32_t most)
{
	uint32_t bits = 32 - (uint32_t)__builtin_clz(most);
	uint32_t top = 1u << storm_draw(rng, 1, bits);

	return storm_draw(rng, 1, top < most ? top : most);
}

/* The sender and the receiver derive the length and the bytes of a message from its number. */
static inline uint32_t storm_length(uint64_t number, uint32_t salt, uint32_t least, uint32_t most)
{
	uint64_t state = number * 2 + salt;
	uint64_t r = test_rand(&state);

	/* The maximum is drawn often, because it is the limit of buffers. */
	return r % 8 == 0 ? most : least + (uint32_t)((r >> 8) % (most - least + 1));
}

static inline void storm_fill(unsigned char *bytes, uint32_t len, uint64_t number, uint32_t salt)
{
	uint64_t state = number ^ (uint64_t)salt << 60;

	for (uint32_t i = 0; i < len; i += 8) {
		uint64_t word = test_rand(&state);

		memcpy(bytes + i, &word, len - i < 8 ? len - i : 8);
	}
}

static inline void storm_check(const void *bytes, uint32_t len, uint64_t number, uint32_t salt)
{
	const unsigned char *b = (const unsigned char *)bytes;
	uint64_t state = number ^ (uint64_t)salt << 60;

	for (uint32_t i = 0; i < len; i += 8) {
		uint64_t word = test_rand(&state);

		CHECK(memcmp(b + i, &word, len - i < 8 ? len - i : 8) == 0);
	}
}

/* Returns 0, or 1 if the seed has failed. */
static inline int storm_seed(uint64_t seed, void (*run)(uint64_t seed))
{
	pid_t pid = test_fork();
	int status;

	if (!pid) {
		storm_child();
		run(seed);
		fflush(stdout);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	if (!status)
		return 0;
	printf("seed 0x%" PRIx64 " failed (%s %d)\n", seed,
		WIFSIGNALED(status) ? "signal" : "status",
		WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	fflush(stdout);
	return 1;
}

static inline int storm_main(int argc, char **argv, void (*run)(uint64_t seed))
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 0;
	uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	int failed = 0;

	if (!seed)
		seed = test_seed();
	for (uint64_t i = 0; i < count; i++)
		failed += storm_seed(seed + i, run);
	if (failed)
		printf("%d of %" PRIu64 " seeds failed; repeat one with: %s SEED\n", failed, count,
			argv[0]);
	return failed != 0;
}

#endif
