/* SPDX-License-Identifier: MIT */
/* Compares the clairvoyant bound with brute force, and the simulated rails with computed times. */
#include <errno.h>
#include <math.h>

#include "base/rand.h"
#include "support/test.h"
#include "bound.h"
#include "net.h"

static bool near(double a, double b)
{
	return fabs(a - b) <= 1e-6 * fmax(fabs(b), 1);
}

/* Makes rails of constant rates that share no link. */
static void constant(struct bound *b, struct bound_step *steps, uint32_t n, const double *rates,
	const double *latencies)
{
	*b = (struct bound){.n_rails = n};
	for (uint32_t i = 0; i < n; i++) {
		steps[i] = (struct bound_step){0, rates[i]};
		b->rails[i] = (struct bound_rail){
			.latency = latencies[i],
			.group = BOUND_NO_GROUP,
			.steps = &steps[i],
			.n_steps = 1,
		};
	}
}

/*
 * With latencies l in ascending order, rates c and B bytes: min over k of (B + sum c l) / sum c;
 * sums over the first k rails.
 */
static double closed_form(uint32_t n, const double *rates, const double *latencies, double bytes)
{
	double best = INFINITY, above = bytes, below = 0;

	for (uint32_t k = 0; k < n; k++) {
		above += rates[k] * latencies[k];
		below += rates[k];
		best = fmin(best, above / below);
	}
	return best;
}

TEST(agrees_with_the_closed_form)
{
	uint64_t seed = test_seed();

	for (int i = 0; i < 2000; i++) {
		double rates[5], latencies[5], at = 0, bytes = 1 + rand_unit(&seed) * 1000;
		struct bound_step steps[5];
		struct bound b;

		for (int r = 0; r < 5; r++) {
			rates[r] = .1 + rand_unit(&seed) * 10;
			latencies[r] = at += rand_unit(&seed) * 20;
		}
		constant(&b, steps, 5, rates, latencies);
		CHECK(near(bound_time(&b, 0, bytes), closed_form(5, rates, latencies, bytes)));
		CHECK(near(bound_time(&b, 123, bytes), bound_time(&b, 0, bytes)));
	}
}

/* Tries all ways to split n units over three rails. Returns the shortest time. */
static double best_split(const double *rates, const double *latencies, int n)
{
	double best = INFINITY;

	for (int x = 0; x <= n; x++) {
		for (int y = 0; x + y <= n; y++) {
			int units[3] = {x, y, n - x - y};
			double last = 0;

			for (int r = 0; r < 3; r++) {
				if (units[r])
					last = fmax(last, latencies[r] + units[r] / rates[r]);
			}
			best = fmin(best, last);
		}
	}
	return best;
}

TEST(no_split_is_better)
{
	uint64_t seed = test_seed();

	for (int i = 0; i < 300; i++) {
		double rates[3], latencies[3], slowest = INFINITY, best, t;
		struct bound_step steps[3];
		struct bound b;

		for (int r = 0; r < 3; r++) {
			rates[r] = .5 + rand_unit(&seed) * 5;
			latencies[r] = rand_unit(&seed) * 10;
			slowest = fmin(slowest, rates[r]);
		}
		constant(&b, steps, 3, rates, latencies);
		best = best_split(rates, latencies, 30);
		t = bound_time(&b, 0, 30);
		CHECK(t <= best * (1 + 1e-9));
		CHECK(best <= t + 1 / slowest); /* and a split of whole units comes near */
	}
}

#define SLOTS 8
#define RAILS 4

/* Integer rates that change at integer times; rails 1 to 3 share a link; rails 2, 3 are remote. */
struct slotted {
	int rate[RAILS][SLOTS], latency[RAILS], link;
};

/*
 * Tries all ways to use a time slot. Writes the most bytes that it can carry, and how few of these
 * can be on remote rails.
 */
static void best_slot(const struct slotted *s, int slot, int until, int *most_p, int *remote_p)
{
	int top[RAILS], most = -1, remote = 0;

	for (int r = 0; r < RAILS; r++)
		top[r] = slot < until - s->latency[r] ? s->rate[r][slot] : 0;
	for (int x = 0; x <= top[1]; x++) {
		for (int y = 0; y <= top[2]; y++) {
			for (int z = 0; z <= top[3]; z++) {
				int all = top[0] + x + y + z;

				if (x + y + z > s->link)
					continue;
				if (all > most || (all == most && y + z < remote)) {
					most = all;
					remote = y + z;
				}
			}
		}
	}
	*most_p = most;
	*remote_p = remote;
}

static void bound_of(const struct slotted *s, struct bound *b,
	struct bound_step steps[RAILS][SLOTS])
{
	*b = (struct bound){.n_rails = RAILS, .group_rates = {s->link}};
	for (int r = 0; r < RAILS; r++) {
		for (int i = 0; i < SLOTS; i++)
			steps[r][i] = (struct bound_step){i, s->rate[r][i]};
		b->rails[r] = (struct bound_rail){
			.latency = s->latency[r],
			.group = r ? 0 : BOUND_NO_GROUP,
			.remote = r >= 2,
			.steps = steps[r],
			.n_steps = SLOTS,
		};
	}
}

