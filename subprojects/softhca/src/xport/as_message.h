/* SPDX-License-Identifier: MIT */
#ifndef SOFTHCA_XPORT_AS_MESSAGE_H
#define SOFTHCA_XPORT_AS_MESSAGE_H

#include "hca/wqe.h"
#include "packet/message.h"

/*
 * Returns the message that a WQE describes. The fields that depend on the QP (transport, mtu,
 * dest_qpn, psn, qkey, src_qpn) are 0.
 */
struct message as_message(const struct wqe *w);

#endif
