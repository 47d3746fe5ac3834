/* SPDX-License-Identifier: MIT */
/* The bits of MODIFY_QP's attribute mask, as in enum ibv_qp_attr_mask. */
#ifndef SOFTHCA_HCA_QP_ATTRS_H
#define SOFTHCA_HCA_QP_ATTRS_H

enum attr_mask {
	A_STATE = 1 << 0,
	A_CUR_STATE = 1 << 1,
	A_SQD_NOTIFY = 1 << 2,
	A_ACCESS = 1 << 3,
	A_PKEY = 1 << 4,
	A_PORT = 1 << 5,
	A_QKEY = 1 << 6,
	A_AV = 1 << 7,
	A_MTU = 1 << 8,
	A_TIMEOUT = 1 << 9,
	A_RETRY = 1 << 10,
	A_RNR_RETRY = 1 << 11,
	A_RQ_PSN = 1 << 12,
	A_MAX_RD = 1 << 13,
	A_ALT_PATH = 1 << 14,
	A_MIN_RNR = 1 << 15,
	A_SQ_PSN = 1 << 16,
	A_MAX_DEST_RD = 1 << 17,
	A_PATH_MIG = 1 << 18,
	A_DEST_QPN = 1 << 20,
	A_RATE_LIMIT = 1 << 25,
};

#endif
