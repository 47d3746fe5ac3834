/* SPDX-License-Identifier: MIT */
/*
 * A place of shmipc with requests in loans (src/loan.h), whose clients die at any step. The server
 * reads a request in the client's chunk, and may do so after the client's death. So no other client
 * gets the place until the server has answered the last of these requests or, with attr.events,
 * shmipc_server_event() has returned the event of the death. After that the server must not read
 * the requests any more, but may still answer them.
 *
 * The model shows: a chunk is not written while the server may read it; a client gets no answer to
 * a call of another client; the server cleans no place that a client uses; and each client gets the
 * place in the end (otherwise Spin would report an invalid end state).
 *
 * Wrong variants, each of which must fail:
 *	NO_KEEP		a place is cleaned when the client's death is noticed
 *	FIRST_ANSWER	the first answer to a client that has gone cleans the place
 *	NO_DROP		no answer to a client that has gone cleans the place
 *	EVENT_STAYS	shmipc_server_event() does not forget the requests, so that their answers
 *			clean the place again
 *	ANY_CLIENT	an answer counts also if its client is not the one that ended last
 */
#define CHUNKS 2
#define LIVES 3

bool clean = true; /* a client may have the place */
byte life; /* the client that has the place, or had it last */
bool alive; /* this client holds its lock */
bool sent[CHUNKS]; /* requests in the ring */
byte written[CHUNKS]; /* the client that wrote the chunk */
byte answered[CHUNKS]; /* the client whose request was answered; 0: none */
bool over;

proctype client()
{
	byte k;

	do
	:: life == LIVES -> break
	:: life < LIVES ->
		atomic { clean -> clean = false; alive = true; life++ };
		k = 0;
		do
		:: k == CHUNKS -> break
		:: k < CHUNKS -> written[k] = life; sent[k] = true; k++
		:: true -> break /* killed, or it sends no more requests */
		od;
		do
		:: answered[0] -> d_step { assert(answered[0] == life); answered[0] = 0 }
		:: answered[1] -> d_step { assert(answered[1] == life); answered[1] = 0 }
		:: true -> break
		od;
		alive = false
	od;
	over = true
}

inline clean_place()
{
	d_step {
		assert(!alive && !clean);
		sent[0] = false;
		sent[1] = false;
		answered[0] = 0;
		answered[1] = 0;
		clean = true
	}
}

/* The program answers request i of a client that has gone: shmipc_priv_server_gone(). */
inline answer_gone(i, who)
{
	if
#ifdef ANY_CLIENT
	:: keep[i] ->
#else
	:: who == ended && keep[i] ->
#endif
		keep[i] = false;
		kept--;
#ifndef NO_DROP
		if
#ifdef FIRST_ANSWER
		:: !event -> clean_place()
#else
		:: !event && kept == 0 -> clean_place()
#endif
		:: else
		fi
#endif
	:: else
	fi
}

inline notice_death()
{
	d_step {
		for (i : 0 .. CHUNKS - 1) {
			keep[i] = held[i];
			if
			:: held[i] -> late[i] = connected; reads[i] = true; kept++; held[i] = false
			:: else
			fi
		}
		i = 0
	};
	ended = connected;
	connected = 0;
	event = events;
	if
#ifdef NO_KEEP
	:: !event -> clean_place()
#else
	:: !event && kept == 0 -> clean_place()
#endif
	:: else
	fi
}

proctype server()
{
	byte connected, ended, kept, i;
	byte late[CHUNKS]; /* the client that has gone and whose request is unanswered; 0: none */
	byte stale; /* client of request 0, if it is answered a second time, or after the event */
	bool held[CHUNKS]; /* requests of the client that is connected */
	bool keep[CHUNKS]; /* unanswered requests of the client that ended last */
	bool reads[CHUNKS]; /* requests that the server may still read after their client's death */
	bool event, events;

	if
	:: events = true
	:: events = false
	fi;
	do
	:: over && !connected && ended == LIVES && clean -> break
	:: !connected && !clean && life > ended -> connected = life
	:: connected && sent[0] && !held[0] && !late[0] -> sent[0] = false; held[0] = true
	:: connected && sent[1] && !held[1] && !late[1] -> sent[1] = false; held[1] = true
	/* Reads a request in place. */
	:: held[0] -> assert(written[0] == connected); answered[0] = connected; held[0] = false
	:: held[1] -> assert(written[1] == connected); answered[1] = connected; held[1] = false
	:: reads[0] -> assert(written[0] == late[0]); reads[0] = false
	:: reads[1] -> assert(written[1] == late[1]); reads[1] = false
	:: late[0] -> reads[0] = false; answer_gone(0, late[0]); stale = late[0]; late[0] = 0
	:: late[1] -> reads[1] = false; answer_gone(1, late[1]); late[1] = 0
	:: stale -> answer_gone(0, stale); stale = 0
	:: connected && !alive && life == connected -> notice_death()
	:: event -> /* shmipc_server_event() */
		event = false;
		stale = late[0];
		late[0] = 0;
		late[1] = 0;
		reads[0] = false;
		reads[1] = false;
#ifndef EVENT_STAYS
		keep[0] = false;
		keep[1] = false;
		kept = 0;
#endif
		clean_place()
	od
}

init {
	atomic {
		run client();
		run server()
	}
}
