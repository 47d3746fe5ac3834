/* SPDX-License-Identifier: MIT */
/*
 * Reconnection: two ends whose rings are the log (docs/reconnect.md describes the protocol). Both
 * make calls and answer them in any order. At any time a queue pair fails at one end, and the other
 * end notices it later or never; messages of the reconnection are lost or arrive late; an end
 * starts another attempt while one is in progress, or both start one at the same time; with RESTART
 * one process is restarted, and may say goodbye before. The number of these losses is bounded.
 *
 * With FIRST the model begins when both ends have connected their first queue pairs and have sent
 * the result "connected" over a TCP connection, which may be lost before one of them, or both, have
 * received the result of the other. With BY_HAND the hellos go over a channel of the programs,
 * which loses, repeats and reorders them; there is no answer. An end sends its hello again if it is
 * lost, or if the peer does not know it.
 *
 * A slot of a ring holds one message. Positions grow; position x is slot x % C. The ring of the
 * sender is `log`, that of the receiver `ring`. A WRITE lands only in a queue pair of the same
 * attempt, and its completion is handled later.
 *
 * The model shows: a request is executed at most once, a call ends exactly once, no message is
 * overwritten before it was released, credit is neither lost nor doubled, and the number of
 * attempts is bounded by the losses. A call that never ends is an invalid end state.
 *
 * Wrong variants, each of which must fail:
 *	OLD_QP_LIVES		an end sends its position while its old queue pair still accepts WRITEs
 *	TELLS_EARLY		an end sends its position before it has handled the last
 *				successful completion
 *	RESENDS_UNRELEASED	messages that the peer has received, but not released, are sent again
 *	RESENDS_NOTHING		messages that the peer has not received are not sent again
 *	KEEPS_POSITION		a later attempt uses the position of an earlier one
 *	ANY_HELLO		an older attempt replaces a newer one
 *	ANY_PROCESS		a hello for another process is accepted
 *	LOSES_CREDIT		a batch that is sent again grants nothing
 *	GRANTS_AGAIN		a batch that is sent again grants the credit that is owed now
 *	JOINS_ANY		(BY_HAND) a queue pair is connected by a hello of another number
 *	SAME_NUMBER		(BY_HAND) an end makes a second queue pair for a number
 *	KEEPS_CONNECTION	(BY_HAND) a hello with a larger number does not stop an end that is connected
 *	BYE_OVERTAKES		(RESTART) a goodbye is handled before completions that arrived before it
 *	DISCARDS_OPEN		(FIRST) an end forgets the endpoint when the TCP connection is lost
 *				before it has heard that the peer is connected
 */
#ifndef LOSSES
#ifdef BY_HAND
#define LOSSES 3
#else
#define LOSSES 2
#endif
#endif
#ifdef RESTART
#define CALLS0 1
#define CALLS1 0
#elif defined(FIRST) || defined(BY_HAND)
#define CALLS0 1
#define CALLS1 1
#elif defined(WIDE) /* several messages at a time */
#define C 4
#define CALLS0 3
#define CALLS1 0
#else
#define CALLS0 2
#define CALLS1 1
#endif
#ifndef C
#define C 2 /* slots of a ring: 2 or 4 */
#endif
#define RMAX (C / 2) /* credit */
#define MOST 5 /* calls of an end, at most */
#define CALLS (e == 0 -> CALLS0 : CALLS1)

#define EMPTY 0 /* kinds of messages; this one only grants credit */
#define REQUEST 1
#define RESPONSE 2

#define PEER (1 - e)

typedef message {
	byte kind, id, credit, pos
}

typedef note { /* a hello, or the answer to it, on its way */
	byte attempt, pos, process /* attempt 0: none; process, with BY_HAND: 1: the sender is connected */
}

typedef side {
	message log[C]; /* the send ring */
	byte p, sent, rc; /* positions: placed, handed to the queue pair, known to be released */
	byte next; /* position of the oldest message in flight */
	byte owed, left; /* credit: owed to the peer; received from the peer and not used */
	message ring[C]; /* the receive ring */
	bool held[C]; /* requests without a reply */
	byte cqes, got, released; /* completions that were not handled; positions */
	byte qp; /* the attempt to which the queue pair belongs; 0: error state */
	byte last; /* the latest attempt that this end takes part in */
	byte asked, told; /* hello that was accepted, but not answered yet, and its position */
	byte process; /* number of the process */
	byte made, done; /* calls made, ended */
	bool refused; /* the peer has refused the latest attempt, because the peer's own is later */
#ifdef BY_HAND
	byte wanted; /* number of a hello that this end has to follow */
	bool offered; /* there is a queue pair of attempt `last`, which is not connected */
	bool owes; /* the hello has to be sent */
#endif
	bool over /* the peer's process is gone: all calls have ended */
}

