/* SPDX-License-Identifier: MIT */
/*
 * The HCA's thread goes to sleep, and no doorbell is lost (src/sched/doors.h). The program
 * rings doorbells on two doors (doorbell pages): it stores the record, then the register. If the
 * door is shut, the second store traps. The handler then executes everything that the record
 * announces, and knocks: it sets the door's flag `knocked`. The thread clears these flags and opens
 * the doors, polls, shuts the doors, looks at all records, and waits on its bell, a futex: it
 * sleeps only if the bell has not been rung since the thread has read it.
 *
 * doors_shut() is one step here, because the kernel returns from it when no processor can store to a
 * register without a signal any more; and each store is one step, because the processors of x86 do not
 * reorder stores.
 *
 * The model shows: when the program has rung all its doorbells and the thread sleeps, all have been
 * executed; and a knock is never left while the thread sleeps, so a program that continues to ring
 * is polled.
 *
 * Wrong variants, each of which must fail:
 *	NO_SECOND_LOOK	the thread does not look at the records after it has shut the doors
 *	LOOKS_FIRST	the thread looks at the records before it shuts the doors
 *	READS_BELL_LATE	the thread reads the bell after it has taken the knocks
 *	CLEARS_LATE	the thread clears `told` after it has taken the knocks
 *	KNOCKS_LATE	the handler reads and sets `told` before it knocks
 */
#ifndef RINGS
#define RINGS 3
#endif

byte record[2], done[2]; /* by door: doorbells in the record; doorbells that were executed */
byte reg[2]; /* the register: the last record that it was rung for */
bool open[2], knocked[2];
bool told; /* a handler has rung the bell since the thread cleared this flag */
byte bell;
bool asleep, finished;

#define QUIET (finished && asleep)
#define ALL_DONE (done[0] == record[0] && done[1] == record[1])

/* Executes all that the record announces; because of the QP's latch this is one step. */
inline serve(d)
{
	done[d] = record[d]
}

inline knock(d)
{
	bool before;
#ifdef KNOCKS_LATE
	atomic { before = told; told = true };
	if
	:: !before -> atomic { bell++; asleep = false }
	:: else
	fi;
	knocked[d] = true
#else
	knocked[d] = true;
	atomic { before = told; told = true };
	if
	:: !before -> atomic { bell++; asleep = false }
	:: else
	fi
#endif
}

active proctype program()
{
	byte d, n;
	bool traps;

	do
	:: n < RINGS ->
		n++;
		if
		:: d = 0
		:: d = 1
		fi;
		record[d]++;
		atomic {
			traps = !open[d];
			if
			:: !traps -> reg[d] = record[d]
			:: else
			fi
		};
		if
		:: traps ->
			serve(d);
			knock(d)
		:: else
		fi
	:: n == RINGS -> break
	od;
	finished = true
}

inline look_at_all()
{
	serve(0);
	serve(1)
}

inline take_knocks()
{
#ifndef CLEARS_LATE
	told = false;
#endif
	d = 0;
	do
	:: d < 2 ->
		if
		:: atomic { knocked[d] -> knocked[d] = false }; open[d] = true
		:: else
		fi;
		d++
	:: else -> break
	od;
#ifdef CLEARS_LATE
	told = false;
#endif
	any = open[0] || open[1]
}

/* A pass: a register that has changed names a QP, whose record is read. */
inline poll_pages()
{
	if
	:: open[0] -> if :: reg[0] != last[0] -> last[0] = reg[0]; serve(0) :: else fi
	:: open[1] -> if :: reg[1] != last[1] -> last[1] = reg[1]; serve(1) :: else fi
	fi
}

active proctype beside()
{
	byte d, seen, last[2];
	bool any;

end:
	do
	:: true ->
#ifndef READS_BELL_LATE
		seen = bell;
#endif
		take_knocks();
#ifdef READS_BELL_LATE
		seen = bell;
#endif
		if
		:: any ->
			do
			:: poll_pages()
			:: break /* nothing was rung for a while, or so it seemed */
			od;
#ifdef LOOKS_FIRST
			look_at_all();
#endif
			/* The values of the registers are lost with the pages. */
			open[0] = false; reg[0] = 0; last[0] = 0;
			open[1] = false; reg[1] = 0; last[1] = 0;
#if !defined(NO_SECOND_LOOK) && !defined(LOOKS_FIRST)
			look_at_all();
#endif
		:: else ->
			atomic { asleep = (bell == seen) };
end_asleep:
			!asleep
		fi
	od
}

/* Checks both properties (see above: the model shows) in every state. */
active proctype monitor()
{
end:
	atomic {
		QUIET && (!ALL_DONE || knocked[0] || knocked[1]) -> assert(false)
	}
}
