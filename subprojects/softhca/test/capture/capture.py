# SPDX-License-Identifier: MIT
"""capture.py SOFTHCA-RUN SOFTHCACTL TRAFFIC: compares captures with what the HCA has recorded.

tshark and scapy read the files, too; without them the exit status is 77.
"""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import pcapng  # noqa: E402
from readers import scapy_agrees, tshark  # noqa: E402

RUN, CTL, TRAFFIC = sys.argv[1:4]
MTU = 1024
COMMENT = re.compile(
    r"process (\d+) QP 0x(\w{6}) (?:to|answers) process (\d+) QP 0x(\w{6}), entry (\d+)$"
)
ROCE = "name=mlx5_0 link=roce gid={0}1\nname=mlx5_1 link=roce gid={0}2\n"
SEND, WRITE, READ = (0x0A, 0x0B), (0x08, 0x09), 0x10


def pattern(n):
    """Returns the bytes of rig_fill(buf, n, 1)."""
    xs = ((2654435761 ^ i * 40503) & 0xFFFFFFFF for i in range(n))
    return bytes((x ^ x >> 13 ^ x >> 24) & 0xFF for x in xs)


def read(path):
    with open(path, "rb") as f:
        packets = pcapng.read(f.read())
    assert tshark(path) == [(p.opcode, p.psn) for p in packets]
    for p in packets:
        assert COMMENT.match(p.comment), p.comment
    return packets


