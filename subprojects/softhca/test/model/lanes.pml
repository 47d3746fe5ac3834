/* SPDX-License-Identifier: MIT */
/*
 * Lanes and the mutex of a fabric (src/fabric/fabric.h). Two workers execute messages from contexts
 * 0 and 1 to one responder of context 0: the payload is stored into registered memory, then two
 * words of the responder change in one step of the journal. An owner takes the mutex, deregisters
 * the memory, and later takes the mutex again. Each process can be killed at any step. A process
 * that is stopped until its claim is taken from it is the same, because it does not go on.
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
 */
#ifndef DEATHS
#define DEATHS 2
#endif
#define MESSAGES 2 /* of worker 0; worker 1 has one */
#define MUTEX 2
#define FREE 9

byte claim[3] = FREE; /* of the two lanes and of the mutex: the process that has it */
byte lane_of[2]; /* each context's */
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

/* Waits until lane @i has no owner. */
inline close(i)
{
#ifdef NO_CLOSE
	skip
#else
	if
	:: claim[i] == FREE
#ifndef NO_DEATH
	:: atomic { HELD_BY_DEAD(i) -> claim[i] = FREE; lost = true }
#endif
	fi;
	STEP
#endif
}

inline take_mutex()
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
	close(0);
	close(1);
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
		fi;
		STEP;
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
		STEP;
#ifndef OLD_LANE
		if
		:: lane_of[me] != i -> claim[i] = FREE; goto again
		:: else
		fi;
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
	take_mutex();
	lane_of[1] = lane_of[0];
	STEP;
	message(MUTEX);
	claim[MUTEX] = FREE;
	n--;
	goto again;
killed:	skip
}

/* Others' messages with the mutex may join the lanes as well. */
proctype owner(byte me)
{
	bool former, lost;

	take_mutex();
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
	take_mutex();
	assert(a == b && a == begun);
	claim[MUTEX] = FREE;
killed:	skip
}

init {
	atomic {
		lane_of[1] = 1;
		run worker(0, MESSAGES);
		run worker(1, 1);
		run owner(2)
	}
}
