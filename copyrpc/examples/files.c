/* SPDX-License-Identifier: MIT */
/*
 * Files from a server, by bulk data:
 *
 *	copyrpc-files serve DIRECTORY		prints its port
 *	copyrpc-files get PORT NAME [HOST]	writes the file to its standard output
 *
 * The server maps the file and answers with a descriptor of the mapping. The client pulls: its
 * adapter reads the pages of the server, without work for the server's CPU. Then the client tells
 * the server that it has finished.
 */
#include <copyrpc_bulk.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "echo.h"

#define NAME_MAX_LEN 255

static void sleep_until_work(struct copyrpc_ctx *ctx)
{
	struct pollfd p = {.fd = copyrpc_ctx_fd(ctx), .events = POLLIN};

	if (!copyrpc_ctx_arm(ctx))
		poll(&p, 1, copyrpc_ctx_timeout(ctx));
}

/* ------------------------------------------------------------------ the server */

/* The file that a client reads. Each client reads one file at a time. */
struct file {
	struct file *next;
	struct copyrpc_ep *ep;
	struct copyrpc_bulk *bulk;
	void *at;
	size_t len;
};

static struct file *files;

static void close_file(const struct copyrpc_ep *ep)
{
	struct file **at = &files, *f;

	while (*at && (*at)->ep != ep)
		at = &(*at)->next;
	f = *at;
	if (!f)
		return;
	*at = f->next;
	copyrpc_bulk_free(f->bulk); /* before the memory is unmapped */
	munmap(f->at, f->len);
	free(f);
}

static int map_file(int dir, const char *name, struct file *f)
{
	/* O_NONBLOCK: does not wait until a process opens a FIFO to write. */
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), rc;
	struct stat st;

	if (fd < 0)
		return -errno;
	rc = fstat(fd, &st) ? -errno : S_ISREG(st.st_mode) && st.st_size > 0 ? 0 : -EINVAL;
	if (!rc) {
		f->len = (size_t)st.st_size;
		/* Private and writable: an adapter registers no memory that is read-only. */
		f->at = mmap(NULL, f->len, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
		rc = f->at == MAP_FAILED ? -errno : 0;
	}
	close(fd);
	return rc;
}

/* The name comes from a peer: it must contain neither a slash nor a zero byte. */
static int read_name(const struct copyrpc_req *req, char name[NAME_MAX_LEN + 1])
{
	uint32_t len = copyrpc_req_len(req);

	if (!len || len > NAME_MAX_LEN)
		return -ENAMETOOLONG;
	memcpy(name, copyrpc_req_data(req), len);
	name[len] = 0;
	return strlen(name) == len && !strchr(name, '/') ? 0 : -EINVAL;
}

/* Writes a descriptor of the file. */
static int open_file(struct copyrpc_ctx *ctx, int dir, const struct copyrpc_req *req, void *desc)
{
	struct copyrpc_ep *ep = copyrpc_req_ep(req);
	struct file *f = calloc(1, sizeof(*f));
	char name[NAME_MAX_LEN + 1];
	int rc = f ? read_name(req, name) : -ENOMEM;

	if (!rc)
		rc = map_file(dir, name, f);
	if (rc)
		goto free;
	rc = copyrpc_bulk_create(ctx, f->at, f->len, COPYRPC_REMOTE_READ, &f->bulk);
	if (rc)
		goto unmap;
	f->ep = ep;
	f->next = files;
	files = f;
	return copyrpc_bulk_export(f->bulk, ep, 0, f->len, desc);
unmap:
	munmap(f->at, f->len);
free:
	free(f);
	return rc;
}

/* A request contains the name of a file; an empty request reports that the client has read its
 * file. The response is a descriptor, or empty. */
static void answer(struct copyrpc_ctx *ctx, int dir, struct copyrpc_req *req)
{
	uint8_t desc[COPYRPC_BULK_SIZE];
	int rc = -ENOENT;

	close_file(copyrpc_req_ep(req));
	if (copyrpc_req_len(req))
		rc = open_file(ctx, dir, req, desc);
	if (copyrpc_reply(req, desc, rc ? 0 : sizeof(desc)) == -EMSGSIZE)
		copyrpc_reply(req, NULL, 0); /* every request gets a reply */
}

