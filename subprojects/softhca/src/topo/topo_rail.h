/* SPDX-License-Identifier: MIT */
#ifndef SOFTHCA_TOPO_RAIL_H
#define SOFTHCA_TOPO_RAIL_H

/* Functions that the parser and the default topology share. */

#include "topo/topo.h"

/* Sets *rail to the defaults of rail number index (0 ..): InfiniBand, no GIDs yet. */
void softhca_rail_init(struct softhca_rail *rail, uint32_t index);

/* Sets the missing ones of the attributes lid, netdev, P_Keys and GIDs. */
void softhca_rail_complete(struct softhca_rail *rail, uint32_t index);

#endif
