/* SPDX-License-Identifier: MIT */
/*
 * Lanes and the mutex of a fabric (src/fabric/fabric.h). Two workers execute messages from contexts
 * 0 and 1 to one responder of context 0: the payload is stored into registered memory, then two
 * words of the responder change in one step of the journal. An owner takes the mutex, deregisters
 * the memory, and later takes the mutex again. Each process can be killed at any step. A process
 * that is stopped until its claim is taken from it is the same, because it does not go on. The holder
 * of the mutex may shut any lane, because the model does not count how long it was idle.
 *
 * Every order of two accesses that matters is one of locked operations on a machine that does not
 * reorder stores, so there are no store buffers here.
 *
 * The model shows: memory is not accessed once its deregistration has returned; the two words
 * change together, once for each step that was begun, whoever is killed; and no process waits for
 * ever, which would be an invalid end state.
 *
 * Wrong variants, each of which must fail:
 *	NO_SECOND_LOOK	a thread that has taken a lane does not look at the mutex again
 *	NO_CLOSE	the holder of the mutex does not wait for the lanes
 *	NO_REPLAY	steps of dead holders of lanes are not applied
 *	EARLY_REPLAY	they are applied before the lanes are closed
 *	FORGETS_LANES	who takes the mutex from a dead holder applies the mutex's step only
 *	NO_SHARE_CHECK	a message is executed with the lane of its sender only
 *	OLD_LANE	the context's lane is not read again when it is taken
 *	KEEPS_LANE	a thread waits for the mutex without releasing its lane
 *	NO_DEATH	the holder of the mutex waits for the lanes of dead holders
 *	USES_SHUT	a thread does not look whether its lane is open
 *	OPEN_FIRST	it looks at that before it looks at the mutex
 *	OPEN_LAST	it looks at that after it has read the context's lane again
 *	OPENS_LATE	a lane is opened after the lanes are closed
 *	SHUTS_OWNED	a lane is shut before the holder of the mutex waits for it
 *	MAP_LATE	a lane is open before the map has it
 */
#ifndef DEATHS
#define DEATHS 2
#endif
#define MESSAGES 2 /* of worker 0; worker 1 has one */
#define MUTEX 2
#define FREE 9
#define NONE 9

byte claim[3] = FREE; /* of the two lanes and of the mutex: the process that has it */
byte lane_of[2]; /* each context's */
bool usable[2], mapped[2]; /* the open lanes, as the lanes have it and as the map has it */
bool open[3];
byte value[3]; /* the journals: the new value of both words */
byte a, b, begun;
bool registered = true, returned;
bool dead[3];
byte deaths = DEATHS;

#define STEP                                                                                       \
	if                                                                                         \
	:: atomic { deaths > 0 -> deaths--; dead[me] = true; goto killed }                         \
	:: true                                                                                    \
	fi

#define HELD_BY_DEAD(i) (claim[i] != FREE && dead[claim[i]])

inline apply(j)
{
	a = value[j];
	STEP;
	b = value[j];
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

/* The claim is of lane or mutex @j. */
inline message(j)
{
	found = registered;
	STEP;
	assert(!found || !returned);
	assert(a == b);
	value[j] = a + 1;
	STEP;
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
		:: atomic { HELD_BY_DEAD(i) -> claim[i] = FREE; lost = true }
#endif
		fi;
		STEP;
		shut_lane(i)
	fi
#endif
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
	:: o != NONE -> open_lane(o)
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
#ifndef NO_REPLAY
	if
	:: former || lost -> replay(0); replay(1)
	:: else
	fi
#endif
}

inline look_whether_open()
{
	if
	:: !usable[i] -> claim[i] = FREE; goto whole
	:: else
	fi
}

proctype worker(byte me, n)
{
	byte i;
	bool found, former, lost;

again:
	do
	:: n == 0 -> break
	:: n > 0 ->
		i = lane_of[me];
		STEP;
		if
		:: atomic { claim[i] == FREE -> claim[i] = me }
		:: HELD_BY_DEAD(i) -> goto whole
		:: HELD_BY_DEAD(MUTEX) -> goto whole
		:: claim[i] != FREE && lane_of[me] != i -> goto again
		:: claim[i] != FREE && !usable[i] -> goto whole
		fi;
		STEP;
#ifdef OPEN_FIRST
		look_whether_open();
#endif
#ifndef NO_SECOND_LOOK
		if
		:: claim[MUTEX] != FREE ->
			claim[i] = FREE;
			if
			:: claim[MUTEX] == FREE -> goto again
			:: HELD_BY_DEAD(MUTEX) -> goto whole
			fi
		:: else
		fi;
#endif
#if !defined(USES_SHUT) && !defined(OPEN_FIRST) && !defined(OPEN_LAST)
		look_whether_open();
#endif
#ifndef OLD_LANE
		if
		:: lane_of[me] != i -> claim[i] = FREE; goto again
		:: else
		fi;
#endif
#ifdef OPEN_LAST
		look_whether_open();
#endif
#ifndef NO_SHARE_CHECK
		if
		:: lane_of[me] != lane_of[0] ->
#ifndef KEEPS_LANE
			claim[i] = FREE;
#endif
			goto whole
		:: else
		fi;
#endif
		do
		:: n > 0 -> message(i); n--
		:: break
		od;
		claim[i] = FREE
	od;
	goto killed;
whole:
	take_mutex(lane_of[me]);
	lane_of[1] = lane_of[0];
	STEP;
	message(MUTEX);
	claim[MUTEX] = FREE;
	n--;
	goto again;
killed:	skip
}

/* Others' messages with the mutex may open and join the lanes as well. */
proctype owner(byte me)
{
	bool former, lost;

	take_mutex(NONE);
	if
	:: lane_of[1] = lane_of[0]
	:: lane_of[1] = 1
	fi;
	STEP;
	registered = false;
	STEP;
	claim[MUTEX] = FREE;
	returned = true;
	STEP;
	if
	:: take_mutex(NONE)
	:: take_mutex(1)
	fi;
	assert(a == b && a == begun);
	claim[MUTEX] = FREE;
killed:	skip
}

init {
	atomic {
		lane_of[1] = 1;
		usable[0] = true;
		mapped[0] = true;
		if
		:: usable[1] = true; mapped[1] = true
		:: true
		fi;
		run worker(0, MESSAGES);
		run worker(1, 1);
		run owner(2)
	}
}
