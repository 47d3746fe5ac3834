/* SPDX-License-Identifier: MIT */
/*
 * delegrpc's request ring: reservation with a margin, claims, commit by lap, hole search;
 * at most one client is killed, between any two of its steps.
 *
 * A batch is copied to its places first, and then gets its laps, in order.
 *
 * Each shared access is one step, interleaved freely (sequential consistency; what the
 * release and acquire orders add to that on weaker machines is the variant LATE_FILL).
 * Positions do not wrap here; a slot's lap is pos / DEPTH + 1 as in the library. That
 * the server comes to its end, with the ring empty, is the absence of invalid end states.
 *
 * Shown: no more than DEPTH positions are in use; what is handed out is what its owner
 * filled; only positions of the dead are skipped, and nothing of theirs is handed out
 * behind what was skipped; nothing stays behind, so nobody's death stops the others.
 *
 * Wrong variants, each of which must fail:
 *	SMALL_MARGIN	the margin leaves no batch for one of the clients
 *	NO_INTENT	nothing is said before the reservation
 *	NO_RECHECK	the slot is not looked at again after the claims
 *	LATE_FILL	a slot's last store is seen after the next claim (no release)
 *	FIRST_LAP_LAST	the laps of a batch are stored from its last place to its first
 */
#define CLIENTS 2
#define BATCH 2
#ifndef FLUSHES
#define FLUSHES 2 /* of each; more than DEPTH positions in all */
#endif
#define DEPTH 5 /* > CLIENTS * BATCH */

#ifdef SMALL_MARGIN
#define LIMIT (DEPTH - (CLIENTS - 1) * BATCH)
#else
#define LIMIT (DEPTH - CLIENTS * BATCH)
#endif

#define NONE 0
#define INTENT 1
#define AT 2

#define LAP(pos) ((pos) / DEPTH + 1)

byte head, tail, cursor;
byte lap[DEPTH];
byte claim[CLIENTS], claim_pos[CLIENTS];
bool dead[CLIENTS], done[CLIENTS];

/* What only the properties look at, by slot; gone when the slot has been taken. */
byte owner[DEPTH];
byte copied[DEPTH]; /* for which position, plus 1 */
bool filled[DEPTH];
bool gap[CLIENTS]; /* something of its was skipped */

inline copy(p)
{
	atomic {
		/* The slot's last user has been given back: at most DEPTH are in use. */
		assert(p < tail + DEPTH);
		copied[(p) % DEPTH] = (p) + 1
	}
}

inline fill(p)
{
	atomic {
		lap[(p) % DEPTH] = LAP(p);
		filled[(p) % DEPTH] = true
	}
}

#ifdef FIRST_LAP_LAST
#define NTH(i) (BATCH - 1 - (i))
#else
#define NTH(i) (i)
#endif

proctype client(byte me)
{
	byte k, i, h, t, pos;
#ifdef LATE_FILL
	byte late;
	bool is_late;
#endif
	{
		do
		:: k == FLUSHES -> break
		:: k < FLUSHES ->
			/* has_room() */
			do
			:: t = tail; h = head;
				if
				:: h - t <= LIMIT -> break
				:: else -> (head - tail <= LIMIT) /* poll and retry */
				fi
			od;
#ifndef NO_INTENT
			claim[me] = INTENT;
#endif
			atomic {
				pos = head; head = head + BATCH; h = 0; t = 0;
				for (i : 0 .. BATCH - 1) {
					owner[(pos + i) % DEPTH] = me
				}
			};
			atomic { claim_pos[me] = pos; claim[me] = AT; i = 0 }; /* one word */
#ifdef LATE_FILL
			if
			:: is_late -> fill(late); is_late = false
			:: else
			fi;
#endif
			do
			:: i < BATCH -> copy(pos + i); i++
			:: else -> i = 0; break
			od;
			do
			:: i < BATCH ->
#ifdef LATE_FILL
				if
				:: i == BATCH - 1 && k < FLUSHES - 1 -> late = pos + i; is_late = true
				:: else -> fill(pos + i)
				fi;
#else
				fill(pos + NTH(i));
#endif
				i++
			:: else -> break
			od;
			k++; i = 0; pos = 0
		od;
		done[me] = true
	} unless { dead[me] }
}

/* Kills one client, or none, at any moment. */
proctype killer()
{
	if
	:: atomic { !done[0] -> dead[0] = true }
	:: atomic { !done[1] -> dead[1] = true }
	:: skip
	fi
}

#define FILLED(p) (lap[(p) % DEPTH] == LAP(p))
#define OVER(i) (done[i] || dead[i])

proctype server()
{
	byte i;
	bool may;

	do
	:: FILLED(cursor) ->
		atomic {
			assert(filled[cursor % DEPTH] && copied[cursor % DEPTH] == cursor + 1);
			assert(!gap[owner[cursor % DEPTH]]);
			filled[cursor % DEPTH] = false; owner[cursor % DEPTH] = 0;
			copied[cursor % DEPTH] = 0;
			cursor++
		}
	:: tail != cursor -> tail = cursor /* advance_tail() */
	:: !FILLED(cursor) && head != cursor -> /* unstick(); an idle server need not be modelled */
		do
		:: i < CLIENTS ->
			atomic { /* the claim is one word, read once; the lock comes after */
				if
				:: claim[i] == INTENT -> may = may || !dead[i]
				:: claim[i] == AT && cursor >= claim_pos[i] &&
				   cursor < claim_pos[i] + BATCH -> may = may || !dead[i]
				:: else
				fi
			};
			i++
		:: else -> break
		od;
		if
		:: may
#ifdef NO_RECHECK
		:: !may ->
#else
		:: !may && FILLED(cursor)
		:: !may && !FILLED(cursor) ->
#endif
			atomic {
				assert(dead[owner[cursor % DEPTH]] && !filled[cursor % DEPTH]);
				gap[owner[cursor % DEPTH]] = true;
				owner[cursor % DEPTH] = 0; copied[cursor % DEPTH] = 0;
				cursor++
			}
		fi;
		may = false; i = 0
	:: OVER(0) && OVER(1) && cursor == head && tail == cursor -> break
	od
}

init {
	atomic {
		run client(0);
		run client(1);
		run killer();
		run server()
	}
}
