/* SPDX-License-Identifier: MIT */
/*
 * A place of shmipc that passes from client to client. A client that holds the place's lock and
 * finds the place clean makes the epochs equal, and sets the place's bit in the bitmap (mark). The
 * client leaves the place when it clears the mark, or when it dies, at any step. Only the server
 * cleans the place. A step is one access to shared memory, or one system call for the lock.
 *
 * The model shows: a client gets clean rings, and the server does not clean them while a client
 * uses them; at the end, when all clients are gone, the server makes the place clean again.
 *
 * Wrong variants, which must fail:
 *	NO_RECHECK	the place is not checked again once its lock is held
 *	EARLY_EPOCH	the server publishes its epoch before the rings are clean
 *	NO_LOCK_TEST	the server assumes that a client is dead without testing its lock
 */
#define CLIENTS 2
#define LIVES 2 /* connections of each client */

bool mark; /* the bit of the place in the bitmap */
byte client_epoch = 0, server_epoch = 1;
byte lock; /* the client that holds the lock; 0: none */
byte dirty; /* the client that has written to the rings; 0: the rings are clean */
byte using; /* number of clients that use the rings */
byte alive = CLIENTS;

inline maybe_die()
{
	if
	:: skip
	:: goto dead
	fi
}

/* place_is_clean(): the loads are in this order. */
inline look()
{
	epoch = server_epoch;
	maybe_die();
	clean = !mark;
	maybe_die();
	clean = clean && client_epoch != epoch
}

proctype client(byte me)
{
	byte life, epoch;
	bool clean;

	do
	:: life == LIVES -> break
	:: else ->
		life++;
		look();
		if
		:: !clean -> goto dead
		:: else
		fi;
		maybe_die();
		atomic {
			if
			:: lock == 0 -> lock = me
			:: else -> goto dead
			fi
		}
		maybe_die();
#ifndef NO_RECHECK
		look();
		if
		:: !clean -> goto dead
		:: else
		fi;
		maybe_die();
#endif
		epoch = server_epoch;
		maybe_die();
		client_epoch = epoch;
		maybe_die();
		mark = true;
		maybe_die();
		d_step {
			assert(dirty == 0);
			using++;
			dirty = me
		}
		if
		:: true ->
			d_step {
				using--; /* killed while it uses the rings */
				if
				:: lock == me -> lock = 0
				:: else
				fi
			};
			goto next
		:: true -> skip
		fi;
		d_step {
			assert(dirty == me);
			using--
		}
		mark = false;
		maybe_die();
dead:		skip; /* the kernel drops the lock of a client that ends, in whatever way */
		d_step {
			if
			:: lock == me -> lock = 0
			:: else
			fi
		}
next:		skip
	od;
	alive--
}

proctype server()
{
	bool connected, seen, taken, last;

	do
	:: last = alive == 0;
		/* shmipc_priv_server_rescan() */
		seen = mark;
		if
		:: seen && !connected -> connected = client_epoch == server_epoch
		:: !seen && connected -> goto clean_it
		:: else
		fi;
		/* place_reclaim() */
		taken = client_epoch == server_epoch;
		if
		:: !taken && !connected -> goto turn
		:: else
		fi;
#ifndef NO_LOCK_TEST
		if
		:: lock != 0 -> goto turn
		:: else
		fi;
#endif
clean_it:	connected = false;
#ifdef EARLY_EPOCH
		server_epoch++;
#endif
		d_step {
			assert(using == 0);
			dirty = 0
		}
		mark = false;
#ifndef EARLY_EPOCH
		server_epoch++;
#endif
turn:		if
		:: last -> break
		:: else
		fi
	od;
	assert(!mark && client_epoch != server_epoch && dirty == 0)
}

init {
	atomic {
		run client(1);
		run client(2);
		run server()
	}
}
