/* SPDX-License-Identifier: MIT */
/*
 * delegrpc's ring when it can hold all calls in flight, so that clients do not check whether there
 * is room. The question is whether there is always room when clients are killed and others take
 * their ids. A new client waits until everything that was reserved before it has been given back.
 *
 * Each client keeps up to DEPTH / CLIENTS calls in flight; the server answers the requests that it
 * has taken; one client may be killed between any two steps, and has a successor. The program that
 * uses the server (its user) gives slots back only after it has received something, and otherwise
 * waits.
 *
 * Each message is a call or, from client 0, a post. A post is in flight until the client has read a
 * tail that is greater than the post's position.
 *
 * The model shows: a slot is never reserved again before the server has taken its request, and
 * every successor can make calls.
 *
 * Wrong variants, which must fail:
 *	NO_WAIT		the successor does not wait
 *	SKIP_KEEPS_TAIL	skipped positions are given back by the user only
 *	POSTS_ARE_FREE	a post does not count as in flight
 *	POST_ENDS_EARLY	a post ends when the tail is equal to its position
 */
#ifdef POST_ENDS_EARLY
#define ENDS 0
#else
#define ENDS 1
#endif
#define CLIENTS 2
#define EACH 2 /* calls in flight: resp_depth */
#define DEPTH 4 /* CLIENTS * EACH */
#ifndef CALLS
#define CALLS 3 /* calls that a client makes before it ends */
#endif

byte head, tail, cursor;
bool filled[DEPTH]; /* by slot */
bool is_post[DEPTH];
byte asker[DEPTH]; /* the client of the request: life * CLIENTS + id */
byte answers[CLIENTS]; /* answers to the present client of each id, not yet read */
byte life[CLIENTS];
bool dying[CLIENTS], ended[CLIENTS];

proctype client(byte me)
{
	byte calls, inflight, pos, start;
	byte posts, post[EACH]; /* its posts in flight, by age: the positions after them */

	{
		start = head;
#ifndef NO_WAIT
		(tail >= start);
#endif
		do
		:: calls < CALLS && inflight < EACH ->
			atomic {
				pos = head; head++;
				asker[pos % DEPTH] = life[me] * CLIENTS + me;
				inflight++; calls++;
				if
				:: is_post[pos % DEPTH] = false
				:: me == 0 -> is_post[pos % DEPTH] = true;
#ifdef POSTS_ARE_FREE
					inflight--
#else
					post[posts] = pos + ENDS; posts++
#endif
				fi
			};
			atomic {
				assert(pos < cursor + DEPTH); /* the slot's last request has been taken */
				filled[pos % DEPTH] = true; pos = 0
			}
		:: answers[me] > 0 -> atomic { answers[me]--; inflight-- }
		:: posts && tail >= post[0] -> /* posts_take_back() */
			atomic {
				post[0] = post[1]; post[1] = 0;
				posts--; inflight--
			}
		:: calls == CALLS && inflight == 0 -> break
		od;
		ended[me] = true
	} unless {
		atomic {
			dying[me] -> dying[me] = false;
			answers[me] = 0;
			life[me]++;
			run client(me)
		}
	}
}

/* Kills the client at any moment, or never. */
proctype killer(byte who)
{
	if
	:: atomic { !ended[who] -> dying[who] = true }
	:: skip
	fi
}

#define ASKER asker[cursor % DEPTH]
#define FILLED filled[cursor % DEPTH]
#define PRESENT (ASKER / CLIENTS == life[ASKER % CLIENTS])

proctype server()
{
	bool received, gives;

	do
	:: cursor < head && FILLED ->
		atomic {
			/* The request is answered immediately, unless its client has died. */
			if
			:: PRESENT && !is_post[cursor % DEPTH] -> answers[ASKER % CLIENTS]++
			:: else
			fi;
			FILLED = false; ASKER = 0; is_post[cursor % DEPTH] = false; cursor++; received = true
		}
	:: cursor < head && !FILLED && !PRESENT -> /* a hole */
		atomic {
#ifndef SKIP_KEEPS_TAIL
			gives = tail == cursor;
#endif
			ASKER = 0; is_post[cursor % DEPTH] = false; cursor++;
			tail = (gives -> cursor : tail);
			gives = false
		}
	:: received -> atomic { tail = cursor; received = false }
	:: ended[0] && ended[1] && cursor == head && tail == cursor -> break
	od
}

init {
	atomic {
		run client(0);
		run client(1);
		run killer(0);
		run server()
	}
}
