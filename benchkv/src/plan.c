/* SPDX-License-Identifier: MIT */
#include "plan.h"

#include <stdlib.h>

#include "base/underhca.h"

#include "backend.h"
#include "check.h"
#include "node.h"
#include "values.h"

/* Prints the daemon that has the endpoint for each rank. */
static void print_owners(const struct node *n, FILE *out)
{
	if (!n->o->backend->owned || n->ranks == 1)
		return;
	fprintf(out, "  endpoints by daemon:");
	for (uint32_t r = 0; r < n->ranks; r++) {
		if (r != n->rank)
			fprintf(out, " d%u=r%u", node_owner(n, r), r);
	}
	fputc('\n', out);
}

static const char *why_device(const struct node *n)
{
	if (!n->device)
		return "one rank needs none";
	if (n->o->device)
		return "as given";
	return underhca_is_software() ?
		       "no mlx5 hardware was found, so it is the software HCA's first device" :
		       "the first mlx5 device";
}

static void print_network(const struct node *n, FILE *out)
{
	const struct backend *b = n->o->backend;

	fprintf(out, "  device %s, endpoints %u, ring size %u bytes\n",
		n->device ? n->device : "none", b->endpoints(n), n->ring_size);
	fprintf(out, "    device: %s\n    endpoints: %s\n", why_device(n),
		n->ranks > 1 ? b->why_endpoints : "there is no other rank");
	if (n->ring_size && b->copyrpc) {
		char why[128];

		node_explain_ring(n->o, why, sizeof(why));
		fprintf(out, "    ring size: %s\n", why);
	}
	print_owners(n, out);
}

static void print_control(const struct node *n, FILE *out)
{
	char name[CONTROL_NAME_MAX], why[256];

	if (!n->o->backend->owned)
		return;
	control_name(&n->control, name);
	control_explain(&n->control, &n->origin, why, sizeof(why));
	fprintf(out, "  control %s: %s\n", name, why);
}

static void print_threads(const struct node *n, FILE *out)
{
	const struct options *o = n->o;
	uint32_t threads = o->daemons + o->clients;
	char why[256];

	fprintf(out, "  threads %u: main, %u daemons, %u clients\n", 1 + threads, o->daemons,
		o->clients);
	fprintf(out, "  threads on processing units:");
	if (topo_unit(n->topo, 0) < 0)
		fprintf(out, " not pinned, %u units for all", topo_units(n->topo));
	for (uint32_t i = 0; i < threads && topo_unit(n->topo, i) >= 0; i++)
		fprintf(out, " %s%u=%d", i < o->daemons ? "d" : "c",
			i < o->daemons ? i : i - o->daemons, topo_unit(n->topo, i));
	topo_explain(n->topo, why, sizeof(why));
	fprintf(out, "\n    units: %s\n", o->pin ? why : "--pin no");
}

static double mib(uint64_t bytes)
{
	return (double)bytes / (1 << 20);
}

static void print_memory(const struct node *n, FILE *out)
{
	const struct options *o = n->o;
	uint64_t endpoints = o->backend->copyrpc ? o->backend->endpoints(n) : 0;
	uint64_t rings = 2 * endpoints * n->ring_size;
	uint64_t keys = o->daemons * store_bytes(node_expected_keys(n));
	uint64_t range = o->load.key_range;
	uint64_t values = o->daemons * values_shelf_bytes(&o->sizes, node_expected_keys(n)) +
			  values_slots_bytes(&o->sizes, o->clients, o->queue_depth);
	uint64_t clients = o->clients * check_bytes(range, n->ranks * o->clients, o->queue_depth) +
			   (o->load.rmw           ? rmw_known_bytes(range) :
				   o->clients > 1 ? board_bytes(history_keys(range)) :
						    0);

	fprintf(out, "  memory %.1f MiB: rings %.1f, keys %.1f, clients' checks %.1f",
		mib(rings + keys + clients + values), mib(rings), mib(keys), mib(clients));
	if (o->sizes.parts)
		fprintf(out, ", values %.1f", mib(values));
	fputc('\n', out);
	fprintf(out,
		"    rings: two for each endpoint; keys: %llu expected in each of %u shards%s\n",
		(unsigned long long)node_expected_keys(n), o->daemons,
		o->preload ? "" : "; the memory grows as keys are put");
}

static void print_all(const struct node *n, FILE *out)
{
	const struct options *o = n->o;
	char control[CONTROL_NAME_MAX];

	control_name(&n->control, control);
	fprintf(out, "%s: rank %u of %u: %u daemons, %u clients, queue depth %u, control %s\n",
		o->backend->name, n->rank, n->ranks, o->daemons, o->clients, o->queue_depth,
		control);
	print_network(n, out);
	print_control(n, out);
	print_threads(n, out);
	print_memory(n, out);
}

void plan_print(const struct node *n, FILE *out)
{
	size_t len = 0;
	char *text = NULL;
	FILE *whole = open_memstream(&text, &len);

	if (!whole) {
		print_all(n, out);
		return;
	}
	print_all(n, whole);
	fclose(whole);
	fwrite(text, 1, len, out);
	free(text);
}
