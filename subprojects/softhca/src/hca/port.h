/* SPDX-License-Identifier: MIT */
/* The one port of each rail. The fabric's mutex is held. */
#ifndef SOFTHCA_HCA_PORT_H
#define SOFTHCA_HCA_PORT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Pulls or plugs the cable: every context open on the rail gets PORT_ERR or PORT_ACTIVE,
 * QUERY_PORT and sysfs show DOWN or ACTIVE, and messages meet no answer while it is down. No
 * change, no event.
 */
void port_set_link(uint32_t rail, bool up);

#endif
