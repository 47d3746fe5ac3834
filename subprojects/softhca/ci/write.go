// SPDX-License-Identifier: MIT
// Writes eight bytes from one address of the program's memory to another through a QP that is connected to itself.
package main

/*
#cgo LDFLAGS: -libverbs
#include <infiniband/verbs.h>
#include <stdlib.h>

static struct ibv_mr *reg(struct ibv_pd *pd, void *p, size_t n)
{
	return ibv_reg_mr(pd, p, n, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
}

static int connect_to_itself(struct ibv_qp *qp)
{
	struct ibv_port_attr port;
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
		.path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num, .ah_attr.port_num = 1, .timeout = 14, .retry_cnt = 7};

	if (ibv_query_port(qp->context, 1, &port))
		return -1;
	a.ah_attr.dlid = port.lid;
	if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		return -1;
	a.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		return -1;
	a.qp_state = IBV_QPS_RTS;
	return ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		IBV_QP_MAX_QP_RD_ATOMIC);
}

static int post_write(struct ibv_qp *qp, struct ibv_mr *mr, void *from, void *to, size_t n)
{
	struct ibv_sge sge = {(uintptr_t)from, n, mr->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED, .wr.rdma = {(uintptr_t)to, mr->rkey}};

	return ibv_post_send(qp, &wr, &bad);
}
*/
import "C"

import (
	"fmt"
	"os"
	"unsafe"
)

func main() {
	list := C.ibv_get_device_list(nil)
	if list == nil || *list == nil {
		fmt.Println("no RDMA device")
		os.Exit(1)
	}
	ctx := C.ibv_open_device(*list)
	pd := C.ibv_alloc_pd(ctx)
	// The memory is C's: Go may move its own memory, but an adapter needs memory that stays at its address.
	memory := (*[2]C.long)(C.calloc(2, C.sizeof_long))
	memory[0] = 42
	mr := C.reg(pd, unsafe.Pointer(memory), C.size_t(unsafe.Sizeof(*memory)))
	cq := C.ibv_create_cq(ctx, 16, nil, nil, 0)
	attr := C.struct_ibv_qp_init_attr{send_cq: cq, recv_cq: cq, qp_type: C.IBV_QPT_RC}
	attr.cap.max_send_wr, attr.cap.max_send_sge = 1, 1
	qp := C.ibv_create_qp(pd, &attr)
	if qp == nil || C.connect_to_itself(qp) != 0 {
		fmt.Println("no QP")
		os.Exit(1)
	}
	if C.post_write(qp, mr, unsafe.Pointer(&memory[0]), unsafe.Pointer(&memory[1]), C.sizeof_long) != 0 {
		fmt.Println("the write cannot be posted")
		os.Exit(1)
	}
	var wc C.struct_ibv_wc
	for C.ibv_poll_cq(cq, 1, &wc) == 0 {
	}
	fmt.Printf("%s: %d\n", C.GoString(C.ibv_wc_status_str(wc.status)), memory[1])
}
