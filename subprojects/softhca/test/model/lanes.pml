/* SPDX-License-Identifier: MIT */
/*
 * Latches, lanes and the mutex of a fabric (docs/locks.md). Two workers execute messages, each with
 * a lane of its own: the payload is stored into registered memory, then two objects change in one
 * step of the journal. Both objects have a latch; the two workers use the objects in opposite
 * orders. An owner takes the mutex, deregisters the memory, and later takes the mutex again. Each
 * process can be killed at any step. A process that is stopped, and then loses its claim, counts as
 * killed, because it does not continue its step. The holder of the mutex may shut any lane, because
 * the model does not count how long a lane was idle.
 *
 * All accesses whose order matters are locked operations, and the machine does not reorder stores,
 * so the model has no store buffers.
 *
 * The model shows: memory is not accessed once its deregistration has returned; the two objects
 * change together, once for each step that was begun, whichever process is killed; the holder of
 * the mutex finds no latch taken; and no process waits for ever, which would be an invalid end
 * state.
 *
 * Wrong variants, each of which must fail:
 *	NO_SECOND_LOOK	a thread that has taken a lane does not look at the mutex again
 *	NO_CLOSE	the holder of the mutex does not wait for the lanes
 *	NO_REPLAY	steps of dead holders of lanes are not applied
 *	EARLY_REPLAY	the steps are applied before the lanes are closed
 *	FORGETS_LANES	with the mutex of a dead holder, only the mutex's step is applied
 *	NO_DEATH	the holder of the mutex waits for the lanes of dead holders
 *	USES_SHUT	a thread does not look whether its lane is open
 *	OPEN_FIRST	a thread looks whether its lane is open before it looks at the mutex
 *	OPENS_LATE	a lane is opened after the lanes are closed
 *	OPENS_BROKEN	a lane is opened before the step of a dead holder of the mutex is applied
 *	SHUTS_OWNED	a lane is shut before the holder of the mutex waits for it
 *	MAP_LATE	a lane is open before the map has it
 *	NO_LATCH	a thread changes the objects without their latches
 *	FREED_EARLY	the latches are freed before the step
 *	BY_USE		latches are taken in the order of their use
 *	SURVIVES	a latch stays taken when the lane is taken from its owner
 *	RENEWS_LOST	only the lanes that this holder of the mutex has taken away get a new number
 *	KEEPS_LATCH	a thread that exchanges its lane for the mutex keeps a latch (with HASTY)
 *	KEEPS_LANE	a thread that takes the mutex instead of its lane keeps the lane
 */
#ifndef DEATHS
#define DEATHS 2
#endif
#ifndef HASTY
#define HASTY 0 /* 1: a thread may give up waiting for a live thread's latch, once */
#endif
#define MESSAGES 2 /* of worker 0; worker 1 has one */
#define MUTEX 2
#define FREE 9
#define NONE 9

byte claim[3] = FREE; /* of the two lanes and of the mutex: the process that has it */
bool usable[2], mapped[2]; /* the lane's flag that it is open; its bit in the map of open lanes */
byte use[2] = 1; /* each lane's number, which its latches contain */
byte latch[2]; /* 0: free; 2 * number + lane */
bool open[3]; /* the journals that have an active step */
byte value[3]; /* the journals: the new value of both objects */
byte object[2], begun;
bool registered = true, returned;
bool dead[3];
byte deaths = DEATHS;
bool hasty;

#define STEP                                                                                       \
	if                                                                                         \
	:: atomic { deaths > 0 -> deaths--; dead[me] = true; goto killed }                         \
	:: true                                                                                    \
	fi

#define HELD_BY_DEAD(i) (claim[i] != FREE && dead[claim[i]])
#define HELD_BY_LIVING(i) (claim[i] != FREE && !dead[claim[i]])
#define MINE (2 * use[me] + me)
#define IS_TAKEN(k) (latch[k] != 0 && latch[k] == 2 * use[latch[k] % 2] + latch[k] % 2)

inline apply(j)
{
	object[0] = value[j];
	STEP;
	object[1] = value[j];
	STEP;
	open[j] = false;
	STEP
}

inline replay(j)
{
	if
	:: open[j] -> apply(j)
	:: else
	fi
}

inline free_latches()
{
	if
	:: latch[0] == MINE -> latch[0] = 0
	:: else
	fi;
	STEP;
	if
	:: latch[1] == MINE -> latch[1] = 0
	:: else
	fi;
	STEP
}

/* Executes a message with lane @j and its latches, or with the mutex, which needs no latches. */
inline message(j)
{
	found = registered;
	STEP;
	assert(!found || !returned);
	assert(object[0] == object[1]);
	value[j] = object[0] + 1;
	STEP;
#ifdef FREED_EARLY
	if
	:: j != MUTEX -> free_latches()
	:: else
	fi;
#endif
	atomic { open[j] = true; begun++ };
	STEP;
	apply(j)
}

inline open_lane(i)
{
#ifdef MAP_LATE
	usable[i] = true;
	STEP;
	mapped[i] = true;
#else
	mapped[i] = true;
	STEP;
	usable[i] = true;
#endif
	STEP
}

