# SPDX-License-Identifier: MIT
"""two-hosts.py SOFTHCA-RUN PEER GROUP [short|long]: programs on two hosts, which are network namespaces with a fabric
each, exchange packets over UDP.

GROUP is one of these:
    tools       the vendor's programs
    rdma_cm     the vendor's programs that connect by rdma_cm
    ucx         ucx_perftest
    faults      PEER, while its packets are lost, doubled and late
    losses      tools and ucx, with the same faults
    modes       PEER with several settings of the HCA
    ipv6        PEER and tools over IPv6
    capture     captures of both hosts
    counters    the counters of both hosts' ports
    foreign     PEER while a program on one host sends packets that the HCA must reject
    killed      processes that are killed, or end slowly
    messages    the lines that the HCA prints about what it cannot do
    partitions  P_Keys
"""
import os
import random
import select
import shutil
import socket
import subprocess
import sys

import hosts

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../capture"))
import pcapng  # noqa: E402
import readers  # noqa: E402

RUN, PEER, GROUP = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3]
SHORT, LONG = (sys.argv[4:] == [length] for length in ("short", "long"))
OPTIONS = 2 if SHORT else None  # number of variants that are tried; None: all
DATAGRAM_PEER = os.path.join(os.path.dirname(PEER), "datagram-peer")
DATAGRAMS, DATAGRAM_BYTES = 5, 0 + 1 + 4 + 1023 + 1024  # that each side of DATAGRAM_PEER sends
hosts.unsteady_clock = True


def peers(a, b, percent, *options, env={}):
    for said in hosts.lossy_pair(a, b, PEER, *options, port=4444, percent=percent, env=env):
        assert "all is right" in said and "strict" not in said, said


def run_faults():
    with hosts.Network(RUN) as (a, b):
        for percent in (10,) if SHORT else (0, 1, 10) if LONG else (0, 10):
            for options in ([], ["-q", "4", "-s"], ["-m", "1"], ["-m", "5", "-q", "2"])[:OPTIONS]:
                peers(a, b, percent, *options)


def run_modes():
    """Runs both ends with the same settings, with few losses."""
    modes = [{"SOFTHCA_STRICT": "abort", "SOFTHCA_BF": "1"}, {"SOFTHCA_MODE": "poll"},
             {"SOFTHCA_CHAOS": "1"}, {"SOFTHCA_STRICT": "abort", "SOFTHCA_CHAOS": "2"}]
    with hosts.Network(RUN) as (a, b):
        for env in modes:
            peers(a, b, 1, "-q", "2", "-s", env=env)
            if not SHORT:
                peers(a, b, 1, env=env)


def captured(path):
    """Returns the packets of a capture. Checks each ICRC, and that tshark reports no error."""
    with open(path, "rb") as f:
        packets = pcapng.read(f.read())
    if is_installed("tshark"):
        assert readers.tshark(path) == [(p.opcode, p.psn) for p in packets]
    return packets


def capture(a, b, gid, ends):
    """Captures on both hosts the packets that they exchange, and compares them. @ends: the addresses."""
    path = os.path.join(b.tmp, f"capture-{gid}")
    hosts.pair(a, b, PEER, "-n", "100", "-g", gid, port=4444, env={"SOFTHCA_CAPTURE": path},
               server_env={"SOFTHCA_CAPTURE": path + "-a"})
    seen = []
    for packets in (captured(path), captured(path + "-a")):
        seen.append({p.raw for p in packets})
        assert len(packets) > 300, len(packets)
        at = 12 if len(ends[0]) == 4 else 8
        assert {p.raw[at : at + 2 * len(ends[0])] for p in packets} == \
            {ends[0] + ends[1], ends[1] + ends[0]}
        assert all("of another host" in p.comment for p in packets)
        assert {p.opcode for p in packets} >= {0, 2, 4, 10, 12, 17, 18, 19, 20}
    # Each host has received the packets that the other one has sent, except those in flight at the end.
    assert len(seen[0] ^ seen[1]) < 20, (len(seen[0]), len(seen[1]))


def capture_datagrams(a, b):
    """Each datagram is in the capture once, although the QPs of both hosts have the same numbers."""
    path = os.path.join(b.tmp, "capture-datagrams")
    hosts.pair(a, b, DATAGRAM_PEER, "0", port=4444, env={"SOFTHCA_CAPTURE": path},
               server_env={"SOFTHCA_CAPTURE": path + "-a"})
    for name in path, path + "-a":
        with open(name, "rb") as f:
            packets = pcapng.read(f.read())
        assert all("of another host" in p.comment for p in packets), packets
        assert len(packets) == 2 * DATAGRAMS, len(packets)


