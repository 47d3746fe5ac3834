/* SPDX-License-Identifier: MIT */
#ifndef SOFTHCA_TOPO_RAIL_H
#define SOFTHCA_TOPO_RAIL_H

/* What the parser and the default topology share. */

#include "topo/topo.h"

/* *rail as rail number index (0 ..) is when nothing is said; InfiniBand, no GIDs yet. */
void softhca_rail_init(struct softhca_rail *rail, uint32_t index);

/* Fills in what depends on the link layer and was not given: lid, netdev, GIDs. */
void softhca_rail_complete(struct softhca_rail *rail, uint32_t index);

#endif
