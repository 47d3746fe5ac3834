/* SPDX-License-Identifier: MIT */
#include "meet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "hello.h"
#include "job.h"
#include "machine.h"

#define KEY_HELLO "hello"
#define MEASURE_NS (15 * NSEC_PER_MSEC) /* time to measure each of three figures at the start */

static const char *const bases[BASES] = {
	[BY_DEFAULT] = "the defaults; one rank sends nothing",
	[NOT_MEASURED] = "the defaults; a dry run does not measure as a run does",
	[FROM_FILE] = "from the machine file",
	[MEASURED] = "measured by rank 0",
};

int job_cannot_write(struct job *j, const char *what, const char *file, int err)
{
	snprintf(j->why, sizeof(j->why), "%s '%.200s': %s: give an output that can be written",
		what, file, strerror(-err));
	return err;
}

int job_refuse(struct job *j, int err)
{
	j->status = JOB_USAGE;
	return err;
}

int job_fence(struct job *j)
{
	return launch_meet(j->l, j->o->timeout_ns, j->why, sizeof(j->why));
}

int job_cannot_file(struct job *j, enum file f, uint32_t rank, int err)
{
	char name[FILE_NAME_MAX];

	file_name(j->o, f, rank, name);
	return job_cannot_write(j, file_kinds[f].option, name, err);
}

/* Rank 0 prints a line about the first rank that has another MTU. */
static void say_mtu(struct job *j, const struct hello *first, const struct hello *theirs,
	uint32_t rank)
{
	char text[WHY_MAX];

	if (j->l->rank || j->mtu_said ||
		!hello_mtu_differs(first, theirs, rank, text, sizeof(text)))
		return;
	j->mtu_said = true;
	fprintf(stderr, "benchkv: %s\n", text);
}

/*
 * Checks a rank's message. Every rank compares all ranks with rank 0, so all find the same error.
 */
static int judge(struct job *j, const struct hello *first, const struct hello *mine,
	const struct hello *theirs, uint32_t rank)
{
	int err = hello_fits(first, theirs, rank, j->why, sizeof(j->why));

	if (err && theirs->port_errno == ENODEV && rank == j->l->rank)
		snprintf(j->why, sizeof(j->why), "%s", j->no_device); /* more exact than `why` */
	if (err)
		return job_refuse(j, err);
	say_mtu(j, first, theirs, rank);
	for (enum file f = 0; f < FILES; f++) {
		if (theirs->file_errno[f])
			return job_refuse(j,
				job_cannot_file(j, f, rank, -(int)theirs->file_errno[f]));
	}
	if (theirs->machine_errno) {
		if (rank != j->l->rank) /* rank 0 has a more exact message already */
			snprintf(j->why, sizeof(j->why), "rank %u cannot use the machine file",
				rank);
		return job_refuse(j, -(int)theirs->machine_errno);
	}
	j->sharers += theirs->cores == mine->cores;
	j->index += theirs->cores == mine->cores && rank < j->l->rank;
	return 0;
}

static int get_hello(struct job *j, uint32_t rank, struct hello *theirs)
{
	void *data;
	size_t len;
	int err = launch_get(j->l, rank, KEY_HELLO, 0, j->o->timeout_ns, &data, &len);

	if (err) {
		snprintf(j->why, sizeof(j->why), "rank %u is not benchkv, or does not answer",
			rank);
		return err;
	}
	err = hello_read(data, len, rank, theirs, j->why, sizeof(j->why));
	free(data);
	return err ? job_refuse(j, err) : 0;
}

/* Reads and checks the message of a rank. @first: the message of rank 0, which is read first. */
static int hear(struct job *j, const struct hello *mine, uint32_t rank, struct hello *first)
{
	struct hello theirs;
	int err = get_hello(j, rank, &theirs);

	if (err)
		return err;
	if (!rank)
		*first = theirs;
	memcpy(j->hosts[rank], theirs.id.host, HOST_NAME_SIZE);
	if (!rank && j->node.control.derive) {
		j->node.control.window = (uint32_t)theirs.window;
		j->node.control.full = (uint32_t)theirs.full;
		j->node.origin = (struct control_origin){.source = bases[theirs.basis],
			.times = theirs.times,
			.under_way = j->node.origin.under_way};
	}
	return judge(j, first, mine, &theirs, rank);
}

static int hear_all(struct job *j, const struct hello *mine)
{
	struct hello first;
	int err = 0;

	for (uint32_t i = 0; !err && i < j->l->size; i++)
		err = hear(j, mine, i, &first);
	return err;
}

/*
 * Opens the files before the ranks meet, so that all ranks learn of an error before the first run.
 */
static void open_files(struct job *j, struct hello *mine)
{
	for (enum file f = 0; f < FILES; f++) {
		bool writes = file_kinds[f].of_each_rank ? j->l->size > 1 : !j->l->rank;

		if (writes && !j->o->dry_run)
			mine->file_errno[f] =
				(uint64_t)-file_open(j->o, f, j->l->rank, &j->files[f]);
	}
}

