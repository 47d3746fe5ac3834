/* SPDX-License-Identifier: MIT */
/*
 * Converts the path of an rdma_cm id to the structures of verbs: addresses, QP attributes, path
 * records. The caller must hold the fabric's mutex.
 */
#ifndef SOFTHCA_CM_PATH_H
#define SOFTHCA_CM_PATH_H

#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "fabric/cm_ids.h"

/* Returns true if the other end's adapter is known. */
bool cm_has_path(const struct cm_id *id);

/* Return the GIDs of the two ends; NULL: not known. */
const uint8_t *cm_src_gid(const struct cm_id *id);
const uint8_t *cm_dst_gid(const struct cm_id *id);

/* Returns the partition key in host order. */
uint16_t cm_pkey(const struct cm_id *id);

/* Returns the local ACK timeout, encoded as in QP attributes. */
uint8_t cm_ack_timeout(const struct cm_id *id);

void cm_ah_attr(const struct cm_id *id, struct ib_uverbs_ah_attr *a);

/* Write the path in the two formats in which programs request it. */
void cm_path_unpacked(const struct cm_id *id, struct ib_user_path_rec *p);
void cm_path_packed(const struct cm_id *id, struct ib_path_rec_data *p);

/*
 * Gets the attributes that ibv_modify_qp() needs to move a QP to @state, an enum ibv_qp_state.
 * Returns 0, or -EINVAL if the id has no adapter, or if its handshake does not allow that state
 * yet.
 */
int cm_qp_attr(const struct cm_id *id, uint32_t state, struct ib_uverbs_qp_attr *a);

#endif
