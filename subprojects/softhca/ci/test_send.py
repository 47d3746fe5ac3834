# SPDX-License-Identifier: MIT
"""SENDs between two RC QPs, with python3-pyverbs and the fixture of softhca.py."""
import pyverbs.enums as e
import pytest
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQEX, CqInitAttrEx, PollCqAttr
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

BYTES = 64
LATE_NS = 10_000  # in the virtual link's time, which does not depend on the machine


class End:
    """A QP on an adapter, with the memory for one message."""

    def __init__(self, device):
        self.context = Context(name=device)
        self.pd = PD(self.context)
        self.mr = MR(self.pd, BYTES, e.IBV_ACCESS_LOCAL_WRITE)
        self.cq = CQEX(self.context, CqInitAttrEx(cqe=4, wc_flags=e.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP))
        self.qp = QP(self.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=QPCap(1, 1, 1, 1)))

    def connect(self, peer):
        port = peer.context.query_port(1)
        path = AHAttr(dlid=port.lid, port_num=1)
        if port.link_layer == e.IBV_LINK_LAYER_ETHERNET:
            path = AHAttr(port_num=1, is_global=1, gr=GlobalRoute(dgid=peer.context.query_gid(1, 0), sgid_index=0))
        attr = QPAttr(port_num=1, path_mtu=e.IBV_MTU_1024)
        attr.dest_qp_num, attr.ah_attr = peer.qp.qp_num, path
        attr.timeout, attr.retry_cnt, attr.min_rnr_timer = 14, 7, 12
        self.qp.to_rts(attr)

    def sge(self):
        return [SGE(self.mr.buf, BYTES, self.mr.lkey)]

    def completion(self):
        """Waits for the next completion. Returns its status and its time in ns."""
        while self.cq.start_poll(PollCqAttr()):
            pass
        found = self.cq.status, self.cq.read_timestamp()
        self.cq.end_poll()
        return found


def pair(devices):
    """Returns a QP of the first adapter and one of the last adapter, which are connected."""
    a, b = End(devices[0]), End(devices[-1])
    a.connect(b)
    b.connect(a)
    a.mr.write("x" * BYTES, BYTES)
    return a, b


def send(a, b):
    """Sends a message. Returns the sender's status."""
    b.qp.post_recv(RecvWR(num_sge=1, sg=b.sge()))
    a.qp.post_send(SendWR(opcode=e.IBV_WR_SEND, num_sge=1, sg=a.sge()))
    return a.completion()[0]


def exchange(devices):
    """Sends a message. Returns the sender's status and the bytes that arrived."""
    a, b = pair(devices)
    return send(a, b), b.mr.read(BYTES, 0)


def late_messages(devices):
    """Sends eight messages, each after the previous one has arrived. Returns how many arrived more than LATE_NS after the
    previous one."""
    a, b = pair(devices)
    times = []
    for _ in range(8):
        assert send(a, b) == e.IBV_WC_SUCCESS
        times.append(b.completion()[1])
    return sum(after - before > LATE_NS for before, after in zip(times, times[1:]))


def test_one_adapter(hca):
    assert exchange(hca.devices) == (e.IBV_WC_SUCCESS, b"x" * BYTES)


@pytest.mark.hca("--rails", "2", "--strict=abort")
def test_two_adapters(hca):
    assert hca.devices == ["mlx5_0", "mlx5_1"]
    assert exchange(hca.devices) == (e.IBV_WC_SUCCESS, b"x" * BYTES)


@pytest.mark.hca(topology="link=roce\nlink=roce\n")
def test_roce(hca):
    assert exchange(hca.devices) == (e.IBV_WC_SUCCESS, b"x" * BYTES)


@pytest.mark.hca(faults="opcode=send nth=1 action=error syndrome=retry_exceeded")
def test_error(hca):
    assert exchange(hca.devices) == (e.IBV_WC_RETRY_EXC_ERR, bytes(BYTES))


@pytest.mark.hca("--link", "virtual")
def test_in_time(hca):
    assert late_messages(hca.devices) == 0


@pytest.mark.hca("--link", "virtual", faults="opcode=send nth=4 action=delay delay_ns=1000000")
def test_late(hca):
    assert late_messages(hca.devices) == 1
