/* SPDX-License-Identifier: MIT */
/*
 * delegrpc's request ring (see delegrpc(7)): reservation with a margin of one batch per client,
 * claims, publication by laps, the search for holes, which are slots that a dead client reserved
 * and did not fill, and giving slots back. At most one client is killed, between any two of its
 * steps.
 *
 * The requests of a batch are copied to their slots first, and then the laps are stored, in order.
 * The server searches for holes by a sweep, which reads the claim of one client at a time. Between
 * these steps the server takes requests and skips holes. The program that uses the server (its
 * user) gives slots back only after it has received something.
 *
 * Each shared access is one step, and steps interleave freely (sequential consistency; the variant
 * LATE_FILL models what can happen without release and acquire on weaker machines). Positions do
 * not wrap here; a slot's lap is pos / DEPTH + 1 as in the library. The server ends with an empty
 * ring, so that there are no invalid end states.
 *
 * The model shows:
 *	- at most DEPTH positions are in use
 *	- each request that is handed out is what its owner filled in
 *	- only positions of dead clients are skipped, and after that no request of such a client is
 *	  handed out
 *	- slots that the user holds are not written
 *	- the ring is empty in the end, so a client's death does not stop the others.
 *
 * Wrong variants, each of which must fail:
 *	SMALL_MARGIN	the margin is one batch less than all clients together may reserve
 *	NO_INTENT	a client does not store INTENT before the reservation
 *	NO_RECHECK	the server skips a hole without reading its slot again after the sweep
 *	LATE_FILL	the last lap of a batch is seen after the client's next claim (no release)
 *	FIRST_LAP_LAST	the laps of a batch are stored from its last slot to its first
 *	LATE_HEAD	a sweep uses the value of head at its end, not at its beginning
 *	SKIP_KEEPS_TAIL	skipped positions are given back by the user only
 *	SKIP_GIVES_HELD	skipped positions are given back although the user holds earlier ones
 */
#define CLIENTS 2
#define BATCH 2
#ifdef FLUSHES /* batches that each client publishes; more than DEPTH positions in all */
#define FLUSHES_OF(client) FLUSHES
#else
#define FLUSHES_OF(client) (2 - client)
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

/* Used by the assertions only; indexed by slot, and cleared when the request has been taken. */
byte owner[DEPTH];
byte copied[DEPTH]; /* position whose request was copied to the slot, plus 1 */
bool filled[DEPTH];
bool gap[CLIENTS]; /* a position of this client was skipped */
bool held[DEPTH]; /* held by the server's user */

inline copy(p)
{
	atomic {
		/* The slot's last request has been given back: at most DEPTH are in use. */
		assert(p < tail + DEPTH && !held[(p) % DEPTH]);
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
		:: k == FLUSHES_OF(me) -> break
		:: k < FLUSHES_OF(me) ->
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
			atomic { claim_pos[me] = pos; claim[me] = AT; i = 0 }; /* the claim is one word */
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
				:: i == BATCH - 1 && k < FLUSHES_OF(me) - 1 -> late = pos + i; is_late = true
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

#ifdef SKIP_KEEPS_TAIL
#define GIVES_SKIPPED false
#elif defined(SKIP_GIVES_HELD)
#define GIVES_SKIPPED true
#else
#define GIVES_SKIPPED (tail == cursor)
#endif

proctype server()
{
	byte i, limit, sweep_next;
	byte void_end; /* slots before this position that are not filled are holes; 0: none known */
	bool sweeping, gives, received;

	do
	:: FILLED(cursor) ->
		atomic {
			assert(filled[cursor % DEPTH] && copied[cursor % DEPTH] == cursor + 1);
			assert(!gap[owner[cursor % DEPTH]]);
			filled[cursor % DEPTH] = false; owner[cursor % DEPTH] = 0;
			copied[cursor % DEPTH] = 0; held[cursor % DEPTH] = true;
			received = true;
			cursor++;
			void_end = (void_end > cursor -> void_end : 0)
		}
	:: received -> /* the user has received something: delegrpc_server_advance_tail() */
		atomic {
			tail = cursor; received = false;
			for (i : 0 .. DEPTH - 1) { held[i] = false };
			i = 0
		}
	:: !FILLED(cursor) && head != cursor && !void_end && !sweeping -> atomic { sweeping = true; limit = head; sweep_next = 0 }
	:: sweeping && sweep_next < CLIENTS ->
			atomic { /* the claim is one word, read once; the lock is tested after it */
			if
			:: claim[sweep_next] == INTENT && !dead[sweep_next] -> limit = cursor
			:: claim[sweep_next] == AT && !dead[sweep_next] &&
			   claim_pos[sweep_next] + BATCH > cursor &&
			   claim_pos[sweep_next] < limit ->
				limit = (claim_pos[sweep_next] > cursor -> claim_pos[sweep_next] : cursor)
			:: else
			fi;
			sweep_next = (limit > cursor -> sweep_next + 1 : CLIENTS)
		}
	:: sweeping && sweep_next == CLIENTS ->
		atomic {
#ifdef LATE_HEAD
			limit = (limit > cursor -> head : limit);
#endif
			void_end = (limit > cursor -> limit : 0);
			sweeping = false; sweep_next = 0; limit = 0
		}
#ifdef NO_RECHECK
	:: cursor < void_end ->
#else
	:: cursor < void_end && !FILLED(cursor) ->
#endif
		atomic {
			assert(dead[owner[cursor % DEPTH]] && !filled[cursor % DEPTH]);
			gap[owner[cursor % DEPTH]] = true;
			owner[cursor % DEPTH] = 0; copied[cursor % DEPTH] = 0;
			gives = GIVES_SKIPPED;
			cursor++;
			tail = (gives -> cursor : tail);
			gives = false;
			void_end = (void_end > cursor -> void_end : 0)
		}
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
