/* SPDX-License-Identifier: MIT */
/*
 * The sleep and wake handshake (base/sleep.h) on a machine with store buffers: one sleeper,
 * two publishers. A store stays in its process's buffer until it drains, which happens at any
 * moment and in order. Fences, read-modify-writes and system calls drain the buffer. A process sees
 * its own buffered stores.
 *
 * A publisher delays its fence and its check of the sleeper's word: they come after any number of
 * messages, but before the publisher does other work (in the library, at the first poll that finds
 * nothing, after a number of publications, in a flush or a wait).
 *
 * The model shows: the sleeper gets every message. There is no timeout here, so a lost wake-up is a
 * deadlock, which Spin reports as an invalid end state.
 *
 * Wrong variants, each of which must fail:
 *	NO_PUBLISHER_FENCE	a publisher may read the word before its message is visible
 *	NO_LAST_FENCE		a publisher does other work without a fence and a check
 *	NO_SLEEPER_FENCE	the sleeper may check for messages again before its word is visible
 *	NO_SECOND_LOOK		the sleeper does not check for messages again after it has set its
 *				word
 *	PLAIN_SLEEP		the kernel does not compare the word before the sleep
 */
#define PUBLISHERS 2
#define MESSAGES 2 /* messages of each publisher */

#define RUNNING 0
#define ASLEEP 2

byte word = RUNNING;
byte message[PUBLISHERS]; /* number of visible messages, by publisher */
chan message_buffer[PUBLISHERS] = [2] of { byte };
chan word_buffer = [4] of { byte };
bool in_kernel; /* the sleeper waits in futex_wait() */

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
	bool owed; /* the fence and the check of the word are due */

	do
#ifdef NO_LAST_FENCE
	:: n == MESSAGES -> break
#else
	:: n == MESSAGES && !owed -> break
#endif
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
		:: seen == ASLEEP ->
			atomic { empty(message_buffer[me]) -> seen = word; word = RUNNING }; /* sleep_take() */
			if
			:: seen == ASLEEP -> in_kernel = false /* futex_wake() */
			:: else
			fi
		:: else
		fi
	od
}

#define NEWS (message[0] != got[0] || message[1] != got[1])

proctype sleeper()
{
	byte got[PUBLISHERS];

	do
	:: got[0] == MESSAGES && got[1] == MESSAGES -> break
	:: NEWS -> atomic { got[0] = message[0]; got[1] = message[1] }
	:: !NEWS && !(got[0] == MESSAGES && got[1] == MESSAGES) ->
		word_buffer!ASLEEP; /* sleep_prepare() */
#ifndef NO_SLEEPER_FENCE
		empty(word_buffer);
#endif
#ifdef NO_SECOND_LOOK
		if
		:: true ->
#else
		if
		:: NEWS -> word_buffer!RUNNING /* sleep_cancel() */
		:: !NEWS ->
#endif
			/*
			 * sleep_enter(): the kernel reads the word and queues the sleeper in one
			 * step
			 */
#ifdef PLAIN_SLEEP
			atomic { empty(word_buffer) -> in_kernel = true };
#else
			atomic { empty(word_buffer) -> in_kernel = (word == ASLEEP) };
#endif
			!in_kernel;
			word_buffer!RUNNING
		fi
	od
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