TEST(no_schedule_carries_more)
{
	uint64_t seed = test_seed();

	for (int i = 0; i < 300; i++) {
		struct bound_step steps[RAILS][SLOTS];
		struct slotted s = {.link = 1 + (int)(test_rand(&seed) % 8)};
		struct bound b;

		for (int r = 0; r < RAILS; r++) {
			s.latency[r] = (int)(test_rand(&seed) % 3);
			for (int t = 0; t < SLOTS; t++)
				s.rate[r][t] = (int)(test_rand(&seed) % 5);
		}
		bound_of(&s, &b, steps);
		for (int until = 1; until <= SLOTS; until++) {
			int all = 0, remote = 0, most, least;
			double got_remote;

			for (int t = 0; t < until; t++) {
				best_slot(&s, t, until, &most, &least);
				all += most;
				remote += least;
			}
			CHECK(near(bound_bytes(&b, 0, until, &got_remote), all));
			CHECK(near(got_remote, remote));
			if (all)
				CHECK(bound_time(&b, 0, all) <= until * (1 + 1e-6));
			CHECK(bound_time(&b, 0, all + .01) > until);
		}
	}
}

TEST(a_rail_that_dies_carries_no_more)
{
	const struct bound_step steps[] = {{0, 10}, {5, 0}};
	struct bound b = {
		.n_rails = 1,
		.rails = {{.latency = 1, .group = BOUND_NO_GROUP, .steps = steps, .n_steps = 2}},
	};

	CHECK(near(bound_time(&b, 0, 50), 6));
	CHECK(isinf(bound_time(&b, 0, 51)));
	CHECK(bound_rate(&b, 2, INFINITY) == 10 && bound_rate(&b, 6, INFINITY) == 0);
}

/* The ends of the slices of a run. */
struct ends {
	double at[32];
	uint64_t token[32];
	int status[32];
	uint32_t n;
	struct net *net;
};

static void on_sent(void *arg, uint32_t rail, const struct net_item *item)
{
}

static void on_done(void *arg, uint32_t rail, const struct net_item *item, int status)
{
	struct ends *e = arg;

	e->at[e->n] = e->net->now;
	e->token[e->n] = item->token;
	e->status[e->n++] = status;
}

static struct net *net_of(struct ends *e, uint32_t rails, double link)
{
	static struct net n;

	memset(&n, 0, sizeof(n));
	*e = (struct ends){.net = &n};
	n.n_rails = rails;
	n.group_rates[0] = link;
	n.on_sent = on_sent;
	n.on_done = on_done;
	n.arg = e;
	for (uint32_t r = 0; r < rails; r++)
		n.rails[r] = (struct net_rail){.rate = 10,
			.line_rate = 10,
			.latency = 100,
			.group = link > 0 ? 0 : BOUND_NO_GROUP};
	return &n;
}

static void run_net(struct net *n)
{
	double at;

	while (isfinite(at = net_next(n)))
		net_advance(n, at);
}

TEST(rails_serve_in_order)
{
	struct ends e;
	struct net *n = net_of(&e, 1, 0);

	n->rails[0].cost_ns = 5;
	CHECK_EQ(net_post(n, 0, 7, 1000), 0);
	CHECK_EQ(net_post(n, 0, 8, 500), 0);
	CHECK_EQ(net_outstanding(n, 0), 1500);
	run_net(n);
	CHECK_EQ(e.n, 2);
	CHECK(e.token[0] == 7 && near(e.at[0], 5 + 100 + 100));
	CHECK(e.token[1] == 8 && near(e.at[1], 5 + 100 + 5 + 50 + 100));
}

TEST(shared_links_are_shared)
{
	struct ends e;
	struct net *n = net_of(&e, 2, 12);

	net_post(n, 0, 1, 1000);
	net_post(n, 1, 2, 1000);
	run_net(n);
	/* Both rails send at 6 bytes per ns. */
	CHECK(near(e.at[0], 1000 / 6. + 100) && near(e.at[1], 1000 / 6. + 100));
	/*
	 * With NET_FIFO rail 0 sends at 10 bytes per ns until 100 ns. Rail 1 sends at 2 bytes per
	 * ns until then, and at 10 afterwards.
	 */
	n = net_of(&e, 2, 12);
	n->sharing = NET_FIFO;
	net_post(n, 0, 1, 1000);
	net_post(n, 1, 2, 1000);
	run_net(n);
	CHECK(near(e.at[0], 200));
	CHECK(near(e.at[1], 100 + (1000 - 200) / 10. + 100));
}

TEST(faults_are_seen)
{
	struct ends e;
	struct net *n = net_of(&e, 1, 0);

	net_post(n, 0, 1, 1000);
	net_post(n, 0, 2, 1000);
	net_advance(n, net_next(n)); /* the first slice has been sent */
	net_set_fault(n, 0, NET_SILENT);
	CHECK(isinf(net_next(n)));
	CHECK_EQ(net_fence(n, 0), 1000); /* bytes of the first slice; the second has not begun */
	CHECK_EQ(net_outstanding(n, 0), 0);
	net_set_fault(n, 0, NET_WELL);
	net_post(n, 0, 3, 1000);
	net_set_fault(n, 0, NET_FLUSH);
	net_post(n, 0, 4, 1000);
	run_net(n);
	CHECK(e.n == 2 && e.token[0] == 3 && e.token[1] == 4);
	CHECK(e.status[0] == -EIO && e.status[1] == -EIO);
}
