/* SPDX-License-Identifier: MIT */
#include "ucx.h"

#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>
#include <uct/api/uct.h>
#include <unistd.h>

#define CMA "cma"

/*
 * ucp_put_nbx() of UCX 1.13 moves mapped memory over posix, but never uses cma: it sends messages
 * instead, because cma lacks short puts. So puts over cma use UCT, the layer below UCP.
 */
struct ucx {
	ucs_async_context_t *async;
	uct_worker_h uct_worker;
	uct_md_h md;
	uct_iface_h iface;
	uct_ep_h uct_ep; /* NULL: the puts are those of UCP */
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

/* UCX_TLS in the environment takes precedence over posix. */
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

/* ---- cma ---- */

static bool is_cma(uct_component_h c)
{
	uct_component_attr_t attr = {.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME};

	return uct_component_query(c, &attr) == UCS_OK && !strcmp(attr.name, CMA);
}

static ucs_status_t open_md(uct_component_h c, uct_md_h *md_p)
{
	uct_md_config_t *config;
	ucs_status_t status = uct_md_config_read(c, NULL, NULL, &config);

	if (status != UCS_OK)
		return status;
	status = uct_md_open(c, CMA, config, md_p);
	uct_config_release(config);
	return status;
}

static ucs_status_t find_cma(uct_md_h *md_p)
{
	ucs_status_t status = UCS_ERR_NO_DEVICE;
	uct_component_h *all;
	unsigned n;

	if (uct_query_components(&all, &n) != UCS_OK)
		return status;
	for (unsigned i = 0; i < n && !*md_p; i++) {
		if (is_cma(all[i]))
			status = open_md(all[i], md_p);
	}
	uct_release_component_list(all);
	return status;
}

static ucs_status_t open_iface(struct ucx *u)
{
	const uct_iface_params_t params = {.field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE |
							 UCT_IFACE_PARAM_FIELD_DEVICE,
		.open_mode = UCT_IFACE_OPEN_MODE_DEVICE,
		.mode.device = {.tl_name = CMA, .dev_name = "memory"}};
	uct_iface_config_t *config;
	ucs_status_t status = uct_md_iface_config_read(u->md, CMA, NULL, NULL, &config);

	if (status != UCS_OK)
		return status;
	status = uct_iface_open(u->md, u->uct_worker, &params, config, &u->iface);
	uct_config_release(config);
	if (status == UCS_OK)
		uct_iface_progress_enable(u->iface, UCT_PROGRESS_SEND);
	return status;
}

static int open_cma(struct ucx *u)
{
	return failed("thread",
		       ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK, &u->async)) ||
	       failed("worker",
		       uct_worker_create(u->async, UCS_THREAD_MODE_SINGLE, &u->uct_worker)) ||
	       failed(CMA, find_cma(&u->md)) || failed(CMA, open_iface(u));
}

static void close_cma(struct ucx *u)
{
	if (u->uct_ep)
		uct_ep_destroy(u->uct_ep);
	if (u->iface)
		uct_iface_close(u->iface);
	if (u->md)
		uct_md_close(u->md);
	if (u->uct_worker)
		uct_worker_destroy(u->uct_worker);
	if (u->async)
		ucs_async_context_destroy(u->async);
}

static int connect_cma(struct ucx *u, const char *device, const char *iface)
{
	const uct_ep_params_t params = {.field_mask = UCT_EP_PARAM_FIELD_IFACE |
						      UCT_EP_PARAM_FIELD_DEV_ADDR |
						      UCT_EP_PARAM_FIELD_IFACE_ADDR,
		.iface = u->iface,
		.dev_addr = (const uct_device_addr_t *)device,
		.iface_addr = (const uct_iface_addr_t *)iface};

	return failed("endpoint", uct_ep_create(&params, &u->uct_ep));
}

static void put_has_ended(uct_completion_t *c)
{
	/* put_cma() waits until the count is 0. */
}

