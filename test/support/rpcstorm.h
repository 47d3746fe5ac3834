/* SPDX-License-Identifier: MIT */
/*
 * The storm (storm.h) of delegrpc and shmipc, which have a server and clients. Clients are threads
 * of several processes. They connect, make calls, poll, sleep on futexes and descriptors, let calls
 * time out, leave with calls in flight and are killed. The server delays answers, answers in any
 * order, sleeps, is killed, stopped and started again. A client checks that each call ends once,
 * with its own answer or because the server has ended. The server checks that each request arrives
 * once and complete, and that an answer is refused only if its client has gone. Only one file of a
 * program may include this header, because it defines main().
 */
#ifndef SUPPORT_RPCSTORM_H
#define SUPPORT_RPCSTORM_H

#include "support/rpcstorm-client.h"
#include "support/rpcstorm-server.h"

static uint32_t rpcstorm_servers; /* number of servers started */

static inline pid_t rpcstorm_start_server(uint64_t *rng)
{
	uint64_t seed = test_rand(rng);
	pid_t pid;

	__atomic_store_n(&rpcstorm_draw.sh->stop, 0, __ATOMIC_RELEASE);
	rpcstorm_servers++;
	pid = test_fork();
	if (!pid) {
		storm_child();
		rpcstorm_serve(seed);
		_exit(0);
	}
	return pid;
}

static inline pid_t rpcstorm_start_group(uint64_t *rng, uint32_t start)
{
	uint64_t seed = test_rand(rng);
	uint32_t threads = storm_draw(rng, 1, RPCSTORM_THREADS);
	pid_t pid;

	CHECK(start < RPCSTORM_STARTS);
	pid = test_fork();
	if (!pid) {
		storm_child();
		rpcstorm_group(seed, start, threads);
		_exit(0);
	}
	return pid;
}

/* Connects a client, because that wakes a server that sleeps without a time limit. */
static inline void rpcstorm_nudge(void)
{
	const struct timespec nap = {.tv_nsec = 1000000};
	static const struct rpcstorm_shape any;
	struct rpc_client *c;

	__atomic_store_n(&nosend_errno, 0, __ATOMIC_RELAXED);
	if (!rpcstorm_connect(&any, &c))
		RPC(client_disconnect)(c);
	nanosleep(&nap, NULL);
}

