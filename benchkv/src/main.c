/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/output.h"
#include "base/underhca.h"
#include "compare.h"
#include "hca.h"
#include "measure.h"
#include "job.h"
#include "launch.h"
#include "options.h"
#include "stop.h"

#define WHY_MAX 400
#define PATIENCE_S 10 /* rank 0 has this time to print an error before the other ranks print it */

/*
 * Opens /dev/null for each standard stream that is closed; otherwise the next open() would
 * return the descriptor of that stream. Standard input is opened for writing and the others for
 * reading, so that their use fails.
 */
static int fill_standard_streams(void)
{
	static const int modes[] = {O_WRONLY, O_RDONLY, O_RDONLY};

	for (int fd = 0; fd < 3; fd++) {
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", modes[fd]) != fd)
			return -1;
	}
	return 0;
}

/*
 * Prints an error that usually all ranks have, because they have the same command line. Rank 0
 * prints it at once, and its end makes the launcher end the other ranks. If a rank still runs
 * after PATIENCE_S, rank 0 does not have the error, so this rank prints it.
 */
static int complain(const char *why)
{
	if (launch_environment_rank() > 0)
		sleep(PATIENCE_S);
	fprintf(stderr, "benchkv: %s\n", why);
	return OPTIONS_USAGE;
}

/*
 * Finds the device. Without a device, a process that a launcher has started, or that measures,
 * executes itself again under the software HCA. A single rank needs no device.
 */
static int find_device(const struct options *o, char **argv, char name[HCA_NAME_MAX], char *why,
	int size)
{
	int err = hca_find(o->device, name, why, size);

	if (!err || o->device || (o->does == COMMAND_RUN && launch_environment_rank() < 0))
		return err;
	if (launch_environment_rank() <= 0)
		fprintf(stderr, "benchkv: no mlx5 device: running under the software HCA\n");
	return underhca_again(argv, SOFTHCA_RUN_BUILT, why, size);
}

/* Prints that there is no launcher. With srun but without PMIx each task is a job of its own. */
static void tell_alone(void)
{
	const char *tasks = getenv("SLURM_STEP_NUM_TASKS");
	bool many = tasks && atoi(tasks) > 1;

	fprintf(stderr, "benchkv: no PMIx launcher: running as a single rank%s\n",
		many ? ", as each task of this srun: give srun --mpi=pmix" : "");
}

int main(int argc, char **argv)
{
	char why[WHY_MAX] = "", device[HCA_NAME_MAX];
	struct options o;
	struct launch l;
	int err, status;

	if (fill_standard_streams())
		return JOB_ERROR;
	err = options_parse(argc, argv, &o, why, sizeof(why));
	if (err < 0)
		return complain(why);
	if (err)
		return output_end("benchkv", JOB_OK);
	if (o.does == COMMAND_COMPARE)
		return compare_command(&o);
	if (o.does == COMMAND_PAIR)
		return pair_command(&o);
	err = find_device(&o, argv, device, why, sizeof(why));
	/*
	 * With a launcher other ranks may have the device. Then the job reports this rank's error.
	 */
	if (err && o.device && launch_environment_rank() < 0)
		return complain(why);
	if (o.does == COMMAND_MEASURE)
		return err ? complain(why) : measure_command(&o, device);
	stop_catch_signals();
	if (launch_init(&l)) {
		fprintf(stderr, "benchkv: the launcher of this process does not answer\n");
		return JOB_ERROR;
	}
	if (l.alone)
		tell_alone();
	status = job_run(&o, &l, err ? NULL : device, why);
	launch_fini(&l);
	return status;
}
