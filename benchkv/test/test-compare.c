/* SPDX-License-Identifier: MIT */
/* A comparison without memory for the reports. The function replaces that of libjansson. */
#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/test.h"
#include "compare.h"
#include "job.h"
#include "options.h"

int __wrap_json_array_append_new(json_t *array, json_t *value);

int __wrap_json_array_append_new(json_t *array, json_t *value)
{
	json_decref(value);
	return -1;
}

/* The status is not that of a bad file, and one line says what was the matter. */
TEST(no_memory)
{
	char name[] = "/tmp/test-compare.XXXXXX", *said = NULL;
	struct options o = {.sides = {name, name}};
	FILE *file = fdopen(mkstemp(name), "w"), *saved = stderr;
	size_t len;
	int status;

	fputs("{\"ops_per_s\": 1, \"errors\": 0}\n", file);
	fclose(file);
	stderr = open_memstream(&said, &len);
	status = compare_command(&o);
	fclose(stderr);
	stderr = saved;
	unlink(name);
	CHECK_EQ(status, JOB_ERROR);
	CHECK(strstr(said, "Cannot allocate memory\n") == strchr(said, '\n') - 22);
	free(said);
}
