/* SPDX-License-Identifier: MIT */
/*
 * Sleeping on a descriptor (base/wakefd.h) on a machine with store buffers: one sleeper, two
 * publishers, and another source of events that wakes the sleeper at times. Store buffers and the
 * publishers' fences are modelled as in sleep.pml; a system call drains its process's buffer.
 *
 * The sleeper empties its descriptor, sets its word to ON_FD, fences, checks again for messages,
 * and sleeps until the descriptor is readable. When it wakes it does not reset its word to RUNNING,
 * so a publisher can reset the word while the sleeper is awake. A publisher resets the word in one
 * step and sends in another, any time later, so a wake-up may arrive in a later sleep. Sending can
 * fail for lack of a descriptor: then the publisher sets the word to ON_FD and tries again.
 *
 * The model shows: the sleeper gets every message. Other wake-ups are limited in number, so a lost
 * wake-up is a deadlock, which Spin reports as an invalid end state.
 *
 * With DEATHS=1, the second publisher may be killed between its reset of the word and the system
 * call. The word then says that the sleeper is awake. The first publisher waits for an answer, and
 * after 100 ms wakes the sleeper whatever the word says (base/waitclient.h).
 *
 * Wrong variants, each of which must fail:
 *	NO_PUBLISHER_FENCE	a publisher may read the word before its message is visible
 *	NO_SLEEPER_FENCE	the sleeper may check for messages again before its word is visible
 *	NO_SECOND_LOOK	the sleeper does not check for messages again after it has set its word
 *	DRAINS_LATE	the sleeper empties its descriptor after the second check
 *	SET_FIRST	the sleeper sets its word, checks, empties its descriptor, sets the word
 *			again, and sleeps without another check
 *	KEEPS_WORD	a publisher that could not send does not set the word to ON_FD
 *	FORGETS		a publisher that could not send sets the word to ON_FD but does not try again
 *	TRUSTS_WORD	(DEATHS=1) a publisher that waits wakes the sleeper only if the word is ON_FD
 */
#define PUBLISHERS 2
#define MESSAGES 1 /* messages of each publisher */
#ifdef DEATHS
#define OTHERS 0
#define FAILURES 0
#else
#define DEATHS 0
#define FAILURES 1 /* times that sending fails */
#endif
#ifndef OTHERS
#define OTHERS 1 /* times that something else wakes the sleeper */
#endif

#define RUNNING 0
#define ON_FD 3

byte word = RUNNING;
byte message[PUBLISHERS]; /* number of visible messages, by publisher */
chan message_buffer[PUBLISHERS] = [MESSAGES] of { byte };
chan word_buffer = [2] of { byte };
bool readable; /* the sleeper's descriptor */
byte others = OTHERS, failures = FAILURES, deaths = DEATHS;
bool answered; /* the first publisher has its answer */

proctype drain_message(byte who)
{
	byte v;
end:	do
	:: atomic { message_buffer[who]?v -> message[who] = v }
	od
}

proctype drain_word()
{
	byte v;
end:	do
	:: atomic { word_buffer?v -> word = v }
	od
}

proctype publisher(byte me)
{
	byte n, seen;
	bool owed; /* the check of the word is due */

	do
	:: n == MESSAGES && !owed -> break
	:: n < MESSAGES ->
		n++;
		message_buffer[me]!n;
		owed = true
	:: owed ->
		owed = false;
#ifndef NO_PUBLISHER_FENCE
		empty(message_buffer[me]); /* sleep_fence() */
#endif
		seen = word; /* sleep_is_asleep() */
		if
		:: seen == ON_FD ->
			atomic { empty(message_buffer[me]) -> seen = word; word = RUNNING };
			if
			:: seen == ON_FD -> readable = true /* the system call */
#if DEATHS
			:: seen == ON_FD && me == 1 && deaths > 0 -> deaths--; goto dead
#endif
			:: seen == ON_FD && failures > 0 ->
				failures--;
#ifndef KEEPS_WORD
				atomic { word = (word == RUNNING -> ON_FD : word) };
#endif
#ifndef FORGETS
				owed = true
#endif
			:: else
			fi
		:: else
		fi;
		seen = 0
	od
#if DEATHS
	;
	do /* look_again() */
	:: me == 1 || answered -> break
#ifndef TRUSTS_WORD
	:: me == 0 && !answered && word != ON_FD && !readable -> readable = true /* waiter_wake_anyway() */
#endif
	:: me == 0 && !answered && word == ON_FD -> word = RUNNING; readable = true
	od;
dead:	skip
#endif
}

#define NEWS (message[0] != got[0] || message[1] != got[1])

#if DEATHS
#define ALL (got[0] == MESSAGES)
#else
#define ALL (got[0] == MESSAGES && got[1] == MESSAGES)
#endif

proctype sleeper()
{
	byte got[PUBLISHERS];

	do
	:: ALL -> break
	:: NEWS && !ALL -> atomic { got[0] = message[0]; got[1] = message[1] }
	:: !NEWS && !ALL ->
#ifdef SET_FIRST
		word_buffer!ON_FD;
		empty(word_buffer);
		if
		:: NEWS -> goto again
		:: !NEWS
		fi;
#endif
#ifndef DRAINS_LATE
		atomic { empty(word_buffer) -> readable = false };
#endif
		word_buffer!ON_FD; /* sleep_prepare_as() */
#ifdef SET_FIRST
		goto asleep;
#endif
#ifndef NO_SLEEPER_FENCE
		empty(word_buffer);
#endif
#ifndef NO_SECOND_LOOK
		if
		:: NEWS -> word_buffer!RUNNING; goto again /* sleep_cancel() */
		:: !NEWS
		fi;
#endif
#ifdef DRAINS_LATE
		atomic { empty(word_buffer) -> readable = false };
#endif
asleep:
		if /* poll(2) */
		:: readable
		:: others > 0 -> others--
		fi;
again:		skip
	od
#if DEATHS
	;
	answered = true
#endif
}

init {
	atomic {
		run drain_message(0);
		run drain_message(1);
		run drain_word();
		run publisher(0);
		run publisher(1);
		run sleeper()
	}
}