static void end_clients(struct copyrpc_ctx *ctx)
{
	struct copyrpc_event e;

	while (copyrpc_event_recv(ctx, &e, sizeof(e))) {
		if (e.kind != COPYRPC_DOWN)
			continue;
		close_file(e.ep);
		copyrpc_ep_destroy(e.ep);
	}
}

static _Noreturn void serve(struct copyrpc_ctx *ctx, const char *path)
{
	int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), listener;
	struct copyrpc_req *req;

	check(dir < 0 ? -errno : 0, path);
	check(copyrpc_tcp_listen(NULL, 0, &listener), "listen");
	check(copyrpc_listen(ctx, NULL, listener, 0), "listen");
	printf("%d\n", copyrpc_tcp_port(listener));
	fflush(stdout);
	for (;;) {
		int found = copyrpc_poll(ctx, NULL, NULL);

		for (; copyrpc_recv(ctx, &req); found = 1)
			answer(ctx, dir, req);
		end_clients(ctx);
		if (!found)
			sleep_until_work(ctx);
	}
}

/* ------------------------------------------------------------------ the client */

struct get {
	int done; /* set by each of the callbacks */
	int has_file;
	struct copyrpc_remote remote;
};

static void on_response(void *arg, struct copyrpc_ep *ep, uint64_t token, int status,
	const void *data, uint32_t len)
{
	struct get *g = arg;

	check(status, "call");
	g->done = 1;
	if (!len)
		return;
	check(copyrpc_bulk_import(ep, data, len, &g->remote), "descriptor");
	g->has_file = 1;
}

static void on_pulled(void *arg, struct copyrpc_ep *ep, int status)
{
	check(status, "pull");
	((struct get *)arg)->done = 1;
}

static void wait_for(struct copyrpc_ctx *ctx, struct get *g)
{
	for (g->done = 0; !g->done;)
		if (!copyrpc_poll(ctx, on_response, g) && !g->done)
			sleep_until_work(ctx);
}

static int get(struct copyrpc_ctx *ctx, const char *port, const char *name, const char *host)
{
	struct copyrpc_bulk *bulk;
	struct copyrpc_ep *ep;
	struct get g = {0};
	uint8_t *to;
	size_t len;

	check_connect(ctx, copyrpc_connect(ctx, NULL, host, (uint16_t)atoi(port), 10000, &ep));
	check(copyrpc_call(ep, name, (uint32_t)strlen(name), COPYRPC_BULK_SIZE, 0), "call");
	wait_for(ctx, &g);
	check(g.has_file ? 0 : -ENOENT, name);
	len = g.remote.len;
	to = malloc(len);
	check(to ? 0 : -ENOMEM, name);
	check(copyrpc_bulk_create(ctx, to, len, 0, &bulk), "bulk");
	check(copyrpc_bulk_pull(ep, &g.remote, 0, bulk, 0, len, on_pulled, &g), "pull");
	wait_for(ctx, &g);
	check(copyrpc_call(ep, NULL, 0, 0, 0), "call"); /* the server may unmap the file */
	wait_for(ctx, &g);
	if (fwrite(to, 1, len, stdout) != len || fflush(stdout))
		check(-errno, "write");
	copyrpc_bulk_free(bulk);
	free(to);
	return 0;
}

int main(int argc, char **argv)
{
	struct copyrpc_ctx *ctx;
	int rc;

	if (argc < 3 || (strcmp(argv[1], "serve") != 0 && argc < 4)) {
		fprintf(stderr, "usage: copyrpc-files serve DIRECTORY | get PORT NAME [HOST]\n");
		return 2;
	}
	check(copyrpc_ctx_create(NULL, &ctx), "context (see softhca-run)");
	if (strcmp(argv[1], "serve") == 0)
		serve(ctx, argv[2]);
	rc = get(ctx, argv[2], argv[3], argc > 4 ? argv[4] : "127.0.0.1");
	copyrpc_ctx_destroy(ctx);
	return rc;
}
