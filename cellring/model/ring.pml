/* SPDX-License-Identifier: MIT */
/*
 * A ring of cellring.h between a producer that makes calls and a consumer that answers them: CELLS
 * cells of two messages, at most DEPTH calls in flight, bursts of one and two, answers in any
 * order.
 *
 * The model's consumer answers a message just before it reads the payload. A response is consumed
 * in the same way: its callback may make the next call and still read the payload afterwards. For
 * this case the ring has a spare cell: one more than DEPTH.
 *
 * The model shows two properties. When the consumer accepts the head of the first message of a
 * burst, the burst is complete, and it is the expected burst. A cell is not written before the
 * consumer has taken all messages in it.
 *
 * The head is stored with release, so the model writes the words of a burst one after another, each
 * visible at once.
 *
 * Wrong variants, each of which must fail:
 *	HEAD_FIRST	the first head is stored before the payload
 *	NO_SPARE	there are only as many cells as calls in flight
 *	NO_LAP		the consumer accepts any head but zero
 */
#define CALLS 7
#define DEPTH 2
#ifdef NO_SPARE
#define CELLS 2
#else
#define CELLS 3
#endif
#define EMPTY 255

/* The words of a cell: lap and count of the first head, and a payload for each message. */
byte lap[CELLS];
byte count[CELLS];
byte payload[CELLS * 2]; /* the number of the call */

/* Responses: an unordered set, because answers come in any order. */
bool answered[CALLS];
byte untaken[CELLS]; /* messages that the consumer has not copied out */

byte sent, ended; /* numbers of calls; private to the producer */

inline write_payload(c, first, n)
{
	payload[c * 2] = first;
	if
	:: n == 2 -> payload[c * 2 + 1] = first + 1
	:: else
	fi
}

inline write_head(c, l, n)
{
	d_step {
		assert(untaken[c] == 0);
		lap[c] = l;
		count[c] = n;
		untaken[c] = n
	}
}

active proctype producer()
{
	byte cell, now = 1, n, i;

	do
	:: sent < CALLS && sent - ended < DEPTH ->
		/* A burst of one, or of two if there is room for two. */
		if
		:: n = 1
		:: sent + 2 <= CALLS && sent + 2 - ended <= DEPTH -> n = 2
		fi;
		assert(untaken[cell] == 0);
#ifdef HEAD_FIRST
		write_head(cell, now, n);
		write_payload(cell, sent, n);
#else
		write_payload(cell, sent, n);
		write_head(cell, now, n);
#endif
		sent = sent + n;
		cell = cell + 1;
		if
		:: cell == CELLS -> cell = 0; now = now + 1
		:: else
		fi
	:: ended < sent ->
		/* Consumes the answer with the lowest number, if there is one. */
		i = 0;
		do
		:: i < CALLS && answered[i] -> answered[i] = false; ended++; break
		:: i < CALLS && !answered[i] -> i++
		:: i == CALLS -> break
		od
	:: ended == CALLS -> break
	od
}

active proctype consumer()
{
	byte cell, now = 1, n, i, taken, held = EMPTY, got;

	do
	:: taken < CALLS &&
#ifdef NO_LAP
		lap[cell] != 0 ->
#else
		lap[cell] == now ->
#endif
		n = count[cell];
		i = 0;
		do
		:: i < n ->
			/* The message is answered now, or at any time after this burst. */
			if
			:: held == EMPTY -> held = taken
			:: answered[taken] = true
			fi;
			got = payload[cell * 2 + i];
			assert(got == taken);
			untaken[cell]--;
			taken++;
			i++
		:: else -> break
		od;
		cell = cell + 1;
		if
		:: cell == CELLS -> cell = 0; now = now + 1
		:: else
		fi
	:: held != EMPTY -> answered[held] = true; held = EMPTY
	:: taken == CALLS && held == EMPTY -> break
	od
}
