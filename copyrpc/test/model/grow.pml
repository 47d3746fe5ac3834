/* SPDX-License-Identifier: MIT */
/*
 * A ring that grows (docs/memory.md describes the protocol): one sender, whose send ring is the
 * log, and one receiver. The receiver offers larger memory; the sender marks a message as the last
 * one in the old memory and continues in the new one. Requests are held; the oldest or the newest
 * one is answered. The connection is lost at any time, and messages that were not received are sent
 * again. The HCA may read a message again until it is acknowledged. The ring of the other direction
 * carries the offers and the calls of the receiver; it grows in the same way, independently.
 *
 * A slot holds one message. Position x is slot x % size of a ring: LOG(x) for the sender, RECV(x)
 * for the receiver. Memory that was freed has the value FREED. Ring r has 2 << r slots.
 *
 * The model shows: no message is overwritten before it was released, freed memory is neither
 * written nor read, each message is found where the receiver looks for it, the sender has room for
 * every reply, and credit is neither lost nor doubled.
 *
 * Wrong variants, each of which must fail:
 *	FREES_HELD		the old receive ring is freed although requests in it are held
 *	FREES_LOG		the old send ring is freed although messages in it may be sent again
 *	FREES_UNACKED		the old send ring is freed although the HCA may read it again
 *	RESENDS_FROM_NEW	messages of the old ring are sent again from the new one
 *	MOVES_EARLY		a message is marked as the last one in the old ring although others follow
 *	GROWS_EARLY		the sender counts the room of the new ring before it has moved
 *	SECOND_OFFER		memory is offered while requests are in the old ring
 *	SECOND_MOVE		the sender moves again while the old ring is in the log
 *	GRANTS_AT_MOVE		the receiver uses the additional credit without a grant
 */
#ifndef MESSAGES
#define MESSAGES 7
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#define RINGS 3
#define NONE RINGS
#define FREED 255

#define SIZE(r) (2 << (r))
#define AT(r, x) (SIZE(r) - 2 + (x) % SIZE(r))
#define RMAX(r) (1 << (r))

byte log[14], mem[14]; /* position + 1; 0: empty */
byte credit[MESSAGES]; /* indexed by position, like the next two lines */
byte from[MESSAGES]; /* the ring from which the HCA reads a message */
bool moves[MESSAGES], held[MESSAGES];
/* The sender. */
byte p, sent, rc, ring, old_log = NONE, moved, owed;
byte next, acked; /* next: the next message to land; acked: all messages before it are acknowledged */
bool offered;
bool moving; /* the HCA may read the old ring */
/* The receiver. */
byte got, released, cqes, recv, old_recv = NONE, left, credit_left = 1, asked;
bool offering, note;
byte losses = LOSSES;
bool up = true;

#define R (RMAX(ring) - owed)
#ifdef GROWS_EARLY
#define C (offered -> SIZE(ring + 1) : SIZE(ring))
#else
#define C SIZE(ring)
#endif
#define IN_FLIGHT (p - rc)
#ifdef RESENDS_FROM_NEW
#define LOG(x) ring
#else
#define LOG(x) (old_log != NONE && x < moved -> old_log : ring)
#endif
#define RECV(x) (old_recv != NONE && x < left -> old_recv : recv)
#ifdef MOVES_EARLY
#define IS_LAST true
#else
#define IS_LAST (sent + 1 == p)
#endif
#ifdef SECOND_MOVE
#define LOG_IS_FREE true
#else
#define LOG_IS_FREE (old_log == NONE)
#endif
#ifdef SECOND_OFFER
#define RECV_IS_FREE true
#else
#define RECV_IS_FREE (old_recv == NONE)
#endif
#ifdef FREES_HELD
#define RECV_LEFT true
#else
#define RECV_LEFT (released >= left)
#endif
#ifdef FREES_LOG
#define LOG_LEFT true
#else
#define LOG_LEFT (rc >= moved)
#endif
#ifdef FREES_UNACKED
#define LOG_READ true
#else
#define LOG_READ (!moving)
#endif

