/* SPDX-License-Identifier: MIT */
/*
 * Directories, which keep descriptions by name. A file has a line for each tent_publish(): a name, a
 * blank and the description. The last complete line of a name counts. Writers lock the file;
 * readers do not, because a line without its newline is not complete.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sized.h"
#include "tent.h"
#include "why.h"

/* ---- a file ---- */

/* Writes all bytes. After an error the file has its former size. 0 or -errno. */
static int append(int fd, const char *bytes, size_t n)
{
	off_t size = lseek(fd, 0, SEEK_END);
	int err = size < 0 ? -errno : 0;

	for (size_t done = 0; done < n && !err;) {
		ssize_t m = write(fd, bytes + done, n - done);

		if (m < 0 && errno != EINTR)
			err = -errno;
		done += m > 0 ? (size_t)m : 0;
	}
	if (err && size >= 0 && ftruncate(fd, size))
		return -errno;
	return err;
}

/* True: the last line is not complete, because its writer was killed. */
static bool is_cut(int fd)
{
	off_t size = lseek(fd, 0, SEEK_END);
	char last;

	return size > 0 && pread(fd, &last, 1, size - 1) == 1 && last != '\n';
}

/* Waits until no other process writes to the file. 0 or -errno. */
static int lock(int fd)
{
	int err;

	do {
		err = flock(fd, LOCK_EX) ? -errno : 0;
	} while (err == -EINTR);
	return err;
}

static int file_put(const char *path, const char *name, const char *text)
{
	int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600), err, n;
	char *line = NULL;

	if (fd < 0)
		return -errno;
	err = lock(fd);
	n = err ? 0 : asprintf(&line, "%s%s %s\n", is_cut(fd) ? "\n" : "", name, text);
	if (n < 0)
		err = -ENOMEM;
	if (!err)
		err = append(fd, line, (size_t)n);
	if (n > 0)
		free(line);
	close(fd);
	return err;
}

/* If the line begins with @name, replaces *text_p by the line's text. 0 or -ENOMEM. */
static int take_line(const char *line, size_t len, const char *name, char **text_p)
{
	size_t n = strlen(name);
	char *text;

	if (len < n + 2 || memcmp(line, name, n) || line[n] != ' ' || line[len - 1] != '\n')
		return 0;
	text = strndup(line + n + 1, len - n - 2);
	if (!text)
		return -ENOMEM;
	free(*text_p);
	*text_p = text;
	return 0;
}

static int file_get(const char *path, const char *name, char **text_p)
{
	FILE *f = fopen(path, "re");
	char *line = NULL, *text = NULL;
	size_t room = 0;
	ssize_t len;
	int err = 0;

	if (!f)
		return -errno;
	while (!err && (len = getline(&line, &room, f)) > 0)
		err = take_line(line, (size_t)len, name, &text);
	if (!err && ferror(f))
		err = -EIO;
	if (!err && !text)
		err = -ENOENT;
	if (err)
		free(text);
	else
		*text_p = text;
	free(line);
	fclose(f);
	return err;
}

/* ---- files and functions ---- */

static bool is_name(const char *name)
{
	size_t n = name ? strnlen(name, TENT_NAME_LEN) : 0;

	for (size_t i = 0; i < n; i++) {
		if (name[i] <= ' ' || name[i] > '~')
			return false;
	}
	return n && n < TENT_NAME_LEN;
}

/* Copies the caller's directory, which may be that of another version of the library. */
static int take(const struct tent_directory *from, const char *name, struct tent_directory *d,
	struct tent_why *why)
{
	int err = SIZED_ATTR(d, from, arg);

	if (err)
		return why_say(why, err, "directory: a field that this library lacks is not 0");
	if (!d->file == !(d->put || d->get))
		return why_say(why, -EINVAL, "directory: give a file, or functions");
	if (!is_name(name))
		return why_say(why, -EINVAL,
			"directory: a name has 1 to %d characters, without blanks",
			TENT_NAME_LEN - 1);
	return 0;
}

static int failed(const struct tent_directory *d, const char *name, int err, struct tent_why *why)
{
	return why_say(why, err, "directory%s%s: %s: %s", d->file ? " " : "",
		d->file ? d->file : "", name, strerror(-err));
}

int tent_publish(struct tent *t, const struct tent_directory *directory, const char *name,
	struct tent_why *why)
{
	struct tent_directory d;
	char *text;
	int err = take(directory, name, &d, why);

	if (err)
		return err;
	if (!d.file && !d.put)
		return why_say(why, -EINVAL, "directory: tent_publish() needs the function put");
	err = tent_export(t, &text);
	if (err)
		return err;
	err = d.file ? file_put(d.file, name, text) : d.put(d.arg, name, text);
	free(text);
	return err ? failed(&d, name, err, why) : 0;
}

int tent_find(struct tent *t, const struct tent_directory *directory, const char *name,
	struct tent_why *why, struct tent_segment **segment_p)
{
	struct tent_directory d;
	char *text = NULL;
	int err = take(directory, name, &d, why);

	if (err)
		return err;
	if (!d.file && !d.get)
		return why_say(why, -EINVAL, "directory: tent_find() needs the function get");
	err = d.file ? file_get(d.file, name, &text) : d.get(d.arg, name, &text);
	if (!err && !text)
		err = -ENOENT;
	if (err)
		return failed(&d, name, err, why);
	err = tent_import(t, text, why, segment_p);
	free(text);
	return err;
}
