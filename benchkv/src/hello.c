/* SPDX-License-Identifier: MIT */
#include "hello.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ERRNO_MAX 4095u
#define FULL_MEMBER 0x8000u

void hello_sign(struct hello *h, const char *host)
{
	h->id.magic = HELLO_MAGIC;
	snprintf(h->id.version, sizeof(h->id.version), "%s", BENCHKV_VERSION);
	snprintf(h->id.host, sizeof(h->id.host), "%s", host);
}

static bool is_time(double ns)
{
	return isfinite(ns) && ns >= 0;
}

static bool id_valid(const struct hello_id *id)
{
	return id->magic == HELLO_MAGIC && memchr(id->version, 0, sizeof(id->version)) &&
	       memchr(id->host, 0, sizeof(id->host));
}

bool hello_valid(const struct hello *h)
{
	bool valid = id_valid(&h->id) && h->machine_errno <= ERRNO_MAX;

	for (enum file f = 0; f < FILES; f++)
		valid = valid && h->file_errno[f] <= ERRNO_MAX;
	valid = valid && h->port_errno <= ERRNO_MAX;
	valid = valid && h->window >= 1 && h->window <= CONTROL_NUMBER_MAX;
	valid = valid && h->full >= 1 && h->full <= CONTROL_NUMBER_MAX;
	valid = valid && h->basis < BASES;
	valid = valid && is_time(h->times.round_trip_ns);
	valid = valid && is_time(h->times.write_ns);
	valid = valid && is_time(h->times.message_ns);
	return valid && memchr(h->device, 0, sizeof(h->device));
}

int hello_read(const void *data, size_t len, uint32_t rank, struct hello *h_p, char *why,
	size_t size)
{
	struct hello h = {.id = {.magic = 0}};

	memcpy(&h, data, len < sizeof(h) ? len : sizeof(h));
	if (len < sizeof(h.id) || !id_valid(&h.id))
		snprintf(why, size, "rank %u is not benchkv, or a very old one", rank);
	else if (strcmp(h.id.version, BENCHKV_VERSION) != 0)
		snprintf(why, size, "rank %u (%s) has version %s, this one %s: install the same",
			rank, h.id.host, h.id.version, BENCHKV_VERSION);
	else if (len != sizeof(h) || !hello_valid(&h))
		snprintf(why, size,
			"rank %u (%s) has another build of version %s: install the same", rank,
			h.id.host, h.id.version);
	else {
		*h_p = h;
		return 0;
	}
	return -EPROTO;
}

/* Writes "rank 3 (node3)" and the formatted sentence. Returns -EINVAL. */
__attribute__((format(printf, 5, 6))) static int misfit(const struct hello *h, uint32_t rank,
	char *why, size_t size, const char *fmt, ...)
{
	int n = snprintf(why, size, "rank %u (%s)", rank, h->id.host);
	va_list args;

	va_start(args, fmt);
	if (n > 0 && (size_t)n < size)
		vsnprintf(why + n, size - (size_t)n, fmt, args);
	va_end(args);
	return -EINVAL;
}

static int has_port(const struct hello *h, uint32_t rank, char *why, size_t size)
{
	switch (h->port_errno) {
	case 0:
		return 0;
	case ENODEV:
		return misfit(h, rank, why, size,
			" has no mlx5 device%s%s: give one that each host has",
			*h->device ? " " : "", h->device);
	case ENETDOWN:
		return misfit(h, rank, why, size, ": %s has no active port", h->device);
	case ENOKEY:
		return misfit(h, rank, why, size, ": %s is a full member of no partition",
			h->device);
	default:
		return misfit(h, rank, why, size, ": %s: %s", h->device,
			strerror((int)h->port_errno));
	}
}

int hello_fits(const struct hello *first, const struct hello *h, uint32_t rank, char *why,
	size_t size)
{
	const struct hca_port *a = &first->port, *b = &h->port;
	int err;

	for (unsigned i = 0; i < OPTIONS_FIELDS; i++) {
		if (h->options[i] != first->options[i])
			return misfit(h, rank, why, size,
				" has another %s than rank 0: give all the same options",
				option_fields[i].name);
	}
	err = has_port(h, rank, why, size);
	if (err || first->port_errno) /* rank 0 has an error of its own */
		return err;
	if (a->software != b->software)
		return misfit(h, rank, why, size, " has %s, rank 0 %s",
			b->software ? "the software HCA" : "an adapter",
			a->software ? "the software HCA" : "an adapter");
	if (a->ethernet != b->ethernet)
		return misfit(h, rank, why, size, ": %s uses %s, rank 0's %s %s", h->device,
			b->ethernet ? "RoCE" : "InfiniBand", first->device,
			a->ethernet ? "RoCE" : "InfiniBand");
	if (a->partition != b->partition)
		return misfit(h, rank, why, size, ": %s has the P_Key 0x%04x, rank 0's %s 0x%04x",
			h->device, FULL_MEMBER | b->partition, first->device,
			FULL_MEMBER | a->partition);
	return 0;
}

bool hello_mtu_differs(const struct hello *first, const struct hello *h, uint32_t rank, char *why,
	size_t size)
{
	if (h->port.mtu == first->port.mtu)
		return false;
	misfit(h, rank, why, size, ": %s has the MTU %u, rank 0's %s %u; the smaller one is used",
		h->device, h->port.mtu, first->device, first->port.mtu);
	return true;
}
