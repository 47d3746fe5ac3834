/* SPDX-License-Identifier: MIT */
/* Tests that each loop makes its calls in the order that its name promises, with fake functions. */
#include <sys/syscall.h>

#include "../src/bench.h"
#include "support/test.h"

#define DEPTH 40

/*
 * Numbers of requests that the server can still take, of requests that it has taken and not
 * answered, and of calls of poll and wait. asked[] has the first letter of each event: poll, take
 * (a request), answer, wait, call, response, flush.
 */
static uint32_t waiting, taken, polls, waits;
static char asked[4096];
static uint32_t n_asked;
static struct rpcbench_run run;

static void note(char what)
{
	CHECK(n_asked + 1 < sizeof(asked));
	asked[n_asked++] = what;
	asked[n_asked] = 0;
}

static void begin(uint32_t requests)
{
	waiting = requests;
	taken = polls = waits = n_asked = 0;
	asked[0] = 0;
	memset(&run, 0, sizeof(run));
	run.active = 1;
}

static void fake_poll(struct rpcbench_server *s)
{
	polls++;
	note('p');
}

static int fake_recv(struct rpcbench_server *s, struct rpcbench_req *r, uint64_t *req, uint32_t len)
{
	if (!waiting)
		return 0;
	r->id = waiting--;
	r->client = 0;
	rpcbench_request(req, len, r->id, 0);
	taken++;
	note('t');
	return 1;
}

static void fake_reply(struct rpcbench_server *s, const struct rpcbench_req *r,
	const uint64_t *resp, uint32_t len)
{
	struct rpcbench_client c = {.index = 0};

	rpcbench_response(&c, r->id, resp, len);
	CHECK_EQ(c.wrong, 0);
	CHECK(taken > 0);
	taken--;
	note('a');
}

static void fake_end(struct rpcbench_server *s)
{
	CHECK_EQ(taken, 0);
}

static void fake_wait(struct rpcbench_server *s, uint64_t ns)
{
	waits++;
	note('w');
	run.finished = waiting == 0;
}

static const struct rpcbench_server_ops server_ops = {fake_poll, fake_recv, fake_reply, fake_end,
	fake_wait, NULL};

static int turn(enum rpcbench_loop loop)
{
	struct rpcbench_server s = {.run = &run};

	return rpcbench_serve_turn(&s, loop, RPCBENCH_REQ, RPCBENCH_RESP, &server_ops);
}

TEST(servers)
{
	begin(3);
	CHECK_EQ(turn(RPCBENCH_LOOP_CALLBACK), 3);
	CHECK(!strcmp(asked, "ptatata"));
	begin(2);
	CHECK_EQ(turn(RPCBENCH_LOOP_SINGLE), 1);
	CHECK_EQ(turn(RPCBENCH_LOOP_SINGLE), 1);
	CHECK_EQ(turn(RPCBENCH_LOOP_SINGLE), 0);
	CHECK(!strcmp(asked, "ptaptap"));
	begin(3);
	CHECK_EQ(turn(RPCBENCH_LOOP_MANY), 3);
	CHECK(!strcmp(asked, "ptttaaa"));
	begin(DEPTH);
	CHECK_EQ(turn(RPCBENCH_LOOP_MANY), 32);
	CHECK_EQ(turn(RPCBENCH_LOOP_MANY), DEPTH - 32);
}

/* A side that finds nothing pauses 63 times and then waits; the blocking loop waits immediately. */
TEST(servers_wait)
{
	struct rpcbench_server s = {.run = &run};

	begin(0);
	rpcbench_server_loop(&s, RPCBENCH_LOOP_CALLBACK, RPCBENCH_REQ, RPCBENCH_RESP, &server_ops);
	CHECK_EQ(polls, 64);
	CHECK_EQ(waits, 1);
	begin(2);
	rpcbench_server_loop(&s, RPCBENCH_LOOP_BLOCKING, RPCBENCH_REQ, RPCBENCH_RESP, &server_ops);
	CHECK(!strcmp(asked, "wtataw"));
}

/* A step runs turns until one finds nothing; the blocking loop waits in each. */
TEST(server_steps)
{
	struct rpcbench_server s = {.run = &run};

	begin(2);
	run.loop = RPCBENCH_LOOP_SINGLE;
	rpcbench_server_step(&s, RPCBENCH_REQ, RPCBENCH_RESP, &server_ops);
	CHECK(!strcmp(asked, "ptaptap"));
	begin(2);
	run.loop = RPCBENCH_LOOP_BLOCKING;
	rpcbench_server_step(&s, RPCBENCH_REQ, RPCBENCH_RESP, &server_ops);
	CHECK(!strcmp(asked, "wtataw"));
}

/* ---- clients ---- */

