/* SPDX-License-Identifier: MIT */
#include "shim/path.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "fabric/tally.h"
#include "member/member.h"
#include "sys/sys.h"
#include "sysfs/sysfs.h"

#define SYS_PREFIX "/sys/class/infiniband"
#define CM_PREFIX "/sys/class/misc/rdma_cm"
#define DEV_PREFIX "/dev/infiniband/uverbs"
#define CM_PATH "/dev/infiniband/rdma_cm"

static bool attached(void)
{
	static atomic_flag told = ATOMIC_FLAG_INIT;
	int saved = errno, r = member_attach();

	errno = saved;
	if (r && !atomic_flag_test_and_set(&told))
		fprintf(stderr, "softhca: %s\n", member_why());
	return !r;
}

/*
 * Writes the files of a port's counters, because a program that opens such a file must read the
 * current values. The caller holds the mutex, so that no other process writes the same file.
 */
static void write_counters(uint32_t rail, const struct port_counts *c)
{
	const uint64_t values[SOFTHCA_PORT_COUNTERS] = {
		[SOFTHCA_TX_BYTES] = c->tx_bytes,
		[SOFTHCA_RX_BYTES] = c->rx_bytes,
		[SOFTHCA_TX_PACKETS] = c->tx_packets,
		[SOFTHCA_RX_PACKETS] = c->rx_packets,
		[SOFTHCA_TX_PAUSE_NS] = c->tx_pause_ns,
		[SOFTHCA_RX_PAUSE_NS] = c->rx_pause_ns,
		[SOFTHCA_NO_RECEIVES] = c->no_receives,
		[SOFTHCA_RNR_RETRIES] = c->rnr_retries,
		[SOFTHCA_TIMEOUT_RETRIES] = c->timeout_retries,
		[SOFTHCA_RX_WRITES] = c->writes,
		[SOFTHCA_RX_READS] = c->reads,
		[SOFTHCA_RX_ATOMICS] = c->atomics,
		[SOFTHCA_BAD_PKEYS] = c->bad_pkeys,
		[SOFTHCA_BAD_PACKETS] = c->bad_packets,
		[SOFTHCA_BAD_ICRCS] = c->bad_icrcs,
	};
	char port[256];

	snprintf(port, sizeof(port), "%s" SYS_PREFIX "/%s/ports/1", fabric_self.dir,
		arena()->topo.rails[rail].name);
	softhca_sysfs_count(port, values);
}

static void renew_counters(uint32_t rail)
{
	struct port_counts c;

	tally_port(rail, &c);
	write_counters(rail, &c);
}

static void renew_under_mutex(uint32_t rail)
{
	sigset_t saved;

	if (fabric_enter(&saved))
		return;
	renew_counters(rail);
	fabric_leave(&saved);
}

/* Returns true if the last component of @path is the name of a counter's file. */
static bool names_counter(const char *path)
{
	const char *slash = strrchr(path, '/'), *file;

	for (unsigned int i = 0; (file = softhca_sysfs_counter(i)); i++)
		if (!strcmp(strchr(file, '/') + 1, slash ? slash + 1 : path))
			return true;
	return false;
}

/* Writes the absolute path of the directory that contains @path, which is relative to @dir. */
static bool find_parent(int dir, const char *path, char out[PATH_MAX])
{
	const char *slash = strrchr(path, '/');
	char link[32];
	long n;
	int fd;

	if (snprintf(out, PATH_MAX, "%.*s", slash ? (int)(slash - path) + 1 : 1,
		    slash ? path : ".") >= PATH_MAX)
		return false;
	fd = (int)SYS(SYS_openat, dir, out, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return false;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = SYS(SYS_readlinkat, AT_FDCWD, link, out, PATH_MAX - 1);
	sys_close(fd);
	out[n < 0 ? 0 : n] = '\0';
	return n >= 0;
}

/* If @parent is a directory of a port's counters in this fabric, writes their current values. */
static void renew_in(const char *parent)
{
	char part[128];

	snprintf(part, sizeof(part), "%s/sys/devices/", strrchr(fabric_self.dir, '/'));
	if (!strstr(parent, part))
		return;
	for (uint32_t rail = 0; rail < arena()->topo.nrails; rail++) {
		snprintf(part, sizeof(part), "/infiniband/%s/ports/1/",
			arena()->topo.rails[rail].name);
		if (strstr(parent, part))
			renew_under_mutex(rail);
	}
}

/*
 * Returns true if @path belongs to the emulated sysfs, and the process is in a fabric, which it
 * joins if necessary.
 */
static bool attached_for(const char *path)
{
	if (strncmp(path, SYS_PREFIX, strlen(SYS_PREFIX)) &&
		strncmp(path, CM_PREFIX, strlen(CM_PREFIX)))
		return false;
	return attached();
}

const char *path_map(const char *path, char *buf)
{
	/* The kernel refuses it with ENAMETOOLONG. */
	static const char too_long[PATH_MAX + 1] = {[0 ... PATH_MAX - 1] = 'x'};
	int n;

	if (!path || !attached_for(path))
		return path;
	n = snprintf(buf, PATH_MAX, "%s%s", fabric_self.dir, path);
	return n < PATH_MAX ? buf : too_long;
}

const char *path_open(int dir, const char *path, char *buf)
{
	const char *mapped = path_map(path, buf);
	char parent[PATH_MAX];

	/* While this process makes its fabric, the tree has another name. */
	if (mapped && names_counter(mapped) && find_parent(dir, mapped, parent) &&
		strstr(parent, "/softhca-") && strstr(parent, "/sys/devices/") && attached())
		renew_in(parent);
	return mapped;
}

int path_device(const char *path)
{
	unsigned long n;
	char *end;

	if (!path)
		return -1;
	if (!strcmp(path, CM_PATH))
		return attached() ? PATH_CM : -1;
	if (strncmp(path, DEV_PREFIX, strlen(DEV_PREFIX)))
		return -1;
	path += strlen(DEV_PREFIX);
	if (*path < '0' || *path > '9')
		return -1;
	n = strtoul(path, &end, 10);
	if (*end || !attached() || n >= arena()->topo.nrails)
		return -1;
	return (int)n;
}

void path_device_stat(int n, struct stat *st)
{
	memset(st, 0, sizeof(*st));
	st->st_mode = S_IFCHR | 0666;
	st->st_nlink = 1;
	st->st_uid = geteuid();
	st->st_gid = getegid();
	st->st_rdev = n == PATH_CM ? makedev(SOFTHCA_CM_MAJOR, SOFTHCA_CM_MINOR) :
				     makedev(SOFTHCA_UVERBS_MAJOR, SOFTHCA_UVERBS_MINOR + n);
}

void path_device_statx(int n, struct statx *stx)
{
	struct stat st;

	path_device_stat(n, &st);
	memset(stx, 0, sizeof(*stx));
	stx->stx_mask = STATX_BASIC_STATS;
	stx->stx_mode = (uint16_t)st.st_mode;
	stx->stx_nlink = (uint32_t)st.st_nlink;
	stx->stx_uid = st.st_uid;
	stx->stx_gid = st.st_gid;
	stx->stx_rdev_major = major(st.st_rdev);
	stx->stx_rdev_minor = minor(st.st_rdev);
}