side end[2];
note hello[4]; /* two from each end, which may overtake each other */
note answer[2]; /* to each end */
byte executed[10], ended[10]; /* of call MOST * end + id */
byte replies[2];
byte losses = LOSSES;
#ifdef FIRST
bool up[2]; /* the end has heard that the peer is connected; its program may make calls */
bool result[2]; /* the peer's result "connected" is on its way to the end */
bool tcp = true;
bool gone[2]; /* the end has forgotten the endpoint */
#define MAY_CALL up[e]
#define IS_UP up[e] = true; assert(!gone[e])
#else
#define MAY_CALL true
#define IS_UP skip
#endif
#ifdef OLD_QP_LIVES
byte old[2]; /* the queue pair that still takes WRITEs */
note late[2]; /* a WRITE that its sender's failed queue pair has sent */
message late_message[2];
#endif

#ifdef RESTART
byte bye; /* the attempt over whose queue pair end 1 has said goodbye; 0: none */
#ifdef BYE_OVERTAKES
#define HEARS_BYE (e == 0 && bye)
#else
#define HEARS_BYE (e == 0 && bye && !end[0].cqes)
#endif
#endif

#define R (RMAX - end[e].owed)
#define IN_FLIGHT (end[e].p - end[e].rc)
#define CONNECTED (end[e].qp && end[e].qp == end[PEER].qp)
#define ENDED(x, n) (end[x].over || end[x].done == n)
#define ALL_ENDED (ENDED(0, CALLS0) && ENDED(1, CALLS1))
/* True if no message of an attempt that this end has started, or waits for, is in flight. */
#define IDLE ((!end[e].refused || !hello[2 * PEER].attempt && !hello[2 * PEER + 1].attempt) && \
	!hello[2 * e].attempt && !hello[2 * e + 1].attempt && !answer[e].attempt && \
	end[PEER].asked != end[e].last)

inline place(k, n)
{
	assert(IN_FLIGHT < C);
	end[e].log[end[e].p % C].kind = k;
	end[e].log[end[e].p % C].id = n;
	end[e].log[end[e].p % C].pos = end[e].p;
	end[e].log[end[e].p % C].credit = 0;
	end[e].p++
}

inline release()
{
	do
	:: end[e].released < end[e].got && !end[e].held[end[e].released % C] -> end[e].released++
	:: else -> break
	od
}

inline reply(slot)
{
	place(RESPONSE, end[e].ring[slot].id);
	assert(IN_FLIGHT + R - 1 <= C);
	end[e].owed++;
	replies[e]++;
	end[e].held[slot] = false;
	release();
	i = 0
}

inline copy(to, from)
{
	to.kind = from.kind;
	to.id = from.id;
	to.pos = from.pos;
	to.credit = from.credit
}

/* The oldest message in the send ring that is still in flight lands at the peer. */
inline land()
{
	assert(end[e].next - end[PEER].released < C);
	copy(end[PEER].ring[end[e].next % C], end[e].log[end[e].next % C]);
	end[PEER].cqes++;
	end[e].next++
}

/* Handles a completion. */
inline handle()
{
	i = end[e].got % C;
	assert(end[e].ring[i].pos == end[e].got);
	end[e].cqes--;
	end[e].got++;
	end[e].left = end[e].left + end[e].ring[i].credit;
	assert(end[e].left <= RMAX);
	if
	:: end[e].ring[i].kind == REQUEST ->
		c = MOST * PEER + end[e].ring[i].id;
		executed[c]++;
		assert(executed[c] == 1);
		end[e].held[i] = true
	:: end[e].ring[i].kind == RESPONSE ->
		c = MOST * e + end[e].ring[i].id;
		end[e].done++;
		ended[c]++;
		assert(ended[c] == 1)
	:: else
	fi;
	release();
	c = 0;
	i = 0
}

