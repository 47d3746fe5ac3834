/* SPDX-License-Identifier: MIT */
/*
 * A new object takes the lowest free entry of its table, even if a process was killed during an
 * allocation.
 */
#include <errno.h>

#include "check.h"
#include "hca/objects.h"
#include "member/member.h"

#define SOME 130u /* more than two words of the bitmap */

static int add(enum obj_kind kind)
{
	int i = obj_alloc(kind, 0);

	if (i >= 0)
		obj_publish(kind, (uint32_t)i);
	return i;
}

/* The lowest free entry is taken, from the first of its kind on. */
TEST(lowest)
{
	for (uint32_t i = 0; i < SOME; i++)
		CHECK_EQ(add(OBJ_MR), FIRST_MR_INDEX + i);
	CHECK_EQ(add(OBJ_QP), FIRST_QP_INDEX);
	obj_retract(OBJ_MR, FIRST_MR_INDEX + 100);
	obj_retract(OBJ_MR, FIRST_MR_INDEX + 20);
	CHECK_EQ(add(OBJ_MR), FIRST_MR_INDEX + 20);
	CHECK_EQ(add(OBJ_MR), FIRST_MR_INDEX + 100);
	CHECK_EQ(add(OBJ_MR), FIRST_MR_INDEX + SOME);
}

/* A table can be filled and emptied any number of times. */
TEST(all)
{
	for (int round = 0; round < 3; round++) {
		for (uint32_t i = 1; i < MAX_PDS; i++)
			CHECK_EQ(add(OBJ_PD), i);
		CHECK_EQ(add(OBJ_PD), -ENOMEM);
		for (uint32_t i = 1; i < MAX_PDS; i++)
			obj_retract(OBJ_PD, i);
	}
}

/* An entry's bits in the bitmaps are missing if a process was killed before it set them. */
TEST(missing_bits)
{
	struct arena *a = arena();

	for (uint32_t i = 1; i < SOME; i++)
		CHECK_EQ(add(OBJ_AH), i);
	a->taken[obj_tables[OBJ_AH].word] = 0;
	a->taken[obj_tables[OBJ_AH].word + 1] = 0;
	memset(a->taken_full, 0, sizeof(a->taken_full));
	CHECK_EQ(add(OBJ_AH), SOME);
	CHECK_EQ(add(OBJ_AH), SOME + 1);
}

int main(int argc, char **argv)
{
	sigset_t saved;
	int status;

	test_fabric("objects");
	CHECK(!member_attach());
	CHECK(!fabric_enter(&saved));
	status = test_main(argc, argv);
	for (int kind = 0; kind < OBJ_KINDS; kind++)
		for (uint32_t i = obj_tables[kind].first; i < arena()->high[kind]; i++)
			obj_retract(kind, i);
	fabric_leave(&saved);
	member_detach();
	return status;
}
