/* SPDX-License-Identifier: MIT */
#include "hca/port.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fabric/fabric.h"
#include "hca/event.h"
#include "sys/sys.h"

/*
 * Replaces the attribute's file, so that readers see either the old or the new text. Errors are
 * ignored: if the new file cannot be made or written, readers see the old text. Commands of verbs
 * read the arena, not the file.
 */
static void put_attribute(const char *device, const char *name, const char *text)
{
	char path[256], aside[264];
	bool written;
	int fd;

	if (!sys_may_make(strlen(text)))
		return;
	snprintf(path, sizeof(path), "%s/sys/class/infiniband/%s/ports/1/%s", fabric_self.dir,
		device, name);
	snprintf(aside, sizeof(aside), "%s.new", path);
	fd = sys_open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		return;
	written = sys_write(fd, text, strlen(text)) == (long)strlen(text);
	sys_close(fd);
	if (written)
		SYS(SYS_renameat, AT_FDCWD, aside, AT_FDCWD, path);
	else
		SYS(SYS_unlinkat, AT_FDCWD, aside, 0);
}

void port_set_link(uint32_t rail, bool up)
{
	struct rail_state *s = &arena()->rails[rail];
	const char *device = arena()->topo.rails[rail].name;

	if (!s->link_down == up)
		return;
	s->link_down = !up;
	put_attribute(device, "state", up ? "4: ACTIVE\n" : "1: DOWN\n");
	put_attribute(device, "phys_state", up ? "5: LinkUp\n" : "3: Disabled\n");
	async_rail(rail, up ? EV_PORT_ACTIVE : EV_PORT_ERR, 1);
}

static bool is_empty(const uint8_t gid[16])
{
	static const uint8_t none[16];

	return !memcmp(gid, none, sizeof(none));
}

int port_set_gid(uint32_t rail, uint32_t index, const uint8_t gid[16])
{
	struct softhca_topology *t = &arena()->topo;
	struct softhca_rail *r = &t->rails[rail];
	char name[16], text[SOFTHCA_GID_TEXT + 1];

	if (index >= r->ngids)
		return -EINVAL;
	if (r->udp)
		return -EOPNOTSUPP;
	for (uint32_t i = 0; i < t->nrails && !is_empty(gid); i++)
		if (softhca_rail_has_gid(&t->rails[i], gid))
			return -EEXIST;
	memcpy(r->gids[index], gid, sizeof(r->gids[index]));
	arena()->rails[rail].gids_changed = 1;
	snprintf(name, sizeof(name), "gids/%u", index);
	softhca_gid_write(gid, text);
	put_attribute(r->name, name, strcat(text, "\n"));
	async_rail(rail, EV_GID_CHANGE, 1);
	return 0;
}

bool port_takes_path(uint32_t rail, bool global, uint32_t sgid_index)
{
	const struct softhca_rail *r = &arena()->topo.rails[rail];

	if (!global)
		return r->link != SOFTHCA_LINK_ROCE && !r->grh_required;
	return sgid_index < r->ngids && !is_empty(r->gids[sgid_index]);
}

uint8_t port_mtu_code(uint32_t bytes)
{
	uint8_t code = 1;

	while (code < 5 && (128u << code) < bytes)
		code++;
	return code;
}