/* The queue pair leaves the connected state. */
inline stop()
{
#ifdef OLD_QP_LIVES
	old[e] = end[e].qp;
	if
	:: !late[e].attempt && end[e].next < end[e].sent ->
		late[e].attempt = end[e].qp;
		copy(late_message[e], end[e].log[end[e].next % C])
	:: else
	fi;
#endif
	end[e].qp = 0
}

/* Connects the new queue pair; the peer has received everything before @pos. */
inline resume(attempt_, pos_)
{
	assert(end[e].rc <= pos_ && pos_ <= end[e].sent);
	end[e].qp = attempt_;
	end[e].next = pos_;
	IS_UP;
#ifdef RESENDS_UNRELEASED
	end[e].next = end[e].rc;
#endif
#ifdef RESENDS_NOTHING
	end[e].next = end[e].sent;
#endif
#if defined(LOSES_CREDIT) || defined(GRANTS_AGAIN)
	i = end[e].next;
	do
	:: i < end[e].sent ->
#ifdef LOSES_CREDIT
		end[e].log[i % C].credit = 0;
#else
		end[e].log[i % C].credit = end[e].owed;
		end[e].owed = 0;
#endif
		i++
	:: else -> break
	od;
	i = 0
#endif
}

inline start_attempt()
{
	end[e].last = (end[e].last / 2 + 1) * 2 + PEER;
	end[e].refused = false;
	assert(end[e].last / 2 <= LOSSES + 1);
	i = (hello[2 * e].attempt -> 2 * e + 1 : 2 * e);
	hello[i].attempt = end[e].last;
	hello[i].pos = end[e].got;
	hello[i].process = end[PEER].process;
#ifdef RESTART
	hello[i].process = 0;
#endif
	i = 0
}

/* Ends all calls of the end that were not answered. */
inline give_up(x)
{
	end[x].over = true;
	do
	:: i < end[x].made ->
		if
		:: !ended[MOST * x + i] -> ended[MOST * x + i]++
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = 0
}

inline hear_hello(k)
{
#ifdef FIRST
	assert(!(gone[e] && up[PEER])); /* else a connection is lost that was up, and both processes
					   live */
#endif
	if
#ifndef ANY_PROCESS
	:: hello[k].process != end[e].process ->
		/* Refused: the peer gives up. */
		stop();
		give_up(PEER)
#endif
	:: else ->
		if
#ifdef ANY_HELLO
		:: true ->
#else
		:: hello[k].attempt > end[e].last ->
#endif
			stop();
			end[e].refused = false;
			end[e].last = hello[k].attempt;
			end[e].asked = hello[k].attempt;
#ifdef KEEPS_POSITION
			if
			:: !end[e].told -> end[e].told = hello[k].pos
			:: else
			fi
#else
			end[e].told = hello[k].pos
#endif
		:: else ->
			end[PEER].refused = hello[k].attempt == end[PEER].last
		fi
	fi;
	hello[k].attempt = 0;
	hello[k].pos = 0;
	hello[k].process = 0
}

inline give_answer()
{
	answer[PEER].attempt = end[e].asked;
	answer[PEER].pos = end[e].got;
	resume(end[e].asked, end[e].told);
	end[e].asked = 0;
#ifndef KEEPS_POSITION
	end[e].told = 0
#endif
}

inline hear_answer()
{
	if
	:: answer[e].attempt == end[e].last && !end[e].qp ->
		resume(end[e].last, answer[e].pos)
	:: else
	fi;
	answer[e].attempt = 0;
	answer[e].pos = 0
}

#ifdef BY_HAND
#define OWN_SLOT (hello[2 * e].attempt -> 2 * e + 1 : 2 * e)
#define MAY_SEND (!hello[2 * e].attempt || !hello[2 * e + 1].attempt)
/* True if the peer will never connect the queue pair to which that of this end is connected. */
#define ABANDONED (end[PEER].last > end[e].qp || \
	end[PEER].last == end[e].qp && !end[PEER].offered && end[PEER].qp != end[e].qp)
/* True if the hello need not wait until this end has made a queue pair. */
#define HEARS(k) (hello[k].attempt && \
	(hello[k].attempt <= end[e].last || end[e].wanted < hello[k].attempt))

