/* SPDX-License-Identifier: MIT */
/*
 * Posts of one node to another (flux/src/post.h), on a machine with store buffers. The sender has at
 * most DEPTH posts in flight, and waits for room. The receiver counts the consumed posts, and
 * publishes the count after the last post of a burst. Before it waits for more posts, it checks
 * whether the sender sleeps. A store stays in its process's buffer until it drains; see
 * delegrpc/model/sleep.pml. Published bursts need no store buffer in this model, because the
 * receiver polls.
 *
 * The model shows: no cell is written again before its posts have been read, and the sender does
 * not sleep for ever (otherwise Spin would report an invalid end state).
 *
 * Wrong variants, each of which must fail:
 *	EARLY_COUNT		a post counts as consumed before it has been read
 *	RUN_GOES_ON		the count is not published at the end of a burst, but in the next one
 *	NO_FLUSH		the receiver waits without checking the sender's state
 *	NO_RECEIVER_FENCE	the receiver may read the sender's state before its count is visible
 *	NO_SENDER_FENCE		the sender may read the count again before its state is visible
 *	NO_SECOND_LOOK		the sender does not read the count again after it has set its state
 */
#define DEPTH 2
#define POSTS 6
#define CELLS DEPTH /* each holds one burst; the library has more cells */

#define RUNNING 0
#define ASLEEP 2

byte bursts; /* number of published bursts */
byte size[CELLS];
byte unread[CELLS]; /* unread posts in each cell */
byte consumed; /* the published count */
byte state = RUNNING; /* the sender's state */
bool in_kernel; /* the sender waits in futex_wait() */
chan count_buffer = [2] of { byte };
chan state_buffer = [4] of { byte };

proctype drain_count()
{
	byte v;
end:	do
	:: atomic { count_buffer?v -> consumed = v }
	od
}

proctype drain_state()
{
	byte v;
end:	do
	:: atomic { state_buffer?v -> state = v }
	od
}

inline write_burst(n)
{
	atomic {
		assert(unread[bursts % CELLS] == 0);
		size[bursts % CELLS] = n;
		unread[bursts % CELLS] = n;
		bursts++;
		made = made + n
	}
}

proctype sender()
{
	byte made, seen; /* seen: the count that was read last */

	do
	:: made == POSTS -> break
	:: made < POSTS && made - seen < DEPTH -> write_burst(1)
	:: made + 2 <= POSTS && made - seen + 2 <= DEPTH -> write_burst(2)
	:: made < POSTS && made - seen == DEPTH && consumed != seen -> seen = consumed
	:: made < POSTS && made - seen == DEPTH && consumed == seen ->
		state_buffer!ASLEEP; /* sleep_prepare() */
#ifndef NO_SENDER_FENCE
		empty(state_buffer);
#endif
		if
#ifdef NO_SECOND_LOOK
		:: true ->
#else
		:: consumed != seen -> state_buffer!RUNNING /* sleep_cancel() */
		:: consumed == seen ->
#endif
			atomic { empty(state_buffer) -> in_kernel = (state == ASLEEP) };
			!in_kernel;
			state_buffer!RUNNING
		fi
	od
}

proctype receiver()
{
	byte taken, got, left, found;
	bool owed; /* the receiver has published a count, and not read the sender's state since */

	do
	:: got == POSTS && !owed -> break
	:: taken < bursts ->
		left = size[taken % CELLS];
		do
		:: left == 0 -> break
		:: left > 0 ->
#ifdef EARLY_COUNT
			count_buffer!got + 1;
#endif
			unread[taken % CELLS]--; /* the function reads the payload */
			left--;
			got++;
			if
#ifdef RUN_GOES_ON
			:: left == 0 && taken + 1 == bursts && got < POSTS -> skip
			:: left == 0 && (taken + 1 < bursts || got == POSTS) ->
#else
			:: left == 0 ->
#endif
				count_buffer!got;
				owed = true
			:: left > 0
			fi
		od;
		taken++
#ifdef NO_FLUSH
	:: owed -> owed = false
#else
	:: owed ->
		owed = false;
#ifndef NO_RECEIVER_FENCE
		empty(count_buffer); /* sleep_fence() */
#endif
		found = state;
		if
		:: found == ASLEEP ->
			atomic { empty(count_buffer) -> found = state; state = RUNNING };
			if
			:: found == ASLEEP -> in_kernel = false /* futex_wake() */
			:: else
			fi
		:: else
		fi
#endif
	od
}

init {
	atomic {
		run drain_count();
		run drain_state();
		run sender();
		run receiver()
	}
}