static int put_cma(struct ucx *u, const uint8_t *from, uint64_t len)
{
	const uct_iov_t iov = {.buffer = (void *)(uintptr_t)from,
		.length = len,
		.memh = UCT_MEM_HANDLE_NULL,
		.count = 1};
	uct_completion_t c = {.func = put_has_ended, .count = 1, .status = UCS_OK};
	ucs_status_t status = uct_ep_put_zcopy(u->uct_ep, &iov, 1, u->remote, 0, &c);

	if (status != UCS_INPROGRESS)
		return failed("put", status);
	while (c.count)
		uct_worker_progress(u->uct_worker);
	return failed("put", c.status);
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

/* Ends a line that has been written to memory. */
static int end_line(FILE *out)
{
	return failed("memory", fclose(out) ? UCS_ERR_NO_MEMORY : UCS_OK);
}

static int describe_cma(struct ucx *u, char **line_p)
{
	char device[256], iface[256];
	uct_iface_attr_t attr;
	size_t size;
	FILE *out;

	if (failed(CMA, uct_iface_query(u->iface, &attr)))
		return 1;
	if (attr.device_addr_len > sizeof(device) || attr.iface_addr_len > sizeof(iface))
		return failed(CMA, UCS_ERR_BUFFER_TOO_SMALL);
	if (failed(CMA, uct_iface_get_device_address(u->iface, (uct_device_addr_t *)device)) ||
		failed(CMA, uct_iface_get_address(u->iface, (uct_iface_addr_t *)iface)))
		return 1;
	out = open_memstream(line_p, &size);
	if (!out)
		return failed("memory", UCS_ERR_NO_MEMORY);
	fprintf(out, "0");
	put_hex(out, device, attr.device_addr_len);
	put_hex(out, iface, attr.iface_addr_len);
	return end_line(out);
}

static int describe(struct ucx *u, char **line_p)
{
	ucp_address_t *address = NULL;
	void *key = NULL;
	size_t n, key_len, size;
	FILE *out = open_memstream(line_p, &size);
	int err;

	if (!out)
		return failed("memory", UCS_ERR_NO_MEMORY);
	err = failed("address", ucp_worker_get_address(u->worker, &address, &n)) ||
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
	return end_line(out) || err;
}

int ucx_lend(uint64_t len, struct ucx **u_p, char **line_p)
{
	struct ucx *u = calloc(1, sizeof(*u));
	char *line = NULL;

	if (!u)
		return failed("memory", UCS_ERR_NO_MEMORY);
	if (len ? open_worker(u) || map_memory(u, len) || describe(u, &line) :
		  open_cma(u) || describe_cma(u, &line)) {
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

	while (u->worker && !poll(&p, 1, 0))
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

static int connect_ucp(struct ucx *u, const char *address, const char *key)
{
	const ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
		.address = (const ucp_address_t *)address};

	return open_worker(u) || failed("endpoint", ucp_ep_create(u->worker, &params, &u->ep)) ||
	       failed("key", ucp_ep_rkey_unpack(u->ep, key, &u->rkey));
}

static int connect_to(struct ucx *u, char *line, uint64_t remote)
{
	char *rest, *first, *second;
	uint64_t mapped = strtoull(strtok_r(line, " ", &rest), NULL, 16);

	first = strtok_r(NULL, " ", &rest);
	second = strtok_r(NULL, " ", &rest);
	if (!first || !second)
		return failed("server", UCS_ERR_INVALID_PARAM);
	get_hex(first);
	get_hex(second);
	u->remote = mapped ? mapped : remote;
	return mapped ? connect_ucp(u, first, second) :
			open_cma(u) || connect_cma(u, first, second);
}

int ucx_open(const char *line, uint64_t remote, struct ucx **u_p)
{
	struct ucx *u = calloc(1, sizeof(*u));
	char *copy = strdup(line);
	int err = !u || !copy || !*copy;

	if (err)
		fprintf(stderr, "tentbench: UCX: no memory, or no server\n");
	else
		err = connect_to(u, copy, remote) || ucx_put(u, (const uint8_t *)"x", 1);
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

	if (u->uct_ep)
		return put_cma(u, from, len);
	return finish(u, "put", ucp_put_nbx(u->ep, from, len, u->remote, u->rkey, &none)) ||
	       finish(u, "flush", ucp_ep_flush_nbx(u->ep, &none));
}

void ucx_close(struct ucx *u)
{
	if (!u)
		return;
	close_cma(u);
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