inline offer()
{
#ifdef SAME_NUMBER
	end[e].last = (end[e].last < end[e].wanted -> end[e].wanted : end[e].last);
	if
	:: end[e].last == 1 -> end[e].last = 2
	:: else
	fi;
#else
	end[e].last = (end[e].last + 1 < end[e].wanted -> end[e].wanted : end[e].last + 1);
#endif
	assert(end[e].last <= 2 * LOSSES + 2);
	end[e].told = end[e].got;
	end[e].offered = true;
	end[e].owes = true
}

inline send_hello()
{
	i = OWN_SLOT;
	hello[i].attempt = end[e].last;
	hello[i].pos = end[e].told;
	hello[i].process = (end[e].qp != 0);
	end[e].owes = false;
	i = 0
}

inline drop(k)
{
	hello[k].attempt = 0;
	hello[k].pos = 0;
	hello[k].process = 0
}

inline hear_by_hand(k)
{
	if
#ifdef JOINS_ANY
	:: hello[k].attempt <= end[e].last && end[e].offered ->
#else
	:: hello[k].attempt == end[e].last && end[e].offered ->
#endif
		end[e].offered = false;
		resume(end[e].last, hello[k].pos);
		drop(k)
	:: else ->
		if
		:: hello[k].attempt == end[e].last && end[e].qp && hello[k].process -> drop(k)
#ifdef KEEPS_CONNECTION
		:: hello[k].attempt <= end[e].last || end[e].qp ->
#else
		:: hello[k].attempt <= end[e].last && !(hello[k].attempt == end[e].last && end[e].qp &&
			hello[k].process) ->
#endif
			end[e].owes = true;
			drop(k)
		:: hello[k].attempt > end[e].last ->
			end[e].wanted = hello[k].attempt;
			end[e].offered = false;
			stop()
		fi
	fi
}
#endif

/* True if all completions are handled. The position is then final, because the queue pair, which is
 * stopped, receives nothing any more. */
#ifdef TELLS_EARLY
#define HANDLED true
#else
#define HANDLED (!end[e].cqes)
#endif
#define MAY_START (!end[e].qp && !end[e].asked && !end[e].over && HANDLED)