inline shut_lane(i)
{
	if
	:: usable[i] = false; STEP; mapped[i] = false
	:: true
	fi
}

/* Waits until lane @i has no owner, if it is open. */
inline close(i)
{
#ifdef SHUTS_OWNED
	shut_lane(i);
#endif
#ifdef NO_CLOSE
	skip
#else
	if
	:: !mapped[i]
	:: mapped[i] ->
		if
		:: claim[i] == FREE
#ifndef NO_DEATH
		:: atomic { HELD_BY_DEAD(i) -> claim[i] = FREE; lost = true; gone[i] = true }
#endif
		fi;
		STEP;
		shut_lane(i)
	fi
#endif
}

/* Gives the lane a new number. Latches that a dead thread has taken contain the old one. */
inline renew(i)
{
#ifndef SURVIVES
#ifdef RENEWS_LOST
	if
	:: gone[i] -> use[i]++
	:: else
	fi;
#else
	use[i]++;
#endif
#endif
	gone[i] = false;
	STEP
}

/* @o: the lane that is opened, or NONE. */
inline take_mutex(o)
{
	if
	:: atomic { claim[MUTEX] == FREE -> claim[MUTEX] = me; former = false; lost = false }
	:: atomic { HELD_BY_DEAD(MUTEX) -> claim[MUTEX] = me; former = true; lost = false }
	fi;
	STEP;
#ifdef EARLY_REPLAY
	if
	:: former -> replay(0); replay(1)
	:: else
	fi;
#endif
#ifndef OPENS_LATE
	if
#ifdef OPENS_BROKEN
	:: o != NONE -> open_lane(o)
#else
	:: o != NONE && !former -> open_lane(o)
#endif
	:: else
	fi;
#endif
	close(0);
	close(1);
#ifdef OPENS_LATE
	if
	:: o != NONE -> open_lane(o)
	:: else
	fi;
#endif
	if
	:: former -> replay(MUTEX)
	:: else
	fi;
#ifdef FORGETS_LANES
	former = false;
#endif
	if
	:: former || lost ->
#ifndef NO_REPLAY
		replay(0);
		replay(1);
#endif
		renew(0);
		renew(1)
	:: else
	fi;
	assert(!IS_TAKEN(0) && !IS_TAKEN(1))
}

inline look_whether_open()
{
	if
	:: !usable[me] -> claim[me] = FREE; goto whole
	:: else
	fi
}

/*
 * Takes latch @k. This is one step, because the code compares and swaps the word that it has read.
 * A thread gives up waiting if the latch's owner has died or lost its lane.
 */
inline take_latch(k)
{
	if
	:: atomic { !IS_TAKEN(k) -> latch[k] = MINE }
	:: IS_TAKEN(k) && !HELD_BY_LIVING(latch[k] % 2) -> goto give_up
	:: atomic { IS_TAKEN(k) && hasty -> hasty = false; goto give_up }
	fi;
	STEP
}

proctype worker(byte me, n)
{
	bool found, former, lost;
	bool gone[2];

again:
	do
	:: n == 0 -> break
	:: n > 0 ->
		if
		:: atomic { claim[me] == FREE -> claim[me] = me }
		:: !usable[me] -> goto whole
		fi;
		STEP;
#ifdef OPEN_FIRST
		look_whether_open();
#endif
#ifndef NO_SECOND_LOOK
		if
		:: claim[MUTEX] != FREE ->
			claim[me] = FREE;
			if
			:: claim[MUTEX] == FREE -> goto again
			:: HELD_BY_DEAD(MUTEX) -> goto whole
			fi
		:: else
		fi;
#endif
#if !defined(USES_SHUT) && !defined(OPEN_FIRST)
		look_whether_open();
#endif
		do
		:: n > 0 ->
#ifndef NO_LATCH
#ifdef BY_USE
			take_latch(me);
			take_latch(1 - me);
#else
			take_latch(0);
			take_latch(1);
#endif
#endif
			message(me);
			n--;
			free_latches()
		:: break
		od;
		claim[me] = FREE
	od;
	goto killed;
give_up:
#ifdef KEEPS_LATCH
	skip;
#else
	free_latches();
#endif
#ifndef KEEPS_LANE
	claim[me] = FREE;
#endif
	STEP;
whole:
	take_mutex(me);
	message(MUTEX);
	claim[MUTEX] = FREE;
	n--;
	goto again;
killed:	skip
}

/* When the owner takes the mutex again, it may open lane 1, as another thread would. */
proctype owner(byte me)
{
	bool former, lost;
	bool gone[2];

	take_mutex(NONE);
	registered = false;
	STEP;
	claim[MUTEX] = FREE;
	returned = true;
	STEP;
	if
	:: take_mutex(NONE)
	:: take_mutex(1)
	fi;
	assert(object[0] == object[1] && object[0] == begun);
	claim[MUTEX] = FREE;
killed:	skip
}

init {
	atomic {
		usable[0] = true;
		mapped[0] = true;
		if
		:: HASTY -> hasty = true
		:: true
		fi;
		if
		:: usable[1] = true; mapped[1] = true
		:: true
		fi;
		run worker(0, MESSAGES);
		run worker(1, 1);
		run owner(2)
	}
}
