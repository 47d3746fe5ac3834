/* SPDX-License-Identifier: MIT */
/*
 * The structures that adapter and provider exchange through memory: work queue entries,
 * completions, doorbell records. All multi-byte fields are big endian.
 */
#ifndef SOFTHCA_ABI_WIRE_H
#define SOFTHCA_ABI_WIRE_H

#include <assert.h>
#include <stdint.h>

#define WQE_BLOCK 64 /* a WQEBB, the unit of a send queue; called a block */

#define WQE_UNIT 16 /* bytes; unit of the length `ds` in qpn_ds */
#define WQE_MAX_UNITS 63 /* `ds` has six bits */
#define WQE_INLINE 0x80000000u /* set in the length of an inline segment */
#define WQE_LKEY_END 0x100u /* lkey after the last segment of a receive entry that is not full */
#define WQE_AV_EXTENDED 0x80000000u /* in dqp_dct */

#define CTRL_CQ_UPDATE 0x08
#define CTRL_SOLICITED 0x02

#define DBREC_RECV 0 /* offsets in a QP's doorbell record */
#define DBREC_SEND 4
#define CQ_DBREC_ARM 4 /* offset of the arm word in a CQ's doorbell record */
#define CQ_CI_MASK 0xffffffu /* consumer index, in the record and in an arm word */
#define CQ_ARM_SN(word) ((word) >> 28 & 3) /* the program raises it for each event that it reads */
#define CQ_NEVER_ARMED 0xffffffffu /* no arm word: the command field of an arm word is 0 or 1 */

#define UAR_PAGE 4096u /* size of a doorbell page; the next four are offsets and sizes in it */
#define UAR_CQ_DOORBELL 0x20u
#define UAR_BF_FIRST 0x800u
#define UAR_BF_BUFFER 0x100u /* a BlueFlame register consists of two buffers */
#define UAR_BF_REGISTER 0x200u

enum wqe_opcode {
	OP_NOP = 0x00,
	OP_SEND_INVAL = 0x01,
	OP_WRITE = 0x08,
	OP_WRITE_IMM = 0x09,
	OP_SEND = 0x0a,
	OP_SEND_IMM = 0x0b,
	OP_READ = 0x10,
	OP_ATOMIC_CS = 0x11,
	OP_ATOMIC_FA = 0x12,
};

struct wqe_ctrl {
	uint32_t opmod_idx_opcode;
	uint32_t qpn_ds;
	uint8_t signature;
	uint8_t stream[2];
	uint8_t fm_ce_se;
	uint32_t imm; /* copied to the receiver's completion unchanged */
};

struct wqe_raddr {
	uint64_t addr;
	uint32_t rkey;
	uint32_t reserved;
};

struct wqe_atomic {
	uint64_t swap_add;
	uint64_t compare;
};

struct wqe_data {
	uint32_t bytes;
	uint32_t lkey;
	uint64_t addr;
};

/*
 * Address vector of a datagram. The fields from reserved2 on exist if WQE_AV_EXTENDED is set in
 * dqp_dct.
 */
struct wqe_av {
	uint32_t qkey;
	uint32_t reserved;
	uint32_t dqp_dct;
	uint8_t stat_rate_sl;
	uint8_t fl_mlid;
	uint16_t rlid;
	uint8_t reserved2[10];
	uint8_t tclass;
	uint8_t hop_limit;
	uint32_t grh_gid_fl; /* bit 30: with a GRH; 20..27 source GID; 0..19 flow label */
	uint8_t rgid[16];
};

struct wqe_srq_next {
	uint8_t reserved[2];
	uint16_t next_index;
	uint8_t reserved2[12];
};

struct cqe64 {
	uint8_t reserved[2];
	uint16_t wqe_id;
	uint8_t reserved4[13];
	uint8_t ml_path;
	uint8_t reserved18[4];
	uint16_t slid;
	uint32_t flags_rqpn;
	uint32_t reserved28;
	uint32_t uidx;
	uint32_t imm;
	uint8_t reserved40[4];
	uint32_t byte_cnt;
	uint64_t timestamp;
	uint32_t sop_drop_qpn;
	uint16_t wqe_counter;
	uint8_t signature;
	uint8_t op_own; /* opcode << 4 | format << 2 | solicited << 1 | owner */
};

#define CQE_SOLICITED 0x02
/*
 * Bits of flags_rqpn. With RoCE, the service level field contains the type of the network
 * header.
 */
#define CQE_GRH (1u << 28)
#define CQE_SL(sl) ((uint32_t)(sl) << 24)
#define CQE_ROCE_IPV6 (CQE_SL(0x9) | CQE_GRH) /* bit 3 of the field: UDP */
#define CQE_ROCE_IPV4 (CQE_SL(0xa) | CQE_GRH)
#define GRH_BYTES 40 /* precede the payload in a datagram's receive buffer */

enum cqe_opcode {
	CQE_REQ = 0,
	CQE_RESP_WRITE_IMM = 1,
	CQE_RESP_SEND = 2,
	CQE_RESP_SEND_IMM = 3,
	CQE_RESP_SEND_INV = 4,
	CQE_RESIZE = 5,
	CQE_REQ_ERR = 13,
	CQE_RESP_ERR = 14,
};

/* Offsets of the fields of an error completion. */
#define CQE_VENDOR_SYNDROME 54
#define CQE_SYNDROME 55

enum syndrome {
	SYN_NONE = 0,
	SYN_LOCAL_LENGTH = 0x01,
	SYN_LOCAL_QP_OP = 0x02,
	SYN_LOCAL_PROT = 0x04,
	SYN_FLUSH = 0x05,
	SYN_LOCAL_ACCESS = 0x11,
	SYN_REMOTE_INVAL_REQ = 0x12,
	SYN_REMOTE_ACCESS = 0x13,
	SYN_REMOTE_OP = 0x14,
	SYN_RETRY_EXC = 0x15,
	SYN_RNR_EXC = 0x16,
};

static_assert(sizeof(struct wqe_ctrl) == 16, "control segment");
static_assert(sizeof(struct wqe_av) == 48, "address vector");
static_assert(sizeof(struct wqe_srq_next) == 16, "next segment");
static_assert(sizeof(struct cqe64) == 64, "completion");

#endif