proctype works(byte e)
{
	byte i, c;

	do
	:: d_step { MAY_CALL && end[e].made < CALLS && !end[e].over && end[e].left && IN_FLIGHT + 1 + RMAX <= C ->
		place(REQUEST, end[e].made); end[e].left--; end[e].made++ }
	:: d_step { end[e].held[0] && !end[e].over -> reply(0) }
	:: d_step { end[e].held[1] && !end[e].over -> reply(1) }
#if C > 2
	:: d_step { end[e].held[2] && !end[e].over -> reply(2) }
	:: d_step { end[e].held[3] && !end[e].over -> reply(3) }
#endif
	:: d_step { end[e].qp && end[e].sent == end[e].p && end[e].owed && IN_FLIGHT + 1 + R < C ->
		place(EMPTY, 0) }
	:: d_step { end[e].qp && end[e].sent < end[e].p ->
		c = C - IN_FLIGHT - R;
		c = (c < end[e].owed -> c : end[e].owed);
		end[e].log[end[e].sent % C].credit = c;
		end[e].owed = end[e].owed - c;
		end[e].sent++;
		c = 0 }
	:: d_step { CONNECTED && end[e].next < end[e].sent -> land() }
	:: d_step { CONNECTED && end[e].rc < end[PEER].released && (end[e].owed || end[e].made < CALLS) ->
		end[e].rc = end[PEER].released }
	:: d_step { end[e].cqes -> handle() }

	:: d_step { end[e].qp && losses -> losses--; stop() }
#ifdef BY_HAND
	:: d_step { end[e].qp && ABANDONED -> stop() }
	:: d_step { !end[e].qp && !end[e].offered && HANDLED -> offer() }
	:: d_step { end[e].owes && (end[e].qp || end[e].offered) && MAY_SEND -> send_hello() }
	:: d_step { HEARS(2 * PEER) -> hear_by_hand(2 * PEER) }
	:: d_step { HEARS(2 * PEER + 1) -> hear_by_hand(2 * PEER + 1) }
	:: d_step { hello[2 * e].attempt && losses -> losses--; end[e].owes = true; drop(2 * e) }
	:: d_step { hello[2 * e].attempt && !hello[2 * e + 1].attempt && losses -> losses--;
		hello[2 * e + 1].attempt = hello[2 * e].attempt; hello[2 * e + 1].pos = hello[2 * e].pos;
		hello[2 * e + 1].process = hello[2 * e].process }
#else
	:: d_step { end[e].qp && end[e].qp != end[PEER].qp && answer[PEER].attempt != end[e].qp -> stop() }
	:: d_step { MAY_START && IDLE -> start_attempt() }
	:: d_step { MAY_START && losses && !(hello[2 * e].attempt && hello[2 * e + 1].attempt) ->
		losses--; start_attempt() }
	:: d_step { hello[2 * PEER].attempt -> hear_hello(2 * PEER) }
	:: d_step { hello[2 * PEER + 1].attempt -> hear_hello(2 * PEER + 1) }
	:: d_step { end[e].asked && HANDLED -> give_answer() }
	:: d_step { answer[e].attempt -> hear_answer() }
	:: d_step { hello[2 * e].attempt && losses -> losses--; hello[2 * e].attempt = 0;
		hello[2 * e].pos = 0; hello[2 * e].process = 0 }
	:: d_step { answer[e].attempt && losses -> losses--; answer[e].attempt = 0; answer[e].pos = 0 }
#endif
#ifdef FIRST
	:: d_step { result[e] -> result[e] = false; up[e] = true }
	:: d_step { tcp && losses -> losses--; tcp = false; result[0] = false; result[1] = false }
	:: d_step { !tcp && !up[e] && end[e].qp == 1 ->
#ifdef DISCARDS_OPEN
		gone[e] = true;
#endif
		stop() }
#endif
#ifdef RESTART
	:: d_step { HEARS_BYE ->
		if
		:: bye == end[0].qp && !end[0].over -> stop(); give_up(0)
		:: else /* to a queue pair that was replaced */
		fi;
		bye = 0 }
#endif
#ifdef OLD_QP_LIVES
	:: d_step { late[PEER].attempt && late[PEER].attempt == old[e] ->
		copy(end[e].ring[late_message[PEER].pos % C], late_message[PEER]);
		late[PEER].attempt = 0 }
#endif
	:: atomic { ALL_ENDED -> break }
	od
}

inline take_its_place()
{
	losses--;
	end[e].p = 0; end[e].sent = 0; end[e].rc = 0; end[e].next = 0;
	end[e].owed = 0; end[e].left = 0;
	end[e].cqes = 0; end[e].got = 0; end[e].released = 0;
	end[e].qp = 0; end[e].last = 0; end[e].asked = 0; end[e].told = 0;
	end[e].process = 1;
	end[e].over = true;
	do
	:: i < C ->
		end[e].held[i] = false;
		end[e].ring[i].pos = 0; end[e].ring[i].kind = 0;
		end[e].ring[i].id = 0; end[e].ring[i].credit = 0;
		i++
	:: else -> break
	od;
	i = 0
}

/* The second process ends, and another one takes its place. A goodbye comes after all messages that
 * were sent. */
proctype restart()
{
	byte e = 1, i;

	if
	:: d_step { losses && !end[0].over -> take_its_place() }
#ifdef RESTART
	:: d_step { losses && !end[0].over && end[e].qp && end[e].next == end[e].sent ->
		bye = end[e].qp;
		take_its_place() }
#endif
	:: atomic { ALL_ENDED }
	fi
}

init {
	byte e = 0, i, credit;

	d_step {
		end[0].left = RMAX; end[1].left = RMAX;
		end[0].qp = 1; end[1].qp = 1;
		end[0].last = 1; end[1].last = 1;
#ifdef FIRST
		result[0] = true; result[1] = true
#endif
	};
	atomic {
		run works(0); run works(1);
#ifdef RESTART
		run restart()
#endif
	};
	d_step { _nr_pr == 1 ->
		do
		:: e < 2 && !end[0].over && !end[1].over ->
			credit = end[e].left + end[PEER].owed + (end[e].made - replies[PEER]);
			i = end[e].got;
			do
			:: i < end[PEER].sent ->
				credit = credit + end[PEER].log[i % C].credit;
				i++
			:: else -> break
			od;
			assert(credit == RMAX);
			e++
		:: else -> break
		od;
		i = 0
	}
}
