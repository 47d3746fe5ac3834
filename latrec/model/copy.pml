/* SPDX-License-Identifier: MIT */
/*
 * A second thread copies a histogram (src/copy.c) while its owner records values, moves counts from bucket[] to
 * carry[], and clears the histogram.
 *
 * The histogram has two buckets ("places"). Each clear begins an epoch. Value i of an epoch is i + 1 + 8 * epoch, and
 * is counted in place (i + epoch) % 2. So the epoch and the count of a copy determine its sum and
 * its places: FITS compares them. A counter has one bit; its further bits are in its carry.
 *
 * The model shows two properties. A copy is the state at one moment during the call. After the call has returned, the
 * owner does not write to the copy any more. Spin would report a thread that waits for ever as an invalid end state.
 *
 * Wrong variants, each of which must fail:
 *	COUNT_FIRST	a record counts the value before it adds it to its place
 *	WIDEN_LAST	the largest value is stored after the count
 *	COUNT_READ_LAST	the copy reads the count after the places
 *	NO_SECOND_LOOK	the copy does not read `changes` again
 *	ODD_TAKEN	the copy succeeds although `changes` is odd
 *	CARRY_UNMARKED	a move to the carries does not change `changes`
 *	WISH_STAYS	a thread that stops waiting leaves its wish (its request for a copy) in place
 */
#define VALUES 3 /* number of values in an epoch */
#define EPOCHS 2
#define COPIES 1
#define PLACE(i, e) ((i + e) % 2)

/* The histogram: its owner writes it, both threads read it. */
byte low[2], high[2], max, sum, count, changes;
bool shut = true; /* the gate is closed */
/* The wish of the second thread. */
bool wanted, done, failed;
/* The copy: written by the second thread, or by the owner when it fulfils the wish. */
byte c_low[2], c_high[2], c_max, c_sum, c_count;
/* The assertions also read these. */
byte epoch; /* epoch of the values that are recorded now */
bool asked; /* latrec_hist_snapshot() has not returned */

inline copy_all()
{
	d_step {
		assert(asked);
		c_count = count;
		c_sum = sum;
		c_max = max;
		c_low[0] = low[0];
		c_high[0] = high[0];
		c_low[1] = low[1];
		c_high[1] = high[1];
		failed = c_low[0] + 2 * c_high[0] + c_low[1] + 2 * c_high[1] != c_count
	}
}

inline fulfil()
{
	if
	:: atomic { wanted -> wanted = false };
		copy_all();
		done = true
	:: !wanted
	fi
}

inline add(p)
{
	low[p] = low[p] + 1;
	if
	:: low[p] > 1 -> /* latrec_priv_hist_carry() */
#ifndef CARRY_UNMARKED
		changes++;
#endif
		low[p] = 0;
		high[p] = high[p] + 1;
#ifndef CARRY_UNMARKED
		changes++
#endif
	:: else
	fi
}

/*
 * If the gate is open, and the value's place is not above all earlier ones, the inline code counts
 * the value. Otherwise (slow) it calls the library, which first makes the copy that the second
 * thread wishes for.
 */
inline record(i)
{
	slow = shut || !count || PLACE(i, epoch) > max;
#ifdef COUNT_FIRST
	count++;
#endif
	if
	:: slow -> fulfil()
	:: else
	fi;
	add(PLACE(i, epoch));
#ifndef WIDEN_LAST
	if
	:: slow && PLACE(i, epoch) > max -> max = PLACE(i, epoch)
	:: else
	fi;
#endif
	sum = sum + i + 1 + 8 * epoch;
#ifndef COUNT_FIRST
	count++;
#endif
#ifdef WIDEN_LAST
	if
	:: slow && PLACE(i, epoch) > max -> max = PLACE(i, epoch)
	:: else
	fi;
#endif
	if
	:: slow -> shut = false
	:: else
	fi
}

inline clear()
{
	changes++;
	low[0] = 0;
	high[0] = 0;
	low[1] = 0;
	high[1] = 0;
	max = 0;
	sum = 0;
	count = 0;
	shut = true;
	epoch++;
	changes++
}

proctype owner()
{
	byte i;
	bool slow;

	do
	:: i < VALUES -> record(i); i++
	:: epoch + 1 < EPOCHS && i == VALUES -> clear(); i = 0
	:: epoch + 1 == EPOCHS && i == VALUES -> break
	od
}

/* Like hist_copy() in the second thread. */
inline copy_here()
{
	seen = changes;
#ifdef COUNT_READ_LAST
	c_count = 1;
#else
	c_count = count;
#endif
	c_sum = sum;
	c_max = max;
	d_step { c_low[0] = 0; c_high[0] = 0; c_low[1] = 0; c_high[1] = 0 };
	if
	:: c_count -> c_low[0] = low[0]; c_high[0] = high[0]
	:: else -> c_sum = 0
	fi;
	if
	:: c_count && c_max > 0 -> c_low[1] = low[1]; c_high[1] = high[1]
	:: else
	fi;
#ifdef COUNT_READ_LAST
	c_count = count;
#endif
	failed = c_low[0] + 2 * c_high[0] + c_low[1] + 2 * c_high[1] != c_count;
#ifndef NO_SECOND_LOOK
	failed = failed || seen != changes;
#endif
#ifndef ODD_TAKEN
	failed = failed || seen % 2
#endif
}

/* Like wish_ask(). */
inline ask()
{
	done = false;
	wanted = true;
	shut = true;
	do
	:: done -> break
	:: !done && shut == false -> shut = true
	:: !done -> /* the thread has waited long enough */
#ifdef WISH_STAYS
		failed = true;
		break
#else
		if
		:: atomic { wanted -> wanted = false };
			failed = true;
			break
		:: !wanted -> done; break
		fi
#endif
	od
}

#define FITS(e) (c_sum == c_count * (c_count + 1) / 2 + 8 * e * c_count && \
	c_low[PLACE(0, e)] + 2 * c_high[PLACE(0, e)] == (c_count + 1) / 2 && \
	c_low[PLACE(1, e)] + 2 * c_high[PLACE(1, e)] == c_count / 2)

proctype second()
{
	byte n, seen, from_epoch, from_count;
	bool whole;

	do
	:: n == COPIES -> break
	:: n < COPIES ->
		d_step { asked = true; from_epoch = epoch; from_count = count };
		do
		:: true ->
			copy_here();
			if
			:: !failed -> break
			:: failed -> ask()
			fi;
			if
			:: !failed -> break
			:: failed
			fi
		od;
		n++;
		d_step {
			whole = FITS(from_epoch) && c_count >= from_count || epoch > from_epoch && FITS(epoch);
			assert(whole);
			asked = false
		}
	od
}

init {
	atomic {
		run owner();
		run second()
	}
}
