/* SPDX-License-Identifier: MIT */
/*
 * Registrations with adapters (rails4.topology): no other operation waits for a long registration.
 * The program's own ibv_reg_mr() and ibv_reg_mr_iova2() replace those of libibverbs, and hold the
 * registration of BIG bytes until the test releases it.
 */
#include <pthread.h>

#include "gate.h"
#include "next.h"
#include "outage.h"

#define BIG (3 * MIB)

static void hold(size_t len)
{
	if (len == BIG)
		gate_pass();
}

REPLACE(hold(len), void *, ibv_reg_mr, (void *pd, void *addr, size_t len, int access), pd, addr,
	len, access)
REPLACE(hold(len), void *, ibv_reg_mr_iova2,
	(void *pd, void *addr, size_t len, uint64_t iova, unsigned int access), pd, addr, len, iova,
	access)

/* A registration that is held. */
static struct {
	struct tent *t;
	uint8_t *memory;
	pthread_t thread;
	int err;
} big;

static void *register_big(void *arg)
{
	big.err = tent_register(big.t, big.memory, BIG, NULL, NULL);
	return NULL;
}

/* Starts a registration that is held. Returns when it is under way. */
static void begin_big(struct tent *t)
{
	big.t = t;
	big.memory = test_shared(BIG);
	gate_set(false);
	CHECK_EQ(pthread_create(&big.thread, NULL, register_big, NULL), 0);
	gate_await();
}

static void end_big(void)
{
	gate_set(true);
	CHECK_EQ(pthread_join(big.thread, NULL), 0);
	CHECK_EQ(big.err, 0);
	CHECK_EQ(tent_unregister(big.t, big.memory), 0);
	munmap(big.memory, BIG);
}

static uint16_t command(struct tent *t, char c)
{
	if (c == 'b')
		begin_big(t);
	else
		end_big();
	return 0;
}

/* A rail reports an error: its slices are sent over the other rails immediately. */
static void an_error_moves_slices(void)
{
	outage_ctl("fault add device=mlx5_1 opcode=write nth=2 action=error syndrome=remote_op");
	memset(d.mine, 0x55, d.len);
	duo_move_all(TENT_WRITE, 9);
	CHECK_EQ(outage_rail(1).exclusions, 1);
	outage_ctl("fault clear");
}

TEST(a_peer_that_registers_answers)
{
	duo_open(&(struct duo_attr){.len = 8 * MIB, .command = command});
	duo_ask('b');
	an_error_moves_slices();
	duo_ask('g');
}

TEST(who_registers_moves_on)
{
	duo_open(&(struct duo_attr){.len = 8 * MIB});
	begin_big(d.t);
	an_error_moves_slices();
	end_big();
}

/* Memory that is being registered cannot be registered again, and cannot be used yet. */
TEST(what_is_being_registered)
{
	struct tent_request r;
	struct tent_batch *b;
	struct tent_why why;
	char *text, place[40];

	duo_open(&(struct duo_attr){.len = MIB});
	begin_big(d.t);
	CHECK_EQ(tent_register(d.t, big.memory + BIG - 1, 4096, NULL, &why), -EEXIST);
	CHECK_EQ(tent_unregister(d.t, big.memory), -ENOENT);
	r = duo_request(TENT_WRITE, 0, 4096);
	r.local = big.memory;
	CHECK_EQ(tent_submit(d.t, &r, 1, &b), -EFAULT);
	CHECK_EQ(tent_export(d.t, &text), 0);
	snprintf(place, sizeof(place), "\"addr\":%llu,", (unsigned long long)(uintptr_t)d.mine);
	CHECK(strstr(text, place));
	snprintf(place, sizeof(place), "\"addr\":%llu,", (unsigned long long)(uintptr_t)big.memory);
	CHECK(!strstr(text, place));
	free(text);
	end_big();
}
