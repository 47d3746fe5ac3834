/* SPDX-License-Identifier: MIT */
/* The one port of each rail. The fabric's mutex is held. */
#ifndef SOFTHCA_HCA_PORT_H
#define SOFTHCA_HCA_PORT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Sets the link of a rail up or down. Every context open on the rail gets PORT_ERR or
 * PORT_ACTIVE; QUERY_PORT and sysfs show DOWN or ACTIVE; messages get no answer while the
 * link is down. Without a change there is no event.
 */
void port_set_link(uint32_t rail, bool up);

#endif