def run_capture():
    with hosts.Network(RUN, ipv6=True) as (a, b):
        capture(a, b, "0", [socket.inet_aton(h.address) for h in (a, b)])
        capture(a, b, "1", [socket.inet_pton(socket.AF_INET6, h.ipv6[0][0]) for h in (a, b)])
        capture_datagrams(a, b)


def count(host, name):
    """Returns a counter of the host's adapter."""
    return int(host.start("cat", f"/sys/class/infiniband/mlx5_0/ports/1/{name}").end().splitlines()[-1])


def run_counters():
    """Datagrams are counted once at each end; the messages of RC QPs are counted by their kind."""
    with hosts.Network(RUN) as (a, b):
        members = [host.start("sleep", "1000") for host in (a, b)]  # they keep the fabrics, and their counters
        hosts.pair(a, b, DATAGRAM_PEER, "0", port=4444)
        for host in a, b:
            for way in "xmit", "rcv":
                assert count(host, f"counters/port_{way}_packets") == DATAGRAMS
                assert count(host, f"counters/port_{way}_data") == DATAGRAM_BYTES // 4
        peers(a, b, 0)
        for host, other in (a, b), (b, a):
            for kind in "write", "read", "atomic":
                assert count(host, f"hw_counters/rx_{kind}_requests") > 0, kind
            assert count(host, "hw_counters/out_of_buffer") >= count(other, "hw_counters/rnr_nak_retry_err")
        for member in members:
            member.stop()


