/* SPDX-License-Identifier: MIT */
#include "topo/keyvalue.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX 65536

int kv_fail(const struct kv_source *src, const char *fmt, ...)
{
	va_list ap;
	int n = snprintf(src->err, src->errlen, "%s:%u: ", src->name, src->line);

	if (n < 0 || (size_t)n >= src->errlen)
		return -EINVAL;
	va_start(ap, fmt);
	vsnprintf(src->err + n, src->errlen - (size_t)n, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

bool kv_number(const char *value, unsigned long long min, unsigned long long max,
	unsigned long long *out_p)
{
	bool hex = value[0] == '0' && (value[1] == 'x' || value[1] == 'X');
	unsigned long long n;
	char *end;

	if (!isdigit((unsigned char)*value))
		return false; /* strtoull() would accept a sign or spaces */
	errno = 0;
	n = strtoull(value, &end, hex ? 16 : 10);
	if (*end || errno || n < min || n > max)
		return false;
	*out_p = n;
	return true;
}

static int unknown_key(const struct kv_source *src, const char *token, const struct kv_key *keys,
	size_t nkeys)
{
	char all[160] = "";
	size_t n = 0;

	for (size_t i = 0; i < nkeys && n < sizeof(all); i++)
		n += (size_t)snprintf(all + n, sizeof(all) - n, "%s%s", i ? ", " : "",
			keys[i].name);
	return kv_fail(src, "'%s': give key=value with one of %s", token, all);
}

static bool set_field(const struct kv_field *f, void *object, const char *value)
{
	unsigned long long n;

	if (!kv_number(value, f->min, f->max, &n))
		return false;
	memcpy((char *)object + f->offset, &n, f->size); /* little endian: copies the low bytes */
	return true;
}

static bool set_key(const struct kv_key *key, void *object, const char *value)
{
	return key->set ? key->set(object, value) : set_field(&key->field, object, value);
}

static int set_token(const struct kv_source *src, char *token, const struct kv_key *keys,
	size_t nkeys, void *object, unsigned int *seen)
{
	char *value = strchr(token, '=');
	size_t i;

	if (!value)
		return unknown_key(src, token, keys, nkeys);
	*value++ = '\0';
	for (i = 0; i < nkeys; i++)
		if (!strcmp(keys[i].name, token))
			break;
	if (i == nkeys)
		return unknown_key(src, token, keys, nkeys);
	if ((*seen & (1u << i)) && !keys[i].repeats)
		return kv_fail(src, "%s is given twice: give it once", token);
	*seen |= 1u << i;
	if (!set_key(&keys[i], object, value))
		return kv_fail(src, "%s=%s: give %s", token, value, keys[i].want);
	return 0;
}

int kv_line(const struct kv_source *src, char *line, const struct kv_key *keys, size_t nkeys,
	void *object)
{
	unsigned int seen = 0;
	char *save, *token;
	int n = 0, rc;

	line[strcspn(line, "#")] = '\0';
	token = strtok_r(line, " \t\r", &save);
	for (; token; token = strtok_r(NULL, " \t\r", &save)) {
		rc = set_token(src, token, keys, nkeys, object, &seen);
		if (rc)
			return rc;
		n++;
	}
	return n;
}

static int read_all(int fd, char *buf, size_t size)
{
	size_t n = 0;
	ssize_t got;

	while (n < size && (got = read(fd, buf + n, size - n)) != 0) {
		if (got < 0 && errno != EINTR)
			return -errno;
		if (got > 0)
			n += (size_t)got;
	}
	if (n == size)
		return -EFBIG;
	buf[n] = '\0';
	return strlen(buf) == n ? 0 : -EILSEQ;
}

/* Returns a descriptor or -errno. Does not block on a FIFO. */
static int open_regular(const char *path, bool *regular_p)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	int rc;

	if (fd < 0)
		return -errno;
	rc = fstat(fd, &st) ? -errno : 0;
	if (!rc && S_ISREG(st.st_mode))
		return fd;
	close(fd);
	*regular_p = rc;
	return rc ? rc : -EINVAL;
}

char *kv_read_file(const char *path, const char *what, char *err, size_t errlen, int *rc_p)
{
	char *buf = malloc(FILE_MAX);
	bool regular = true;
	int fd = buf ? open_regular(path, &regular) : -ENOMEM;
	int rc = fd < 0 ? fd : read_all(fd, buf, FILE_MAX);

	if (fd >= 0)
		close(fd);
	if (!rc)
		return buf;
	snprintf(err, errlen, "%s: %s; give %s", path,
		regular ? strerror(-rc) : "not a regular file", what);
	free(buf);
	*rc_p = rc;
	return NULL;
}