inline place()
{
	log[AT(ring, p)] = p + 1;
	p++;
	assert(IN_FLIGHT <= SIZE(ring))
}

inline send()
{
	c = C - IN_FLIGHT - R;
	c = (c < owed -> c : owed);
	credit[sent] = c;
	from[sent] = ring;
	owed = owed - c;
	moves[sent] = offered && IS_LAST && LOG_IS_FREE;
	sent++;
	if
	:: moves[sent - 1] ->
		assert(old_log == NONE);
		old_log = ring;
		moved = sent;
		moving = true;
		ring++;
		owed = owed + RMAX(ring) - RMAX(ring - 1);
		offered = false
	:: else
	fi;
	c = 0
}

inline land()
{
	i = from[next];
	assert(log[AT(i, next)] == next + 1);
	assert(mem[AT(i, next)] <= released);
	mem[AT(i, next)] = next + 1;
	next++;
	cqes++;
	i = 0
}

/* Posts the messages again that were not received. */
inline resend()
{
	i = next;
	do
	:: i < sent -> from[i] = LOG(i); moving = moving || i + 1 == moved; i++
	:: else -> break
	od;
	i = 0
}

inline release()
{
	do
	:: released < got && !held[released] -> released++
	:: else -> break
	od;
	i = 0
}

inline handle(holds)
{
	assert(mem[AT(recv, got)] == got + 1);
	credit_left = credit_left + credit[got];
	held[got] = holds;
	cqes--;
	got++;
	if
	:: moves[got - 1] ->
		assert(old_recv == NONE);
		old_recv = recv;
		left = got;
		recv++;
		offering = false;
#ifdef GRANTS_AT_MOVE
		credit_left = credit_left + RMAX(recv) - RMAX(recv - 1)
#endif
	:: else
	fi;
	release()
}

inline free_recv()
{
	do
	:: i < SIZE(old_recv) -> mem[AT(old_recv, i)] = FREED; i++
	:: else -> break
	od;
	old_recv = NONE;
	i = 0
}

inline free_log()
{
	do
	:: i < SIZE(old_log) -> log[AT(old_log, i)] = FREED; i++
	:: else -> break
	od;
	old_log = NONE;
	i = 0
}

/* Answers the request at position x. */
inline answer(x)
{
	assert(mem[AT(RECV(x), x)] == x + 1);
	held[x] = false;
	release()
}

active proctype works()
{
	byte i, c;

	do
	:: d_step { p < MESSAGES && IN_FLIGHT + 1 + RMAX(ring) <= C -> place() }
	:: d_step { p < MESSAGES && asked ->
		assert(IN_FLIGHT + R <= C);
		place(); asked--; owed++; assert(owed <= RMAX(ring)) }
	:: d_step { p < MESSAGES && sent == p && (offered || owed) && IN_FLIGHT + 1 + R <= C -> place() }
	:: d_step { up && sent < p -> send() }
	:: d_step { up && next < sent -> land() }
	:: d_step { up && acked < next -> acked = next; moving = moving && acked < moved }
	:: d_step { up && acked < next -> assert(log[AT(from[acked], acked)] != FREED) } /* read again */
	:: d_step { up && rc < released -> rc = released }
	:: d_step { cqes -> handle(false) }
	:: d_step { cqes -> handle(true) }
	:: d_step { released < got && held[released] -> answer(released) }
	:: d_step { released + 1 < got && held[got - 1] -> answer(got - 1) }
	:: d_step { credit_left -> credit_left--; asked++ }

	:: d_step { recv + 1 < RINGS && !offering && RECV_IS_FREE -> offering = true; note = true }
	:: d_step { note && !offered -> note = false; offered = true }
	:: d_step { old_recv != NONE && RECV_LEFT -> free_recv() }
	:: d_step { old_log != NONE && LOG_LEFT && LOG_READ -> free_log() }

	:: d_step { up && losses -> losses--; up = false; moving = false }
	:: d_step { !up && !cqes -> assert(rc <= got && got <= sent);
		next = got; acked = got; up = true; resend() }
	:: atomic { released == MESSAGES -> break }
	od
}
