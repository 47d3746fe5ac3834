/* SPDX-License-Identifier: MIT */
/*
 * When a node of flux publishes: one node calls PEERS servers and collects for each of them
 * separately. At most OPEN bursts of BURST calls are open. The node publishes everything after
 * GATHER bursts have been opened or have become full, in each poll, and before each wait. When it
 * publishes everything, it closes bursts, empty ones too, until only KEPT are open.
 *
 * The model shows: a collected call is visible at the latest after LATEST further calls, to
 * whichever servers; after a poll nothing is collected; and no schedule ends with a node that waits
 * for a message which another node has collected (Spin reports that as an invalid end state). The
 * servers collect answers in the same way, and publish them when they find no more calls.
 *
 * Wrong variants, each of which must fail:
 *	NO_GATHER	the number of bursts that have been opened or filled is not limited
 *	NO_EVICTION	a burst is opened although OPEN bursts are open
 *	POLL_LAST	a poll publishes the burst that was opened last, and not the others
 *	WAIT_KEEPS	a wait publishes nothing
 *	SERVER_KEEPS	a server that finds no more calls publishes nothing
 *	CLOSE_DROPS	a burst is closed before it is published
 */
#define PEERS 3
#define BURST 2
#define OPEN 2
#define GATHER 2
#define KEPT 1
#define CALLS 6
#define LATEST (BURST * GATHER + (BURST - 1) * (OPEN - 2))
#define NOBODY PEERS

byte visible[PEERS]; /* calls that the server can take; grows */
byte answered[PEERS]; /* answers that the node can take; grows */
bool over;

/* Private to the node. */
byte held[PEERS]; /* collected calls */
bool open[PEERS];
byte age[PEERS]; /* calls made since the oldest call in held[] */
byte n_open, gathered, last = NOBODY;

inline publish(p)
{
	visible[p] = visible[p] + held[p];
	held[p] = 0;
	age[p] = 0
}

inline close(p)
{
	if
	:: open[p] && n_open > KEPT ->
#ifdef CLOSE_DROPS
		held[p] = 0;
#endif
		n_open--;
		open[p] = false
	:: else
	fi
}

inline publish_all()
{
	for (i : 0 .. PEERS - 1) {
#ifdef CLOSE_DROPS
		close(i);
#endif
		publish(i);
		close(i)
	}
	gathered = 0
}

inline count_event()
{
	gathered++;
	if
#ifndef NO_GATHER
	:: gathered >= GATHER -> publish_all()
#endif
	:: else
	fi
}

inline open_burst(p)
{
	if
#ifndef NO_EVICTION
	:: n_open == OPEN ->
		publish_all();
		for (i : 0 .. PEERS - 1) {
			open[i] = false
		}
		n_open = 0
#endif
	:: else
	fi;
	open[p] = true;
	n_open++;
	assert(n_open <= OPEN);
	last = p
}

inline call(p)
{
	d_step {
		if
		:: !open[p] -> count_event(); open_burst(p)
		:: else
		fi;
		for (i : 0 .. PEERS - 1) {
			if
			:: held[i] -> age[i]++
			:: else
			fi
		}
		held[p]++;
		if
		:: held[p] == BURST -> publish(p); count_event()
		:: else
		fi;
		for (i : 0 .. PEERS - 1) {
			assert(age[i] <= LATEST)
		}
		made++;
		i = 0;
		p = 0
	}
}

active proctype node()
{
	byte i, p, made, ended, taken[PEERS];

	do
	:: made < CALLS ->
		if
		:: p = 0
		:: p = 1
		:: p = 2
		fi;
		call(p)
	:: made > ended -> /* a poll, which may find nothing */
		d_step {
#ifdef POLL_LAST
			if
			:: last != NOBODY -> publish(last)
			:: else
			fi;
#else
			publish_all();
#endif
			for (i : 0 .. PEERS - 1) {
				assert(held[i] == 0);
				ended = ended + answered[i] - taken[i];
				taken[i] = answered[i]
			}
			i = 0
		}
	:: made > ended -> /* a wait */
		d_step {
#ifndef WAIT_KEEPS
			publish_all();
#endif
			i = 0
		}
		taken[0] != answered[0] || taken[1] != answered[1] || taken[2] != answered[2]
	:: made == CALLS && ended == CALLS -> break
	od;
	over = true
}

active [PEERS] proctype server()
{
	byte me = _pid - 1, taken, collected;

end:	do
	:: atomic {
		taken < visible[me] ->
		taken++;
		collected++;
		if
		:: collected == BURST -> answered[me] = answered[me] + collected; collected = 0
		:: else
		fi
	   }
	:: atomic {
		taken == visible[me] && collected > 0 -> /* no more calls: publishes, then waits */
#ifdef SERVER_KEEPS
		taken < visible[me] || over;
#else
		answered[me] = answered[me] + collected;
		collected = 0
#endif
	   }
	:: over && taken == visible[me] && collected == 0 -> break
	od
}
