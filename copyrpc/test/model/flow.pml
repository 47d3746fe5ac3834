/* SPDX-License-Identifier: MIT */
/*
 * Flow control between two endpoints: all interleavings of calls, replies in any order,
 * detaching, flushes, deliveries, READs and credit batches. The model asserts that the invariant of
 * credit.h holds, that no unconsumed byte is overwritten, that a reply is never blocked, and that
 * batches without messages do not cause each other. If no step is possible before all calls are
 * answered, this is a deadlock, which Spin reports as an invalid end state.
 *
 * The guards are macros of model.h, because Spin allows no function calls in guards.
 */
c_decl {
\#include "model.h"
}
c_state "struct model m" "Global"

#define SIDE(s) \
	:: c_expr { CAN_CALL_SMALL_##s } -> c_code { do_call(&now.m, s, 1, 1); } \
	:: c_expr { CAN_CALL_LARGE_##s } -> c_code { do_call(&now.m, s, LARGE, LARGE); } \
	:: c_expr { WOULD_STALL_##s } -> c_code { now.m.d[s].stalled = 1; } \
	:: c_expr { CAN_NEST_SMALL_##s } -> c_code { do_nest(&now.m, s, 1); } \
	:: c_expr { CAN_NEST_LARGE_##s } -> c_code { do_nest(&now.m, s, LARGE); } \
	:: c_expr { NEST_WOULD_STALL_##s } -> c_code { now.m.d[s].stalled = 1; } \
	:: c_expr { UNSENT_##s } -> c_code { do_flush(&now.m, s); } \
	:: c_expr { CAN_CREDIT_##s } -> c_code { do_credit_only(&now.m, s); } \
	:: c_expr { CAN_READ_##s } -> c_code { do_read(&now.m, s); } \
	:: c_expr { CAN_RECEIVE_##s } -> c_code { do_receive(&now.m, s); } \
	:: c_expr { CAN_REPLY_FIRST_##s } -> c_code { do_reply(&now.m, s, 0, 1); } \
	:: c_expr { CAN_REPLY_SECOND_##s } -> c_code { do_reply(&now.m, s, 1, 1); } \
	:: c_expr { CAN_REPLY_FIRST_LARGE_##s } -> c_code { do_reply(&now.m, s, 0, LARGE); } \
	:: c_expr { CAN_REPLY_SECOND_LARGE_##s } -> c_code { do_reply(&now.m, s, 1, LARGE); } \
	:: c_expr { CAN_DETACH_##s } -> c_code { do_detach(&now.m, s, 0); } \
	:: c_expr { OWES_SMALL_##s } -> c_code { do_reply_detached(&now.m, s, 2); } \
	:: c_expr { OWES_LARGE_##s } -> c_code { do_reply_detached(&now.m, s, LARGE + 1); }

init {
	byte at0, at1;

	do
	:: at0 + STEP < C -> at0 = at0 + STEP
	:: at1 + STEP < C -> at1 = at1 + STEP
	:: break
	od;
	atomic {
		c_code { init(&now.m, Pinit->at0, Pinit->at1, CALLS0, CALLS1); };
		at0 = 0;
		at1 = 0
	};
	do
	:: atomic { c_expr { FINISHED } -> break }
	:: atomic {
		if
		SIDE(0)
		SIDE(1)
		fi;
		assert(c_expr { HOLDS })
	}
	od
}
