/* SPDX-License-Identifier: MIT */
#include "hca/port.h"

#include "fabric/fabric.h"
#include "hca/event.h"

void port_set_link(uint32_t rail, bool up)
{
	struct rail_state *s = &arena()->rails[rail];

	if (!s->link_down == up)
		return;
	s->link_down = !up;
	async_port(rail, up ? EV_PORT_ACTIVE : EV_PORT_ERR);
}