def expected_packets(records, rnr_naks):
    """Returns the number of packets of these messages. An attempt that finds no receive adds a request and a NAK."""
    n = 2 * rnr_naks
    for transport, opcode, length, _ in records:
        parts = max(1, -(-length // MTU)) if opcode <= READ else 1
        n += parts if transport == "uc" else parts + 1
    return n


def psns_follow(packets):
    """Checks the PSNs of each QP's requests, and the PSNs and counts of the acknowledgements. Returns the messages."""
    following, counts, messages = defaultdict(int), Counter(), []
    for p in packets:
        operation, key = p.opcode & 31, COMMENT.match(p.comment).groups()
        if p.aeth is not None and operation not in (13, 14):
            qp = key[3]
            if p.aeth >> 24 == 0x1F:
                counts[qp] += 1
                assert p.psn == (following[qp] - 1) & 0xFFFFFF
            else:
                following[qp] = p.psn  # a NAK: the request is repeated, or was the last one
            assert p.aeth & 0xFFFFFF == counts[qp], (p, counts[qp])
        elif operation not in (13, 14, 15, 16):
            qp = key[1]
            assert p.psn == following[qp], (p, following[qp])
            step = max(1, -(-int.from_bytes(p.raw[-8:-4], "big") // MTU)) if operation == 12 else 1
            following[qp] += step
            if operation in (0, 4, 5, 6, 10, 11):
                messages.append([operation, b""])
            if operation < 12:
                messages[-1][1] += p.payload
    return messages


def run_traffic(tmp, name, options, argument=()):
    path = os.path.join(tmp, name + ".pcapng")
    env = {**os.environ, "SOFTHCA_CAPTURE": path, "SOFTHCA_TRACE": "1"}
    command = [RUN, *options, TRAFFIC, *argument]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=env).stdout
    return path, [line.split() for line in out.splitlines()]


def check_all(tmp, name, options, ip):
    path, lines = run_traffic(tmp, name, options)
    records = [(t, int(o), int(n), int(s)) for k, t, _, o, n, s in (x for x in lines if len(x) == 6)]
    (messages, size, rnr) = next(map(int, x[1:]) for x in lines if x[0] == "counts")
    packets = read(path)
    assert {p.ip for p in packets} == {ip}
    assert rnr > 0
    assert len(packets) == expected_packets(records, rnr), (len(packets), rnr)
    good = [r for r in records if not r[3]]
    assert messages == len(good) and size == sum(r[2] for r in good)
    seen = psns_follow(packets)
    sent = [r for r in records if r[1] in SEND + WRITE]
    assert len(seen) == len(sent) + rnr
    assert sum(len(m) for _, m in seen) == sum(r[2] for r in sent) + 5 * rnr
    want = pattern(32768)
    for _, payload in seen:
        assert payload == want[: len(payload)]
    return packets


def check_kill(tmp, options):
    """A message that has arrived is in the file, even if its sender was killed."""
    path, lines = run_traffic(tmp, "kill", options, ["kill"])
    got = [int(x[1]) for x in lines if x[0] == "got"]
    packets = read(path)
    last = [p.raw[-4 - len(p.payload) - 4 :] for p in packets if p.opcode == 9]
    imms = Counter(int.from_bytes(raw[:4], "big") for raw in last)
    assert got == list(range(1, len(got) + 1)) and len(got) >= 1000
    missing = [n for n in got if not imms[n]]
    assert not missing, missing
    assert max(imms) <= len(got) + 1 + 10


FAULTS = {  # for a WRITE of three packets: its status, and the opcodes of its packets
    "action=error syndrome=remote_access": (10, [6, 7, 8, 17]),
    "action=partial bytes=1500 syndrome=remote_op": (11, [6, 7, 17]),
    "action=partial bytes=3000 syndrome=retry_exceeded": (12, [6, 7, 8]),
    "action=no_answer count=2": (0, [6, 7, 8] * 3 + [17]),
    "action=delay delay_ns=1000000": (0, [6, 7, 8, 17]),
    "action=error syndrome=local_protection": (4, []),
}


def check_faults(tmp, options):
    for rule, (status, operations) in FAULTS.items():
        os.environ["SOFTHCA_FAULTS"] = f"opcode=write {rule}"
        path, lines = run_traffic(tmp, "fault", options, ["write"])
        assert ["status", str(status)] in lines, (rule, lines)
        with open(path, "rb") as f:
            assert [p.opcode for p in pcapng.read(f.read())] == operations, rule
    del os.environ["SOFTHCA_FAULTS"]


def start(command, **more):
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **more)


def free_port():
    with socket.socket() as s:
        s.bind(("", 0))
        return s.getsockname()[1]


def start_capture(*arguments, **more):
    """Starts softhcactl and waits for the line that it prints when its capture has begun. Reads no byte after that line,
    because communicate() would not return bytes that a stream has buffered."""
    ctl, line = start([CTL, "capture", *arguments], **more), b""
    while not line.endswith(b"\n"):
        byte = os.read(ctl.stderr.fileno(), 1)
        assert byte, line
        line += byte
    assert line == b"softhcactl: capturing\n", line
    return ctl


def pingpong(env, prepare=lambda server: None):
    """Two programs exchange 100 datagrams. Calls prepare() before the client starts."""
    command = [RUN, "ibv_ud_pingpong", "-g", "0", "-n", "50", "-s", "1000", "-p", str(free_port())]
    server = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)
    prepare(server)
    while subprocess.run([*command, "localhost"], env=env, check=False, capture_output=True).returncode:
        assert server.poll() is None
    assert server.wait() == 0


def check_ctl(tmp, env):
    """softhcactl captures the packets of all QPs while two programs run."""
    path = os.path.join(tmp, "ud.pcapng")
    fabric = env["SOFTHCA_FABRIC"]
    holder = subprocess.Popen([RUN, "--topology", os.path.join(tmp, "roce"), "cat"], env=env,
                              stdin=subprocess.PIPE)
    while subprocess.run([CTL, "show"], env=env, capture_output=True, check=False).returncode:
        pass
    with open(path, "wb") as f:
        ctl = start_capture("-", env=env, stdout=f)
        second = subprocess.run([CTL, "capture", path + "2"], env=env, capture_output=True, check=False)
        assert second.returncode == 1 and b"captured already" in second.stderr, second
        pingpong(env)
        ctl.send_signal(signal.SIGINT)
        said = ctl.communicate()[1]
        assert ctl.returncode == 0, (ctl.returncode, said)
    packets = read(path)
    count = list(map(int, re.findall(r"\d+", said)))
    assert count == [len(packets), len(packets), sum(len(p.payload) for p in packets)], said
    assert {p.opcode for p in packets} == {0x64} and {len(p.payload) for p in packets} == {1000}
    assert len(packets) == 100
    assert not os.path.exists(f"/dev/shm/softhca-{os.geteuid()}-{fabric}/capture")
    one_qp(tmp, env)
    end_of_reader(env)
    stalled_reader(env)
    end_of_program(tmp, env, holder)


def one_qp(tmp, env):
    """Captures the packets that one QP sends and gets, and none of other programs."""
    path = os.path.join(tmp, "qp.pcapng")
    ctl = qp = None

    def capture(server):
        nonlocal ctl, qp
        while not qp:
            assert server.poll() is None
            shown = subprocess.run([CTL, "show"], env=env, capture_output=True, check=True, text=True).stdout
            qp = re.search(r"^0x(\w+) .* UD +INIT ", shown, re.M)
        ctl = start_capture("--qp", "0x" + qp[1], path, env=env)
        subprocess.run([RUN, TRAFFIC, "kill"], env=env, check=True, stdout=subprocess.DEVNULL)

    pingpong(env, capture)
    ctl.send_signal(signal.SIGTERM)
    ended_well(ctl)
    packets = read(path)
    assert len(packets) == 100 and all(qp[1] in COMMENT.match(p.comment).group(2, 4) for p in packets), packets


def ended_well(ctl):
    said = ctl.communicate()[1]
    assert ctl.returncode == 0, (ctl.returncode, said)


def end_of_reader(env):
    """The capture ends when its pipe has no reader any more."""
    ctl = start_capture("-", env=env, stdout=subprocess.PIPE)
    ctl.stdout.close()
    ended_well(ctl)


def stalled_reader(env):
    """A signal ends the capture although the pipe's reader does not read what is there."""
    ctl = start_capture("-", env=env, stdout=subprocess.PIPE)
    subprocess.run([RUN, TRAFFIC, "kill"], env=env, check=True, stdout=subprocess.DEVNULL)
    ctl.send_signal(signal.SIGTERM)
    assert ctl.wait(60) == 1
    assert "does not read" in ctl.stderr.read()
    ctl.stdout.close()


def end_of_program(tmp, env, holder):
    """The capture ends when the last program of the fabric ends."""
    ctl = start_capture("-", env=env, stdout=subprocess.DEVNULL)
    holder.stdin.close()
    assert holder.wait() == 0
    ended_well(ctl)


def check_refusals(tmp, env):
    def says(status, text, *arguments):
        r = subprocess.run([CTL, "capture", *arguments], env=env, capture_output=True, text=True,
                           check=False)
        assert r.returncode == status and text in r.stderr and r.stderr.count("\n") == 1, r

    says(2, "give a command")
    says(2, "give a QP number", "--qp", "0", "x")
    says(2, "give a QP number", "--qp=16777216", "x")
    says(2, "give [--qp N] and one FILE", "--qp", "5")
    says(2, "give [--qp N] and one FILE", "a", "b")
    says(1, "no fabric", os.path.join(tmp, "x"))
    for path, why in (("/nowhere/x", "SOFTHCA_CAPTURE=/nowhere/x: No such file"),
                      ("/sys/x", "SOFTHCA_CAPTURE=/sys/x: Permission denied"), ("/dev/null", "give a regular file")):
        r = subprocess.run([RUN, "true"], env={**env, "SOFTHCA_CAPTURE": path}, text=True,
                           capture_output=True, check=False)
        assert r.returncode and why in r.stderr, r


def main():
    if not shutil.which("tshark"):
        print("tshark is not installed")
        return 77
    try:
        import scapy.contrib.roce  # noqa: F401
    except ImportError:
        print("python3-scapy is not installed")
        return 77
    with tempfile.TemporaryDirectory() as tmp:
        os.environ["SOFTHCA_FABRIC"] = f"capture-{os.getpid()}"
        for name, prefix, ip in (("roce", "10.0.0.", 4), ("roce6", "2001:db8::", 6)):
            roce = os.path.join(tmp, name)
            with open(roce, "w") as f:
                f.write(ROCE.format(prefix))
            scapy_agrees(check_all(tmp, name, ["--topology", roce], ip))
        check_refusals(tmp, dict(os.environ))
        check_all(tmp, "ib", ["-n", "2"], 6)
        check_faults(tmp, ["-n", "2"])
        check_kill(tmp, ["-n", "2"])
        check_ctl(tmp, dict(os.environ))
    return 0


sys.exit(main())