def foreign(a, b, gid, *addresses):
    """Packets of other senders, damaged packets and packets without meaning, sent from @b, change nothing. @addresses:
    the first three arguments of foreign.py."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "foreign.py")

    def sender(*pace):
        program = hosts.Program([*b.prefix, sys.executable, script, *addresses, *pace], {})
        assert program.process.stdout.readline() == "running\n"
        return program

    member = a.start("sleep", "1000", env=hosts.faults(10, 100))  # keeps the fabric, and its counters
    packets, flood = sender(), sender("flood")
    peers(a, b, 10, "-g", gid, "-q", "2")  # timers cause lost packets to be sent again
    bad, icrcs = count(a, "counters/port_rcv_errors"), count(a, "hw_counters/rx_icrc_encapsulated")
    assert bad > icrcs > 0, (bad, icrcs)
    flood.stop()
    member.stop()
    for options in ([], ["-q", "2", "-s"], ["-m", "5"])[:OPTIONS]:
        peers(a, b, 0, "-g", gid, *options)
    assert packets.running(), packets.process.stdout.read()
    packets.stop()
    if shutil.which("ibv_ud_pingpong"):
        packets = sender(str(a.pid))
        hosts.pair(a, b, "ibv_ud_pingpong", "-g", gid, "-c", "-n", "50", port=18515)
        assert packets.running(), packets.process.stdout.read()
        packets.stop()


def run_foreign():
    with hosts.Network(RUN, ipv6=True) as (a, b):
        hosts.ip("addr", "add", "10.99.0.3/24", "dev", "wire0", pid=b.pid)
        hosts.ip("addr", "add", "fd99:0::3/64", "dev", "wire0", "nodad", pid=b.pid)
        foreign(a, b, "0", b.address, "10.99.0.3", a.address)
        foreign(a, b, "1", b.ipv6[0][0], "fd99:0::3", a.ipv6[0][0])


# A QP's timeout code: 0.27 s. A QP whose peer is killed fails after eight timeouts, 2.1 s. While its peer lives it must
# not fail, although a host whose cores have other work, real-time programs for example, may be silent for a second.
TIMEOUT = 16
RETRIES = 7  # of PEER


def started(a, b, *options, port):
    """Starts a server and a client, and waits until both run."""
    server = a.start(PEER, "-p", str(port), *options)
    server.await_listener(port)
    client = b.start(PEER, "-p", str(port), *options, a.address)
    server.await_line("running")
    client.await_line("running")
    return server, client


def only_retries(program, qps):
    said = program.end()
    assert said.count("transport retry counter exceeded") == qps == said.count("QP "), said


def end_slowly(a, b):
    """One process of a host receives the packets of all of them. When it exits, another one can take the UDP port at
    once, even if the exit is slow, as under a sanitizer that looks for leaks."""
    slow = a.start(PEER, "-n", "20", env={"HOSTS_LINGER": "1"})
    slow.await_listener(4444)
    client = b.start(PEER, "-n", "20", a.address)
    slow.await_line("running")
    second = started(a, b, "-n", "400", "-t", str(TIMEOUT), port=4445)
    assert "all is right" in client.end()
    slow.await_line("lingers")
    third = started(a, b, "-n", "20", "-t", str(TIMEOUT), port=4446)
    for program in *second, *third:
        assert "all is right" in program.end()
    slow.kill()
    slow.process.communicate()


def run_killed():
    """A process that is killed leaves its peer with errors, and does not affect other processes."""
    seed = int(os.environ.get("TEST_SEED", random.randrange(1 << 32)))
    print(f"TEST_SEED={seed}")
    rng = random.Random(seed)
    with hosts.Network(RUN) as (a, b):
        for _ in range(1 if SHORT else 2):
            pair = started(a, b, "-e", "-t", str(TIMEOUT), "-q", "2", port=4444)
            select.select([], [], [], rng.random() / 10)
            victim = rng.randrange(2)
            pair[victim].kill()
            only_retries(pair[not victim], 2)
            pair[victim].process.communicate()
        # The first of two processes of a host receives the packets of both. The test kills it.
        for victim in range(1 if SHORT else 2):
            first = started(a, b, "-e", "-t", str(TIMEOUT), port=4444)
            second = started(a, b, "-n", "400", "-q", "2" if SHORT else "8", port=4445)
            first[victim].kill()
            only_retries(first[not victim], 1)
            first[victim].process.communicate()
            for program in second:
                assert "all is right" in program.end()
        end_slowly(a, b)
        left = [name for name in os.listdir("/dev/shm") if a.fabric in name or b.fabric in name]
        assert not left, left


def run_partitions():
    """A full and a limited member reach each other, two limited ones do not; each packet has its sender's P_Key."""
    with hosts.Network(RUN, topology=["pkey=0x8001", "pkey=0x0001"]) as (a, b):
        path = os.path.join(b.tmp, "capture")
        hosts.pair(a, b, PEER, "-n", "20", port=4444, env={"SOFTHCA_CAPTURE": path},
                   server_env={"SOFTHCA_CAPTURE": ""})
        with open(path, "rb") as f:
            packets = pcapng.read(f.read())
        for end, pkey in (a, 0x8001), (b, 0x0001):
            sent = {p.pkey for p in packets if p.raw[12:16] == socket.inet_aton(end.address)}
            assert sent == {pkey}, sent
        hosts.pair(a, b, DATAGRAM_PEER, "0", port=4444)
    with hosts.Network(RUN, topology=["pkey=0x0001", "pkey=0x0001"]) as (a, b):
        members = [host.start("sleep", "1000") for host in (a, b)]
        # Retries for half a second: each host has the time to receive some of the other one's packets.
        pair = started(a, b, "-e", "-t", "14", port=4444)
        for program in pair:
            only_retries(program, 1)
        for host, member in zip((a, b), members):
            assert count(host, "counters/port_rcv_constraint_errors") > 0
            assert count(host, "hw_counters/local_ack_timeout_err") == RETRIES
            member.stop()


def fails(host, peer, says, *options, env={}):
    """Runs a client on @host, which must fail to connect its QP and print @says, and its server on @peer."""
    server = peer.start(PEER, "-e", env=env)
    server.await_listener(4444)
    client = host.start(PEER, "-e", *options, peer.address, env=env)
    said = client.process.communicate(timeout=hosts.GUARD_S)[0]
    server.process.kill()
    heard = server.process.communicate()[0]
    assert client.process.returncode == 1 and says in said, (said, heard)


def fails_tool(host, peer, says, *program):
    """Runs a tool whose transport cannot reach another host: the server gets an error, and the client waits."""
    if not shutil.which(program[0]):
        return
    server = peer.start(*program)
    server.await_listener(18515)
    client = host.start(*program, peer.address)
    server.await_line(says)
    for tool in (client, server):
        tool.process.terminate()
        tool.process.communicate()


