/* SPDX-License-Identifier: MIT */
/*
 * Introductions of clients (base/members.h), for delegrpc and shmipc: the server learns which
 * process has an index. A client locks its index, marks it as taken, introduces itself through the
 * server's socket, and changes the mark to SHOWN. It leaves, or dies at any step. Some clients
 * cannot send. A liar sends introductions without holding the lock. Clients take the index one
 * after another. An unread message in the socket has a descriptor of the sender's file, which keeps
 * the lock.
 *
 * The marks FREE, MARKED, SHOWN and LEFT are delegrpc's values of `taken`: 0, DELEGRPC_COMING,
 * DELEGRPC_TAKEN and DELEGRPC_LEFT. In shmipc a place is MARKED while its epochs are equal, SHOWN
 * while its bit is set as well, and LEFT if the bit has been cleared. A server of shmipc may also
 * free a place that it finds LEFT without an event of its client.
 *
 * The model shows: the events of a client name its process, or no process if it could not send.
 * Each client with events comes once and ends once, in this order, before the next client has the
 * index. The index becomes free again.
 *
 * Wrong variants, which must fail:
 *	NO_LOCK_TEST	the server believes introductions of processes that do not have the lock
 *	NO_MARK		a client introduces itself before it marks the index, so that its death
 *			leaves no trace and its introduction is taken for the next client's
 *	KEEPS_CLAIM	the server does not forget the introduction of a client that died before it was
 *			SHOWN
 *	LATE		a client sets the mark to SHOWN before it introduces itself
 *	NO_MEETING	the server reads no introductions between its read of the mark and the event that
 *			the client came
 *	NO_EVENT	the server frees the index before the program has taken the event of its client's
 *			end
 *	ONE_LOOK	a server that finds the lock free does not read the mark again, and frees the
 *			index of a client that has come and left meanwhile
 */
#define CLIENTS 3 /* one after another or at the same time */
#define LIES 1
#define NOBODY 0
#define LIAR (CLIENTS + 1)

mtype = { FREE, MARKED, SHOWN, LEFT };

mtype mark = FREE;
byte holder; /* client that holds the lock by its own descriptor */
byte waiting; /* client whose message in the socket keeps the lock */
chan door = [2] of { byte, bool }; /* the sender as the kernel reports it; whether it holds the lock */
byte owner; /* client that marked the index, for the assertions */
bool sent[LIAR + 1]; /* that client's introduction was sent */
byte alive = CLIENTS;

#define LOCKED (holder != NOBODY || waiting != NOBODY)

inline maybe_die()
{
	if
	:: skip
	:: goto dead
	fi
}

inline mark_it()
{
	d_step {
		mark = MARKED;
		owner = me
	}
	maybe_die()
}

inline introduce()
{
	if
	:: skip /* this client cannot send */
	:: atomic {
			nfull(door) -> door!me, true;
			waiting = me;
			sent[me] = true
		}
	fi;
	maybe_die()
}

inline enter()
{
	d_step {
		mark = SHOWN;
		owner = me
	}
	maybe_die()
}

proctype client(byte me)
{
	atomic {
		if
		:: !LOCKED -> holder = me
		:: LOCKED -> goto gone
		fi
	}
	maybe_die();
	if
	:: mark != FREE -> goto dead
	:: else
	fi;
#ifndef NO_MARK
	mark_it();
#endif
#ifndef LATE
	introduce();
#endif
	enter();
#ifdef LATE
	introduce();
#endif
	mark = LEFT;
dead:	holder = NOBODY;
gone:	alive--
}

proctype liar()
{
	byte n;

	do
	:: n < LIES -> n++; atomic { nfull(door) -> door!LIAR, false }
	:: break
	od
}

/* members_meet() */
inline meet()
{
	do
	:: atomic {
			nempty(door) -> door?who, locked;
			if
#ifdef NO_LOCK_TEST
			:: !(here && told) -> claim = who
			:: else
#else
			:: locked && !(here && told) -> claim = who
			:: else
#endif
			fi;
			if
			:: locked -> waiting = NOBODY
			:: else
			fi;
			who = NOBODY;
			locked = false
		}
	:: empty(door) -> break
	od
}

inline came()
{
	assert(!here && (claim == owner || (claim == NOBODY && !sent[owner])));
	here = true;
	known = owner
}

inline free_it()
{
	d_step {
		mark = FREE;
		owner = NOBODY
	}
}

proctype server()
{
	byte who;
	byte claim; /* the client that has introduced itself */
	byte known; /* the client whose coming was reported */
	mtype seen;
	bool locked, here, told, ended, last;

	do
	:: last = alive == 0 && !LOCKED;
		meet();
		seen = mark;
		if
		:: !here && (seen == SHOWN || seen == LEFT) ->
#ifndef NO_MEETING
			meet(); /* members_admit() */
#endif
			atomic { came() }
		:: else
		fi;
		if
		:: here && !ended && !LOCKED -> ended = true
		:: !here && seen == MARKED && !LOCKED ->
#ifndef ONE_LOOK
			/* The lock is free, so the mark is the last one that its holder wrote. */
			seen = mark;
#endif
			if
			:: seen == MARKED ->
				d_step {
					assert(mark == MARKED); /* otherwise the client has come meanwhile */
#ifndef KEEPS_CLAIM
					claim = NOBODY;
#endif
					free_it()
				}
			:: else
			fi
		:: else
		fi;
#ifdef NO_EVENT
		if
		:: ended -> free_it()
		:: else
		fi;
#endif
		if /* the program takes an event */
		:: here && !told -> told = true
		:: here && told && ended ->
			d_step {
				assert(owner == known);
				here = false;
				told = false;
				ended = false;
				claim = NOBODY;
				known = NOBODY;
				free_it()
			}
		:: skip
		fi;
		if
		:: last && mark == FREE && !here -> break
		:: else
		fi
	od
}

init {
	atomic {
		run client(1);
		run client(2);
		run client(3);
		run liar();
		run server()
	}
}
