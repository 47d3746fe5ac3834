/* SPDX-License-Identifier: MIT */
/*
 * Posts of a client of shmipc (src/post.h), in a place that passes from client to client. A post
 * counts against the depth until the server has consumed it, and a call until the client has read
 * the answer. The server counts the consumed posts and publishes the count after the last one of
 * successive posts in a burst. Sleeping, and stores that become visible late, are in
 * flux/model/post.pml.
 *
 * The model shows: no message overwrites one that the server has not read; the count is never
 * greater than the number of posts of the present client, whichever client had the place before;
 * and a client that waits for room, or for the consumption of its posts, does not wait for ever
 * (otherwise Spin would report an invalid end state).
 *
 * Wrong variants, each of which must fail:
 *	EARLY_COUNT	a post counts as consumed before it has been read
 *	RUN_GOES_ON	the count is not published before a call of the same burst
 *	COUNT_STAYS	the server does not reset the count for the next client
 *	LATE_RESET	the server resets the count after the next client may have taken the place
 *	COPY_STAYS	the server does not reset its private copy of the count
 */
#define DEPTH 2
#define LIVES 2
#define MESSAGES 4 /* messages of each client */

#define IS_CALL 0
#define IS_POST 1

chan ring = [DEPTH] of { bit, bool }; /* kind; whether the message ends a burst */
byte count; /* of consumed posts, in the place */
byte answers; /* answers to the client's calls, not taken yet */
byte written, done; /* number of messages that the client has written; that the server has read */
bool clean = true, alive;
byte lives;

inline put(kind, last)
{
	assert(written - done < DEPTH);
	ring!kind, last;
	written++;
	made++;
	if
	:: kind == IS_POST -> posts++; open++
	:: else -> calls++
	fi
}

proctype client()
{
	byte made, posts, open, calls;

	do
	:: lives == LIVES -> break
	:: lives < LIVES ->
		atomic { clean -> clean = false; alive = true; lives++; made = 0; posts = 0; open = 0; calls = 0 };
		do
		:: atomic { made < MESSAGES && open + calls < DEPTH -> put(IS_POST, true) }
		:: atomic { made < MESSAGES && open + calls < DEPTH -> put(IS_CALL, true) }
		:: atomic { made + 2 <= MESSAGES && open + calls + 2 <= DEPTH -> put(IS_POST, false); put(IS_POST, true) }
		:: atomic { made + 2 <= MESSAGES && open + calls + 2 <= DEPTH -> put(IS_POST, false); put(IS_CALL, true) }
		:: d_step { answers -> answers--; calls-- }
		:: d_step { open && count != posts - open -> /* posts_look() */
			assert(count - (posts - open) <= open && count >= posts - open);
			open = posts - count
		   }
		:: made == MESSAGES && open == 0 && calls == 0 -> break /* shmipc_client_posts() is 0 */
		:: made == 2 -> break /* killed */
		od;
		alive = false
	od
}

proctype server()
{
	byte mine; /* the private copy of the count */
	bit kind, next;
	bool last;

	do
	:: ring?kind, last ->
#ifdef EARLY_COUNT
		count = mine + kind;
#endif
		done++; /* the user has read it */
		if
		:: kind == IS_CALL -> answers++
		:: else ->
			mine++;
#ifdef RUN_GOES_ON
			next = !last;
#else
			next = IS_CALL;
			if
			:: !last && ring?[IS_POST, _] -> next = IS_POST
			:: else
			fi;
#endif
			if
			:: next -> skip
			:: else -> count = mine
			fi
		fi
	:: empty(ring) && !alive && !clean -> /* place_clean() */
		answers = 0;
		written = 0;
		done = 0;
#ifndef COPY_STAYS
		mine = 0;
#endif
#ifdef LATE_RESET
		clean = true;
#endif
#ifndef COUNT_STAYS
		count = 0;
#endif
#ifndef LATE_RESET
		clean = true;
#endif
		if
		:: lives == LIVES -> break
		:: lives < LIVES
		fi
	od
}

init {
	atomic {
		run client();
		run server()
	}
}
