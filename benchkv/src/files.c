/* SPDX-License-Identifier: MIT */
#include "files.h"

#include <errno.h>
#include <string.h>

const struct file_kind file_kinds[FILES] = {
	[FILE_JSON] = {"--json", false},
	[FILE_HGRM] = {"--hgrm", false},
	[FILE_SERIES] = {"--series", false},
	[FILE_TRACE] = {"--trace", true},
	[FILE_DECISIONS] = {"--decisions", true},
};

void file_name(const struct options *o, enum file f, uint32_t rank, char name[FILE_NAME_MAX])
{
	const char *file = o->files[f];

	if (file_kinds[f].of_each_rank)
		snprintf(name, FILE_NAME_MAX, "%.*s.%u", FILE_NAME_MAX - 12, file ? file : "",
			rank);
	else
		snprintf(name, FILE_NAME_MAX, "%s", file ? file : "of rank 0");
}

int file_open(const struct options *o, enum file f, uint32_t rank, FILE **out_p)
{
	char name[FILE_NAME_MAX];

	if (!o->files[f])
		return 0;
	file_name(o, f, rank, name);
	*out_p = f == FILE_JSON && !strcmp(name, "-") ? stdout : fopen(name, "w");
	return *out_p ? 0 : -errno;
}

int file_close(FILE **out_p)
{
	FILE *out = *out_p;
	int err = out && ferror(out) ? (errno ? -errno : -EIO) : 0;

	*out_p = NULL;
	if (out && out != stdout && fclose(out) && !err)
		err = -errno;
	return err;
}
