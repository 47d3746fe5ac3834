/* SPDX-License-Identifier: MIT */
/*
 * delegrpc's ring when it can hold all calls in flight, so that nobody looks whether there
 * is room: is that still true when clients are killed and others take their ids? A client
 * that comes waits until all that was reserved before it has been given back.
 *
 * Each client keeps up to DEPTH / CLIENTS calls in flight; the server answers what it has
 * taken ; one client may be killed between any two steps, and has a successor.
 *
 * Shown: a slot is never reserved again before the server has taken what was in it.
 *
 * Wrong variant, which must fail:
 *	NO_WAIT		the successor starts at once
 */
#define CLIENTS 2
#define EACH 2 /* calls in flight: resp_depth */
#define DEPTH 4 /* CLIENTS * EACH */
#ifndef CALLS
#define CALLS 3 /* of each life */
#endif

byte head, tail, cursor;
bool filled[DEPTH]; /* by slot */
byte asker[DEPTH]; /* life * CLIENTS + id */
byte answers[CLIENTS]; /* to the present life, not yet read */
byte life[CLIENTS];
bool dying[CLIENTS], ended[CLIENTS];

proctype client(byte me)
{
	byte calls, inflight, pos, start;

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
				inflight++; calls++
			};
			atomic {
				assert(pos < cursor + DEPTH); /* what was in the slot is taken */
				filled[pos % DEPTH] = true; pos = 0
			}
		:: answers[me] > 0 -> atomic { answers[me]--; inflight-- }
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

/* A death, at any moment, or none. */
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
	do
	:: cursor < head && FILLED ->
		atomic {
			/* Answered at once; who has died gets nothing. */
			if
			:: PRESENT -> answers[ASKER % CLIENTS]++
			:: else
			fi;
			FILLED = false; ASKER = 0; cursor++
		}
	:: cursor < head && !FILLED && !PRESENT -> atomic { ASKER = 0; cursor++ } /* a hole */
	:: tail != cursor -> tail = cursor
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
