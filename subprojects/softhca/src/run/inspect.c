/* SPDX-License-Identifier: MIT */
#include "run/inspect.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define SCRIPTS_MAX 5 /* the kernel executes this many scripts in a row, the program included */
#define LINE_MAX_READ 256 /* bytes of a script's first line that are read */

/*
 * Opens the file that execvp() would execute. Returns -1 if there is none. An empty directory in
 * PATH is the current one.
 */
static int find(const char *name, char path[PATH_MAX])
{
	const char *dirs = getenv("PATH"), *end;
	int fd;

	if (strchr(name, '/')) {
		snprintf(path, PATH_MAX, "%s", name);
		return open(path, O_RDONLY | O_CLOEXEC);
	}
	for (dirs = dirs ? dirs : "/bin:/usr/bin";; dirs = end + 1) {
		end = strchrnul(dirs, ':');
		snprintf(path, PATH_MAX, "%.*s%s%s", (int)(end - dirs), dirs,
			end == dirs ? "" : "/", name);
		fd = access(path, X_OK) ? -1 : open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0 || !*end)
			return fd;
	}
}

/* Returns true if @fd is a script, and then sets @path to its interpreter. */
static bool interpreter(int fd, char path[PATH_MAX])
{
	char line[LINE_MAX_READ + 1], *p;
	ssize_t n = pread(fd, line, LINE_MAX_READ, 0);

	if (n < 3 || strncmp(line, "#!", 2))
		return false;
	line[n] = '\0';
	line[strcspn(line, "\n")] = '\0';
	p = line + 2 + strspn(line + 2, " \t");
	p[strcspn(p, " \t")] = '\0';
	snprintf(path, PATH_MAX, "%s", p);
	return *p;
}

static bool has_linker(int fd, const Elf64_Ehdr *h)
{
	Elf64_Phdr p;

	for (unsigned int i = 0; i < h->e_phnum; i++) {
		off_t at = (off_t)(h->e_phoff + (uint64_t)i * h->e_phentsize);

		if (pread(fd, &p, sizeof(p), at) != sizeof(p))
			return true; /* execvp() will report the error */
		if (p.p_type == PT_INTERP)
			return true;
	}
	return false;
}

/* Returns true if executing @fd raises privileges: the linker then ignores LD_PRELOAD. */
static bool gains_privileges(int fd)
{
	struct statvfs fs;
	struct stat st;

	if (fstat(fd, &st) || fstatvfs(fd, &fs) || (fs.f_flag & ST_NOSUID) ||
		prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
		return false;
	return ((st.st_mode & S_ISUID) && st.st_uid != getuid()) ||
	       ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP) && st.st_gid != getgid()) ||
	       (getuid() && fgetxattr(fd, "security.capability", NULL, 0) > 0);
}

static const char *reason(int fd)
{
	Elf64_Ehdr h;

	if (pread(fd, &h, sizeof(h), 0) != sizeof(h) || memcmp(h.e_ident, ELFMAG, SELFMAG))
		return NULL;
	if (h.e_ident[EI_CLASS] != ELFCLASS64)
		return "it is a 32-bit program";
	if (h.e_machine != EM_X86_64)
		return "it is not a program for x86-64";
	if (!has_linker(fd, &h))
		return "it is linked statically, so nothing can be preloaded";
	if (gains_privileges(fd))
		return "it is set-user-ID, set-group-ID or has capabilities, so nothing is "
		       "preloaded";
	return NULL;
}

void inspect_program(const char *name)
{
	char path[PATH_MAX];
	int fd = find(name, path);
	const char *why;

	for (int i = 0; fd >= 0 && i < SCRIPTS_MAX && interpreter(fd, path); i++) {
		close(fd);
		fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	if (fd < 0)
		return;
	why = reason(fd);
	close(fd);
	if (why)
		fprintf(stderr, "softhca-run: %s does not see the adapters: %s\n", path, why);
}