static uint64_t queue[DEPTH];
static uint32_t queued;

static int client_call(struct rpcbench_client *c, uint64_t token, const void *req, uint32_t len)
{
	CHECK(queued < DEPTH);
	queue[queued++] = token;
	note('c');
	return 0;
}

/* Passes on two responses per poll, those of the last calls first. */
static int client_poll(struct rpcbench_client *c)
{
	int n = 0;

	note('p');
	for (; n < 2 && queued; n++) {
		uint64_t req[RPCBENCH_WORDS], resp[RPCBENCH_WORDS], token = queue[--queued];

		rpcbench_request(req, RPCBENCH_REQ, token, c->index);
		rpcbench_answer(req, RPCBENCH_REQ, resp, RPCBENCH_RESP);
		note('r');
		rpcbench_response(c, token, resp, RPCBENCH_RESP);
		rpcbench_again(c, client_call);
	}
	return n;
}

static void client_flush(struct rpcbench_client *c)
{
	note('f');
}

static bool client_wait(struct rpcbench_client *c, uint64_t ns)
{
	note('w');
	return true;
}

static const struct rpcbench_client_ops client_ops = {client_call, client_poll, client_flush,
	client_wait};

TEST(clients)
{
	struct rpcbench_client c = {.run = &run};

	begin(0);
	rpcbench_fill(&c, 3, RPCBENCH_REQ, &client_ops);
	c.again = RPCBENCH_REQ;
	CHECK_EQ(rpcbench_turn(&c, RPCBENCH_LOOP_CALLBACK, &client_ops), 2);
	CHECK(!strcmp(asked, "cccfprcrc"));
	CHECK_EQ(rpcbench_inflight(&c), 3);
	begin(0);
	c.again = 0;
	CHECK_EQ(rpcbench_turn(&c, RPCBENCH_LOOP_REFILL, &client_ops), 3);
	CHECK(!strcmp(asked, "prrprp"));
	CHECK_EQ(rpcbench_inflight(&c), 0);
	CHECK_EQ(c.wrong, 0);
}

/* A step makes calls up to the depth and runs a turn. If last_calls is set, it makes no calls. */
TEST(client_steps)
{
	struct rpcbench_config cfg = {.queue_depth = 3};
	struct rpcbench_client c = {.run = &run, .cfg = &cfg};

	begin(0);
	rpcbench_client_step(&c, RPCBENCH_REQ, &client_ops);
	CHECK(!strcmp(asked, "cccfprcrc"));
	run.last_calls = true;
	rpcbench_client_step(&c, RPCBENCH_REQ, &client_ops);
	CHECK(!strcmp(asked, "cccfprcrcprr"));
	run.loop = RPCBENCH_LOOP_BLOCKING;
	rpcbench_client_step(&c, RPCBENCH_REQ, &client_ops);
	rpcbench_client_step(&c, RPCBENCH_REQ, &client_ops);
	CHECK(!strcmp(asked, "cccfprcrcprrprpw"));
	CHECK_EQ(c.wrong, 0);
}

/* ---- steps of all sides ---- */

static uint64_t answers; /* number of answers that a client gets */

/* Keeps two calls in flight up to the last calls. */
static void answering(struct rpcbench_client *c)
{
	if (!c->run->last_calls && rpcbench_inflight(c) < 2)
		c->sent++;
	else
		c->done += c->done < answers && rpcbench_inflight(c);
}

/* A failed CHECK calls exit(), and rpcbench_lost() calls _exit(1). */
static void check_failed(void)
{
	_exit(2);
}

/* Runs @fn in a child. Returns its exit status. */
static int in_child(void (*fn)(const void *arg), const void *arg)
{
	pid_t pid = test_fork();

	if (!pid) {
		alarm(300); /* ends a loop that waits for ever */
		CHECK_EQ(atexit(check_failed), 0);
		CHECK(freopen("/dev/null", "w", stderr));
		begin(0);
		fn(arg);
		_exit(0);
	}
	return test_reap(pid);
}

static void step(const void *arg)
{
	static const struct rpcbench_impl impl = {.name = "fake", .client = answering};
	static struct rpcbench_side side = {.impl = &impl};

	run.active = 2;
	side.client[0].run = side.client[1].run = &run;
	rpcbench_step(&side, &run, 10);
	CHECK_EQ(side.client[0].done + side.client[1].done, run.active * side.client[0].sent);
}

/*
 * A missing response ends the program, whether it is missed between calls or after the last call.
 */
TEST(lost_responses)
{
	answers = UINT64_MAX;
	CHECK_EQ(in_child(step, NULL), 0);
	for (answers = 0; answers < 6; answers++) /* at 5, only the last calls get none */
		CHECK_EQ(in_child(step, NULL), 1);
}