static inline void rpcstorm_end(pid_t pid, bool killed)
{
	int status;

	while (!waitpid(pid, &status, WNOHANG))
		rpcstorm_nudge();
	if (killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		return;
	CHECK_EQ(status, 0);
}

/* Kills the server or makes it end, and starts the next one. */
static inline pid_t rpcstorm_next_server(pid_t server, uint64_t *rng)
{
	bool kills = rpcstorm_draw.kills_servers &&
		     (!rpcstorm_draw.stops_servers || storm_one_in(rng, 2));

	__atomic_store_n(&rpcstorm_draw.sh->stop, !kills, __ATOMIC_RELEASE);
	if (kills)
		kill(server, SIGKILL);
	rpcstorm_end(server, kills);
	return rpcstorm_start_server(rng);
}

/* Reads the region by RPC(look). If the server lives, checks that the region cannot be removed. */
static inline void rpcstorm_look(bool lives)
{
	const struct rpcstorm_shape *shape = &rpcstorm_draw.shape;
	struct RPC(look_region) look;
	uint32_t seen = 0, depth;
	int err = RPC(look)(test_name, &look, sizeof(look), rpcstorm_seen, &seen);

	CHECK(err == 0 || err == -ENOENT || err == -EPROTO);
	if (!err) {
		depth = rpcstorm_looked(&look);
		CHECK_EQ(look.attr.max_clients, shape->clients);
		CHECK(depth >= shape->depth && depth < 2 * shape->depth);
		CHECK_EQ(look.attr.req_size, shape->req);
		CHECK_EQ(look.attr.resp_size, shape->resp);
		CHECK_EQ(look.clients + look.dead_clients, seen);
		CHECK(seen <= shape->clients);
	}
	if (!lives)
		return;
	err = RPC(remove_dead)(test_name);
	CHECK(err == -EADDRINUSE || err == -ENOENT || err == -EPROTO || err == -EAGAIN);
}

/* Checks that no server can be created with impossible attributes. */
static inline void rpcstorm_bad_shapes(uint64_t *rng)
{
	struct rpcstorm_shape bad = rpcstorm_draw.given;
	struct rpc_attr unknown = {.mode = 0660, .set = 1u << 7}; /* a bit without a meaning */
	struct rpc_server *s;

	switch (storm_draw(rng, 0, 4)) {
	case 0:
		bad.clients = rpcstorm_beyond.clients;
		break;
	case 1:
		bad.depth = rpcstorm_beyond.depth;
		break;
	case 2:
		bad.req = rpcstorm_beyond.req;
		break;
	case 3:
		bad.resp = rpcstorm_beyond.resp;
		break;
	default:
		CHECK_EQ(RPC(server_create)(test_name, &unknown, &s), -EINVAL);
		return;
	}
	CHECK_EQ(rpcstorm_create(&bad, &s), -EINVAL);
}

static inline void rpcstorm_processes(uint64_t *rng)
{
	struct rpcstorm_shared *sh = rpcstorm_draw.sh;
	const struct timespec nap = {.tv_nsec = 200000};
	uint32_t groups = storm_draw(rng, 1, RPCSTORM_GROUPS), starts = 0, running = groups;
	uint32_t index[RPCSTORM_GROUPS];
	pid_t server = rpcstorm_start_server(rng), group[RPCSTORM_GROUPS];
	bool changes = rpcstorm_draw.kills_servers || rpcstorm_draw.stops_servers;
	uint64_t next = storm_draw(rng, 0, 300);

	for (uint32_t i = 0; i < groups; i++) {
		index[i] = starts;
		group[i] = rpcstorm_start_group(rng, starts++);
	}
	while (running) {
		for (uint32_t i = 0; i < groups; i++) {
			int status;

			if (!group[i] || !waitpid(group[i], &status, WNOHANG))
				continue;
			CHECK_EQ(status, 0);
			group[i] = 0;
			running--;
		}
		CHECK_EQ(waitpid(server, NULL, WNOHANG), 0);
		if (storm_one_in(rng, 8))
			rpcstorm_look(
				__atomic_load_n(&sh->up, __ATOMIC_ACQUIRE) == rpcstorm_servers);
		nanosleep(&nap, NULL);
		if (__atomic_load_n(&sh->ended, __ATOMIC_RELAXED) < next)
			continue;
		next += storm_draw(rng, 50, 800);
		if (changes && storm_one_in(rng, 2)) {
			server = rpcstorm_next_server(server, rng);
		} else if (rpcstorm_draw.kills_clients && starts < RPCSTORM_STARTS) {
			uint32_t i = storm_draw(rng, 0, groups - 1);

			if (!group[i])
				continue;
			__atomic_store_n(&sh->dying[index[i]], 1, __ATOMIC_RELEASE);
			kill(group[i], SIGKILL);
			rpcstorm_end(group[i], true);
			index[i] = starts;
			group[i] = rpcstorm_start_group(rng, starts++);
		}
	}
	if (storm_one_in(rng, 4)) {
		kill(server, SIGKILL);
		rpcstorm_end(server, true);
		rpcstorm_look(false);
		/* The server may have been killed before it completed its region. */
		if (RPC(remove_dead)(test_name) == -EPROTO)
			unlink(test_file(RPC_PREFIX));
	} else {
		__atomic_store_n(&sh->stop, 1, __ATOMIC_RELEASE);
		rpcstorm_end(server, false);
	}
}

static uint32_t rpcstorm_ended_servers;

static inline void *rpcstorm_server_thread(void *arg)
{
	rpcstorm_serve(*(uint64_t *)arg);
	__atomic_store_n(&rpcstorm_ended_servers, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* Runs server and clients as threads, so that a thread sanitizer sees them. */
static inline void rpcstorm_threads(uint64_t *rng)
{
	struct rpcstorm_shared *sh = rpcstorm_draw.sh;
	uint64_t seed = test_rand(rng);
	pthread_t server;

	CHECK_EQ(pthread_create(&server, NULL, rpcstorm_server_thread, &seed), 0);
	rpcstorm_group(test_rand(rng), 0, storm_draw(rng, 1, RPCSTORM_THREADS));
	__atomic_store_n(&sh->stop, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&rpcstorm_ended_servers, __ATOMIC_ACQUIRE))
		rpcstorm_nudge();
	CHECK_EQ(pthread_join(server, NULL), 0);
}

/* Sometimes leaves out a size, so that the layer uses its default. */
static inline void rpcstorm_default(uint64_t *rng, uint32_t *given, uint32_t *used, uint32_t size)
{
	if (!storm_one_in(rng, 4))
		return;
	*given = 0;
	*used = size;
}

static inline void rpcstorm_draw_shape(uint64_t *rng)
{
	struct rpcstorm_shape *shape = &rpcstorm_draw.shape, *given = &rpcstorm_draw.given;

	shape->clients = storm_draw(rng, 1, RPCSTORM_GROUPS * RPCSTORM_THREADS + 2);
	shape->depth = storm_size(rng, 100);
	if (storm_one_in(rng, 2)) /* a ring that can be full; only delegrpc uses this size */
		shape->ring = shape->clients * 8 + storm_size(rng, 64);
	shape->req = RPCSTORM_LEAST + storm_size(rng, storm_one_in(rng, 6) ? 5000 : 200);
	shape->resp = storm_size(rng, storm_one_in(rng, 6) ? 5000 : 200);
	shape->extra = storm_one_in(rng, 2) ? storm_size(rng, 300) : 0;
	shape->events = storm_one_in(rng, 2);
	shape->pushes = storm_one_in(rng, 2) ? storm_size(rng, 40) : 0;
	*given = *shape;
	rpcstorm_default(rng, &given->clients, &shape->clients, rpcstorm_defaults.clients);
	if (!given->clients)
		given->ring = 0;
	rpcstorm_default(rng, &given->depth, &shape->depth, rpcstorm_defaults.depth);
	rpcstorm_default(rng, &given->req, &shape->req, rpcstorm_defaults.req);
	rpcstorm_default(rng, &given->resp, &shape->resp, rpcstorm_defaults.resp);
}

static inline void rpcstorm_seed(uint64_t seed)
{
	uint64_t rng = seed;
	int open = fdtest_open();

	rpcstorm_draw.sh = (struct rpcstorm_shared *)mmap(NULL, sizeof(*rpcstorm_draw.sh),
		PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(rpcstorm_draw.sh != MAP_FAILED);
	rpcstorm_draw_shape(&rng);
	rpcstorm_draw.quota = storm_draw(&rng, 200, 1000);
	rpcstorm_draw.one_process = storm_one_in(&rng, 4);
#ifdef __SANITIZE_THREAD__
	rpcstorm_draw.one_process = true; /* the sanitizer sees the threads of one process only */
#endif
	rpcstorm_draw.kills_clients = !rpcstorm_draw.one_process && storm_one_in(&rng, 2);
	rpcstorm_draw.kills_servers = storm_one_in(&rng, 2);
	rpcstorm_draw.stops_servers = storm_one_in(&rng, 2);
	rpcstorm_draw.gives_shape = storm_one_in(&rng, 2);
	rpcstorm_draw.refuses = storm_one_in(&rng, 3);
	rpcstorm_bad_shapes(&rng);
	if (rpcstorm_draw.one_process)
		rpcstorm_threads(&rng);
	else
		rpcstorm_processes(&rng);
	CHECK(access(test_file(RPC_PREFIX), F_OK) != 0);
	CHECK_EQ(fdtest_open(), open);
	CHECK_EQ(fdtest_mappings(test_file(RPC_PREFIX)), 0);
	printf("0x%" PRIx64 ": %" PRIu64 " calls of %" PRIu32 " clients, %" PRIu32 " servers\n",
		seed, rpcstorm_draw.sh->ended, rpcstorm_draw.sh->lives, rpcstorm_draw.sh->up);
}

int main(int argc, char **argv)
{
	return storm_main(argc, argv, rpcstorm_seed);
}

#endif