/* Calls that the context of a daemon with endpoints can have under way. */
static double calls_under_way(const struct options *o)
{
	return (double)o->clients * o->queue_depth / o->net_daemons;
}

/*
 * Derives K and B from the machine file, or from figures that rank 0 measures while the other ranks
 * wait.
 */
static int derive_control(struct job *j, const char *device, struct hello *mine)
{
	struct control_spec *spec = &j->node.control;
	struct machine m = {.name = ""};
	int err = 0;

	/* A file that cannot be read is an error even if the job does not need its values. */
	if (j->o->machine && !j->l->rank)
		err = machine_load(j->o->machine, &m, j->why, sizeof(j->why));
	*spec = j->o->control;
	mine->basis = BY_DEFAULT;
	if (err) {
		mine->machine_errno = (uint64_t)-err; /* judge() refuses it in all ranks */
		return 0;
	}
	if (j->l->rank || j->l->alone || j->l->size == 1 || !spec->derive || !device) {
		/* The control is that of the options, or comes from rank 0. */
	} else if (j->o->machine) {
		struct control_origin from;

		machine_derive(&m, spec, &from);
		mine->basis = FROM_FILE;
		mine->times = from.times;
	} else if (j->o->dry_run) {
		mine->basis = NOT_MEASURED;
	} else {
		err = measure(device, MEASURE_NS, &j->measured, j->why, sizeof(j->why));
		if (err)
			return err;
		control_derive(spec, &j->measured);
		mine->basis = MEASURED;
		mine->times = j->measured;
	}
	control_share(spec, calls_under_way(j->o));
	mine->window = spec->window;
	mine->full = spec->full;
	return 0;
}

static void watch_lifeline(void *arg)
{
	struct job *j = arg;

	lifeline_look(j->lifeline);
}

/* Describes the port, or its error, for the other ranks. */
static void describe_port(const struct job *j, const char *device, struct hello *mine)
{
	const char *name = device ? device : j->o->device ? j->o->device : "";

	snprintf(mine->device, sizeof(mine->device), "%s", name);
	if (j->l->size > 1)
		mine->port_errno = device ? (uint64_t)-hca_query(device, &mine->port) : ENODEV;
}

int job_meet(struct job *j, const char *device)
{
	struct hello mine = {.window = 1, /* valid values for a control without K and B */
		.full = 1,
		.cores = topo_cores_id(j->node.topo)};
	int err;

	hello_sign(&mine, j->l->host);
	options_fields(j->o, mine.options);
	open_files(j, &mine);
	describe_port(j, device, &mine);
	err = mine.port_errno ? 0 : derive_control(j, device, &mine);
	if (err)
		return err;
	j->hosts = calloc(j->l->size, sizeof(*j->hosts));
	if (!j->hosts)
		return -ENOMEM;
	memcpy(j->hosts[j->l->rank], mine.id.host, sizeof(mine.id.host));
	j->node.origin.under_way = calls_under_way(j->o);
	if (j->l->alone) {
		j->node.origin.source = bases[BY_DEFAULT];
		return judge(j, &mine, &mine, &mine, 0);
	}
	err = launch_put(j->l, KEY_HELLO, 0, &mine, sizeof(mine));
	if (!err)
		err = lifeline_open(j->l, &j->lifeline);
	if (!err)
		err = job_fence(j);
	if (!err)
		err = hear_all(j, &mine);
	if (!err && !j->o->dry_run) {
		lifeline_connect(j->lifeline);
		j->l->watch_arg = j;
		j->l->watch = watch_lifeline;
	}
	return err;
}

int job_plan(struct job *j, const char *device)
{
	struct node *n = &j->node;
	uint64_t clients = (uint64_t)j->l->size * j->o->clients;

	if (clients > KV_MAX_WRITERS) {
		snprintf(j->why, sizeof(j->why), "%llu clients in all: at most %u are possible",
			(unsigned long long)clients, KV_MAX_WRITERS);
		return job_refuse(j, -EINVAL);
	}
	if (workload_share(j->o->ops, 0, (uint32_t)clients) > KV_MAX_OPS) {
		snprintf(j->why, sizeof(j->why),
			"--ops %llu is more than %llu for each client: give less, or more clients",
			(unsigned long long)j->o->ops, KV_MAX_OPS);
		return job_refuse(j, -EINVAL);
	}
	n->nap_ns = node_nap_ns(j->sharers * (j->o->daemons + j->o->clients), topo_units(n->topo));
	n->o = j->o;
	n->launch = j->l;
	n->rank = j->l->rank;
	n->ranks = j->l->size;
	if (n->ranks > 1) {
		n->ring_size = node_ring_size(j->o);
		n->device = device;
	}
	if (j->o->pin)
		topo_plan(n->topo, n->device, j->index, j->sharers, j->o->daemons + j->o->clients);
	return 0;
}
