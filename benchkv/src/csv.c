/* SPDX-License-Identifier: MIT */
#include "csv.h"

#include <errno.h>

const char *csv_option(enum csv_file f)
{
	return f == CSV_TRACE ? "--trace" : "--decisions";
}

const char *csv_value(const struct options *o, enum csv_file f)
{
	return f == CSV_TRACE ? o->trace : o->decisions;
}

void csv_name(const char *file, uint32_t rank, char name[CSV_NAME_MAX])
{
	snprintf(name, CSV_NAME_MAX, "%.*s.%u", CSV_NAME_MAX - 12, file, rank);
}

int csv_open(const char *file, uint32_t rank, FILE **out_p)
{
	char name[CSV_NAME_MAX];
	FILE *out;

	csv_name(file, rank, name);
	out = fopen(name, "w");
	if (!out)
		return -errno;
	*out_p = out;
	return 0;
}

int csv_close(FILE *out)
{
	int err = ferror(out) ? (errno ? -errno : -EIO) : 0;

	if (fclose(out) && !err)
		err = -errno;
	return err;
}