/* ---- windows ---- */

static uint64_t
	virtual_ns; /* the time of the clock; each reading adds a second; 0: the real time */

int clock_gettime(clockid_t id, struct timespec *ts)
{
	if (!virtual_ns)
		return (int)syscall(SYS_clock_gettime, id, ts);
	*ts = clock_timespec(virtual_ns += NSEC_PER_SEC);
	return 0;
}

static int poll_in_vain(struct rpcbench_client *c)
{
	return 0;
}

static bool wait_in_vain(struct rpcbench_client *c, uint64_t ns)
{
	return false;
}

struct window {
	enum rpcbench_kind kind;
	enum rpcbench_loop loop;
};

/* A client's window in which no response comes. */
static void window(const void *arg)
{
	static const struct rpcbench_client_ops ops = {client_call, poll_in_vain, client_flush,
		wait_in_vain};
	const struct window *w = arg;
	struct rpcbench_config cfg = {.queue_depth = 1};
	struct rpcbench_client c = {.run = &run, .cfg = &cfg};

	virtual_ns = NSEC_PER_SEC;
	run.kind = w->kind;
	run.loop = w->loop;
	run.wakes = 1;
	rpcbench_client_body(&c, RPCBENCH_REQ, &ops);
}

static int turn_in_vain(struct rpcbench_client *c, bool calls)
{
	c->sent += calls && !rpcbench_inflight(c);
	return 0;
}

static void mesh(const void *arg)
{
	static const struct rpcbench_impl impl = {.name = "fake", .turn = turn_in_vain};
	struct rpcbench_config cfg = {.queue_depth = 1};
	struct rpcbench_client c = {.run = &run, .cfg = &cfg};

	virtual_ns = NSEC_PER_SEC;
	rpcbench_mesh_window(&impl, &c);
}

/* A window in which no response comes ends the program. */
TEST(lost_windows)
{
	static const struct window windows[] = {{RPCBENCH_LOAD, RPCBENCH_LOOP_CALLBACK},
		{RPCBENCH_LOAD, RPCBENCH_LOOP_BLOCKING}, {RPCBENCH_WAKE, RPCBENCH_LOOP_CALLBACK},
		{RPCBENCH_HOLD, RPCBENCH_LOOP_CALLBACK}};

	for (size_t i = 0; i < ARRAY_SIZE(windows); i++)
		CHECK_EQ(in_child(window, &windows[i]), 1);
	CHECK_EQ(in_child(mesh, NULL), 1);
}

/* ---- a mesh: each call is answered by the caller's next poll ---- */

static uint64_t mesh_req[RPCBENCH_CLIENTS][RPCBENCH_REQ / 8];
static uint32_t mesh_nodes[4], meshes;

static int mesh_setup(const struct rpcbench_config *cfg, struct rpcbench_server *server,
	struct rpcbench_client *clients, void **state_p)
{
	CHECK(meshes < ARRAY_SIZE(mesh_nodes));
	mesh_nodes[meshes++] = cfg->clients;
	return 0;
}

static void mesh_teardown(void *state)
{
}

static int mesh_call(struct rpcbench_client *c, uint64_t token, const void *req, uint32_t len)
{
	memcpy(mesh_req[c->index], req, sizeof(mesh_req[0]));
	return 0;
}

static int mesh_serve(struct rpcbench_client *c, uint32_t most)
{
	return 0;
}

static int mesh_poll(struct rpcbench_client *c)
{
	uint64_t resp[RPCBENCH_RESP / 8];

	if (!rpcbench_inflight(c))
		return 0;
	rpcbench_answer(mesh_req[c->index], RPCBENCH_REQ, resp, RPCBENCH_RESP);
	rpcbench_response(c, c->done, resp, RPCBENCH_RESP);
	return 1;
}

RPCBENCH_MESH(mesh_turn, mesh_call, mesh_serve, mesh_poll)

/* Each number of nodes given to --mesh is measured in a mesh with exactly so many nodes. */
TEST(meshes_have_their_size)
{
	static const struct rpcbench_impl mesh = {"fake", mesh_setup, mesh_teardown,
		.turn = mesh_turn};
	static const struct rpcbench_impl fake = {"fake", mesh_setup, mesh_teardown, .mesh = &mesh};
	char *argv[] = {"bench", "--mesh", "3,5", "--queue-depth", "1", "--step", "10", "--seconds",
		".001", "--peer", "none", NULL};

	CHECK_EQ(rpcbench_main(&fake, NULL, ARRAY_SIZE(argv) - 1, argv), 0);
	CHECK_EQ(meshes, 2);
	CHECK_EQ(mesh_nodes[0], 3);
	CHECK_EQ(mesh_nodes[1], 5);
}