def port_in_use(a, b):
    """While another program has the port, a line says so; afterwards everything works."""
    script = "import socket; s = socket.socket(type=socket.SOCK_DGRAM); " + \
             f"s.bind(('{a.address}', 4791)); print(flush=True); input()"
    other = subprocess.Popen([*a.prefix, sys.executable, "-c", script], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE)
    other.stdout.readline()
    server = a.start(PEER, "-n", "20")
    server.await_listener(4444)
    client = b.start(PEER, "-n", "20", a.address)
    server.await_line("UDP port 4791 of 10.99.0.1: Address already in use")
    other.communicate(b"\n")
    assert "all is right" in client.end() and "all is right" in server.end()


def run_messages():
    with hosts.Network(RUN, mtu=1500, ipv6=True) as (a, b):
        fails(b, a, "path MTU 4096 needs packets of up to 4168 bytes, but the network's MTU is 1500",
              "-m", "5")
        peers(a, b, 0, "-m", "3", "-n", "20")
        port_in_use(a, b)
        fails(b, a, "one GID is an IPv4 address and the other one an IPv6 address", "-g", "1")
        fails(b, a, "in step mode", env={"SOFTHCA_MODE": "step"})
        fails(b, a, "with SOFTHCA_LINK=virtual", env={"SOFTHCA_LINK": "virtual"})
        fails_tool(b, a, "only RC and UD QPs can reach another host", "ibv_uc_pingpong", "-g", "0")
        hosts.ip("addr", "del", "10.99.0.2/24", "dev", "wire0", pid=b.pid)
        hosts.ip("addr", "add", "10.99.0.22/24", "dev", "wire0", pid=b.pid)
        fails(b, a, "no route to the peer from the adapter's address: Cannot assign requested address")


missing = set()  # programs; without one of them the test counts as skipped


def is_installed(program):
    if not shutil.which(program):
        missing.add(program)
    return program not in missing


def installed(text):
    """@text has a command on each line. Returns those whose programs are installed."""
    return [line.split() for line in text.splitlines() if line and is_installed(line.split()[0])]


TOOLS = """
ibv_rc_pingpong -g 0 -c -n 100
ibv_rc_pingpong -g 0 -c -n 10 -s 100000 -m 4096
ibv_rc_pingpong -g 0 -c -n 50 -e
ibv_ud_pingpong -g 0 -c -n 50
ib_send_bw -x 0 -n 50
ib_send_lat -x 0 -n 20 -c UD
ib_write_bw -x 0 -n 50 -q 3
ib_write_lat -x 0 -n 20
ib_read_bw -x 0 -n 50
ib_read_lat -x 0 -n 20
ib_atomic_bw -x 0 -n 20
"""


IPV6_TOOLS = """
ibv_rc_pingpong -g 1 -c -n 100
ibv_ud_pingpong -g 1 -c -n 50
ib_send_lat -x 1 -n 20 -c UD
ib_write_bw -x 1 -n 50 -q 3
ib_read_lat -x 1 -n 20
ib_atomic_bw -x 1 -n 20
ibv_rc_pingpong -g 2 -c -n 50
"""


def run_ipv6():
    """PEER with all QPs on a global address, with all on a link-local one, and with QPs on each of the adapter's GIDs."""
    commands = [] if SHORT else installed(IPV6_TOOLS)
    with hosts.Network(RUN, ipv6=True) as (a, b):
        for options in (["-g", "1"], ["-g", "2", "-m", "5"], ["-g", "0,3", "-q", "6", "-s"])[:OPTIONS]:
            for percent in (0, 10) if LONG else (10,):
                peers(a, b, percent, *options)
        for gid in "0", "1", "2":
            for said in hosts.pair(a, b, DATAGRAM_PEER, gid, port=4444):
                assert "all is right" in said, said
        for command in commands:
            hosts.pair(a, b, *command, port=18515)
        if not SHORT:
            ucx(a, b, "rc_x,ud_x,self", "-t tag_bw -s 1000 -n 20", env={"UCX_IB_GID_INDEX": "1"})


# The server's command, and what the client adds to this command; {} is the server's address.
RDMA_CM = """
ib_write_lat -R -x 0 -n 20|{}
ib_send_lat -R -x 0 -n 20 -c UD|{}
ucmatose -C 5|-s {}
udaddy -C 5|-s {}
"""


