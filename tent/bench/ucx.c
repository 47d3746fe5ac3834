/* SPDX-License-Identifier: MIT */
#include "ucx.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

struct ucx {
	ucp_context_h context;
	ucp_worker_h worker;
	ucp_mem_h memory;
	ucp_ep_h ep;
	ucp_rkey_h rkey;
	uint64_t remote;
};

static int failed(const char *what, ucs_status_t status)
{
	if (status == UCS_OK)
		return 0;
	fprintf(stderr, "tentbench: UCX: %s: status %d\n", what, status);
	return 1;
}

/* Environment variables take precedence. */
static int open_worker(struct ucx *u)
{
	const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
		.features = UCP_FEATURE_RMA};
	const ucp_worker_params_t single = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
		.thread_mode = UCS_THREAD_MODE_SINGLE};

	setenv("UCX_TLS", "posix", 0);
	return failed("context", ucp_init(&params, NULL, &u->context)) ||
	       failed("worker", ucp_worker_create(u->context, &single, &u->worker));
}

/* Waits for the end of an operation. */
static int finish(struct ucx *u, const char *what, ucs_status_ptr_t r)
{
	ucs_status_t status = UCS_INPROGRESS;

	if (!UCS_PTR_IS_PTR(r))
		return failed(what, UCS_PTR_STATUS(r));
	while (status == UCS_INPROGRESS) {
		ucp_worker_progress(u->worker);
		status = ucp_request_check_status(r);
	}
	ucp_request_free(r);
	return failed(what, status);
}

/* ---- the server ---- */

static int map_memory(struct ucx *u, uint64_t len)
{
	const ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH |
							   UCP_MEM_MAP_PARAM_FIELD_FLAGS,
		.length = len,
		.flags = UCP_MEM_MAP_ALLOCATE};
	ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};

	if (failed("memory", ucp_mem_map(u->context, &params, &u->memory)) ||
		failed("memory", ucp_mem_query(u->memory, &attr)))
		return 1;
	u->remote = (uintptr_t)attr.address;
	memset(attr.address, 0, len); /* so that the pages exist */
	return 0;
}

static void put_hex(FILE *out, const void *bytes, size_t n)
{
	fputc(' ', out);
	for (size_t i = 0; i < n; i++)
		fprintf(out, "%02x", ((const uint8_t *)bytes)[i]);
}

static int describe(struct ucx *u, char **line_p)
{
	ucp_address_t *address = NULL;
	void *key = NULL;
	size_t n, key_len, size;
	FILE *out = open_memstream(line_p, &size);
	int err = !out || failed("address", ucp_worker_get_address(u->worker, &address, &n)) ||
		  failed("key", ucp_rkey_pack(u->context, u->memory, &key, &key_len));

	if (!err) {
		fprintf(out, "%" PRIx64, u->remote);
		put_hex(out, address, n);
		put_hex(out, key, key_len);
	}
	if (address)
		ucp_worker_release_address(u->worker, address);
	if (key)
		ucp_rkey_buffer_release(key);
	return (out && fclose(out)) || err;
}

int ucx_lend(uint64_t len, struct ucx **u_p, char **line_p)
{
	struct ucx *u = calloc(1, sizeof(*u));
	char *line = NULL;

	if (!u)
		return failed("memory", UCS_ERR_NO_MEMORY);
	if (open_worker(u) || map_memory(u, len) || describe(u, &line)) {
		free(line);
		ucx_close(u);
		return 1;
	}
	*u_p = u;
	*line_p = line;
	return 0;
}

void ucx_serve(struct ucx *u, int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char byte;

	while (!poll(&p, 1, 0))
		ucp_worker_progress(u->worker);
	if (read(fd, &byte, 1) < 0)
		perror("tentbench");
}

/* ---- the client ---- */

/* Converts hexadecimal digits in place. Returns the number of bytes. */
static size_t get_hex(char *text)
{
	size_t n = 0;

	for (; text[2 * n] && text[2 * n + 1]; n++) {
		unsigned byte = 0;

		sscanf(text + 2 * n, "%2x", &byte);
		text[n] = (char)byte;
	}
	return n;
}

static int connect_to(struct ucx *u, char *line)
{
	ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
	char *rest, *address, *key;

	u->remote = strtoull(strtok_r(line, " ", &rest), NULL, 16);
	address = strtok_r(NULL, " ", &rest);
	key = strtok_r(NULL, " ", &rest);
	if (!address || !key)
		return failed("server", UCS_ERR_INVALID_PARAM);
	get_hex(address);
	get_hex(key);
	params.address = (const ucp_address_t *)address;
	return failed("endpoint", ucp_ep_create(u->worker, &params, &u->ep)) ||
	       failed("key", ucp_ep_rkey_unpack(u->ep, key, &u->rkey));
}

int ucx_open(const char *line, struct ucx **u_p)
{
	struct ucx *u = calloc(1, sizeof(*u));
	char *copy = strdup(line);
	int err = !u || !copy || !*copy;

	if (err)
		fprintf(stderr, "tentbench: UCX: no memory, or no server\n");
	else
		err = open_worker(u) || connect_to(u, copy) || ucx_put(u, (const uint8_t *)"x", 1);
	free(copy);
	if (err) {
		ucx_close(u);
		return 1;
	}
	*u_p = u;
	return 0;
}

int ucx_put(void *arg, const uint8_t *from, uint64_t len)
{
	static const ucp_request_param_t none = {0};
	struct ucx *u = arg;

	return finish(u, "put", ucp_put_nbx(u->ep, from, len, u->remote, u->rkey, &none)) ||
	       finish(u, "flush", ucp_ep_flush_nbx(u->ep, &none));
}

void ucx_close(struct ucx *u)
{
	if (!u)
		return;
	if (u->rkey)
		ucp_rkey_destroy(u->rkey);
	if (u->memory)
		ucp_mem_unmap(u->context, u->memory);
	if (u->worker) /* with its endpoint */
		ucp_worker_destroy(u->worker);
	if (u->context)
		ucp_cleanup(u->context);
	free(u);
}