# perftest makes two connections. The server listens for the second one after the first is up, but the client does not
# wait for that, so it may be refused, and then prints this text. The server then mistakes the next client's first
# connection for the second one.
HALF_MET = "Failed to connect RDMA CM events"
# A refused client prints one of these texts.
REFUSED = HALF_MET, "Unexpected CM event", "RDMA_CM_EVENT_REJECTED", "RDMA_CM_EVENT_UNREACHABLE"


def meet(a, b, server, client):
    """Like hosts.pair(), by rdma_cm: nothing shows that the server listens, so a refused client is started again."""
    running, guard = a.start(*server), hosts.in_time()
    while True:
        program = b.start(*client)
        try:
            said = program.end()
            break
        except AssertionError as e:
            refused = any(text in str(e) for text in REFUSED)
            if not refused or guard() or not running.running():
                raise AssertionError(f"{e}; the server has said: {running.stop()!r}") from None
            if HALF_MET in str(e):
                running.stop()
                running = a.start(*server)
    return running.end(), said


def run_rdma_cm():
    with hosts.Network(RUN) as (a, b):
        for line in RDMA_CM.strip().splitlines():
            server, client = (part.split() for part in line.format(a.address).split("|"))
            if is_installed(server[0]):
                meet(a, b, server, [*server, *client])


def run_tools():
    with hosts.Network(RUN) as (a, b):
        for command in installed(TOOLS):
            hosts.pair(a, b, *command, port=18515)


UCX_RC_TIMERS = {"UCX_RC_TIMEOUT": "60ms"}  # for losses at the end of a message
UCX_UD_TIMERS = {"UCX_UD_TIMER_TICK": "2ms", "UCX_UD_TIMER_BACKOFF": "1.2"}


def ucx(a, b, transports, options, percent=0, env={}):
    if not is_installed("ucx_perftest"):
        return
    env = {"UCX_NET_DEVICES": "mlx5_0:1", "UCX_IB_GID_INDEX": "0", "UCX_TLS": transports, **env}
    said = hosts.lossy_pair(a, b, "ucx_perftest", "-w", "5", *options.split(), port=13337,
                            percent=percent, env=env)
    assert "Final:" in said[1] and "WARN" not in said[0] + said[1], said


def run_ucx():
    with hosts.Network(RUN) as (a, b):
        for transports, options in (("rc_x,ud_x,self", "-t tag_lat -s 8 -n 50"),
                                    ("rc_x,ud_x,self", "-t tag_bw -s 100000 -n 20"),
                                    ("rc_v,ud_v,self", "-t ucp_get -s 4096 -n 20"),
                                    ("ud_x,self", "-t tag_bw -s 512 -n 50")):
            ucx(a, b, transports, options)


# With -u 0 the HCA repeats without limit, so a slow machine does not fail the test. The pingpongs are not in the list:
# their client may have ended when the ACK of the last message is lost, and then the server fails.
LOSSY_TOOLS = """
ib_write_bw -x 0 -u 0 -s 20000 -n {bulk}
ib_send_bw -x 0 -u 0 -s 20000 -n {bulk} -q 2
ib_read_bw -x 0 -u 0 -s 20000 -n {bulk}
ib_send_lat -x 0 -u 0 -n {trips}
ib_read_lat -x 0 -u 0 -n {trips}
ib_atomic_lat -x 0 -u 0 -n {trips}
"""


def run_losses():
    """Each program must end, and must have counted each completion once."""
    commands = installed(LOSSY_TOOLS.format(bulk=300 if LONG else 60, trips=300 if LONG else 30))
    n = "-n " + ("300" if LONG else "20")
    with hosts.Network(RUN) as (a, b):
        for percent, some in ((1, None if LONG else 2), (10, None)):
            for command in commands[:some]:
                hosts.lossy_pair(a, b, *command, port=18515, percent=percent)
            for transports, options, timers in (
                    ("rc_x,ud_x,self", "-t tag_lat -s 8", {**UCX_RC_TIMERS, **UCX_UD_TIMERS}),
                    ("rc_v,ud_v,self", "-t ucp_get -s 4096", {**UCX_RC_TIMERS, **UCX_UD_TIMERS}),
                    ("ud_x,self", "-t tag_bw -s 512", UCX_UD_TIMERS))[:some]:
                ucx(a, b, transports, f"{options} {n}", percent, timers)


status = hosts.run(globals()["run_" + GROUP], LONG)
print("not installed:", sorted(missing))
sys.exit(status or (hosts.SKIP if missing else 0))
