#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs unmodified tools of Debian (rdma-core, perftest, UCX and others) on the software HCA.

usage: conformance.py SOFTHCA-RUN GROUP LEVEL [SOFTHCA-RUN'S OPTION...]

LEVEL quick: one case of each kind; full: all but the sweeps over all sizes; long: also these sweeps.
GROUP all: every group; doorbells: the groups that post work requests.

Each case of the group is a server and a client, or one tool alone; each process runs under a softhca-run of its own. A
case passes when both end with 0 in time, when their output contains the requested results, when the HCA reports
nothing, and when no file of the fabric is left. Ends with 77, a skip, if all cases that run pass but a tool is not
installed. CONFORMANCE_PRELOAD goes into LD_PRELOAD of the tools, and PERFTEST_PRELOAD into that of perftest.
"""

import contextlib
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

GUARD_S = 400  # guards only against hanging
ROCE = "link=roce rate_mbps=100000\n"
FOUR_RAILS = "numa=0\nnuma=0\nnuma=1\nnuma=1\n"


TOOLS = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"  # not in the PATH of every user


class Failure(Exception):
    pass


class Case:
    """A server and a client that has the server's arguments, and a host; or one tool alone."""

    def __init__(self, command, check, topology=""):
        self.command = shlex.split(command)
        self.check = check
        self.topology = topology
        self.name = command + {ROCE: " (RoCE)", FOUR_RAILS: " (4 rails)"}.get(topology, "")

    def tool(self):
        """Returns the name of the tool, without env and the variables that env sets."""
        return next(w for w in self.command if w != "env" and "=" not in w)


class Connection(Case):
    """A pair that connects by the connection manager: server and client have arguments of their own."""

    # No process listens yet: the client is started again.
    EARLY = re.compile("REJECTED, error:? 8|UNREACHABLE, error: 1|Unexpected CM event bl blka [78]$",
                       re.M)
    # The client's second connection, for the QP, is refused because perftest's server does not listen again yet. The
    # server then waits for ever, so both are started again.
    BETWEEN = re.compile("REJECTED; error: 8|UNREACHABLE; error: 1")

    def __init__(self, server, client, check, topology=""):
        super().__init__(client, check, topology)
        self.server = shlex.split(server)


def listening(port):
    """Returns true if a TCP socket of this host listens on the port."""
    for table in "/proc/net/tcp", "/proc/net/tcp6":
        try:
            with open(table) as f:
                rows = [line.split() for line in f.readlines()[1:]]
        except FileNotFoundError:
            continue
        if any(int(r[1].rsplit(":", 1)[1], 16) == port and r[3] == "0A" for r in rows):
            return True
    return False


ports = itertools.cycle(range(20000, 32000))
for _ in range(os.getpid() * 37 % 12000):
    next(ports)


def free_port():
    return next(p for p in ports if not listening(p))


class Tool:
    """A tool under softhca-run, with its output in a file."""

    # rping before rdma-core 59: at the end its main thread closes the channel. If its other thread does
    # not wait for the next event yet, that thread ends the process with -1 (mended upstream by
    # "rping: terminate CM event thread before exiting"). All pings are done by then.
    LATE = re.compile(r"DISCONNECT EVENT\.\.\.\n(?:.*\n)*rdma_get_cm_event: Bad file descriptor$",
                      re.M)

    def __init__(self, runner, options, fabric, args):
        self.args = args
        self.out = tempfile.TemporaryFile("w+")
        env = dict(os.environ, PATH=TOOLS)
        every, perftest = env.pop("CONFORMANCE_PRELOAD", ""), env.pop("PERFTEST_PRELOAD", "")
        if preload := ":".join(filter(None, [every, perftest if args[0].startswith("ib_") else ""])):
            env["LD_PRELOAD"] = preload
        self.process = subprocess.Popen(
            [runner, "--fabric", fabric, *options, *args],
            stdin=subprocess.DEVNULL, stdout=self.out, stderr=subprocess.STDOUT, env=env)

    def output(self):
        self.out.seek(0)
        return self.out.read()

    def finish(self, deadline):
        try:
            rc = self.process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise Failure(f"{shlex.join(self.args)} hangs:\n{self.output()}") from None
        if rc and not (rc == 255 and self.args[0] == "rping" and self.LATE.search(self.output())):
            raise Failure(f"{shlex.join(self.args)} ends with {rc}:\n{self.output()}")
        said = [l for l in self.output().splitlines() if l.startswith("softhca:")]
        if said:
            raise Failure(f"the HCA reports on {shlex.join(self.args)}:\n" + "\n".join(said))
        return self.output()

    def ends_within(self, seconds):
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.out.close()


@contextlib.contextmanager
def tools(runner, options, fabric):
    """Yields a function that starts a tool. All tools are stopped in the end, the last one first."""
    with contextlib.ExitStack() as stack:
        def start(args):
            tool = Tool(runner, options, fabric, args)
            stack.callback(tool.stop)
            return tool
        yield start


def run_pair(start, case, deadline):
    port = free_port()
    args = case.command + ["-p", str(port)]
    server = start(args)
    # No event reports that another program listens, so this polls until it listens or ends. The kernel needs
    # milliseconds to print the table of sockets.
    while not listening(port) and time.monotonic() < deadline and not server.ends_within(.05):
        pass
    case.check(case, start(args + ["127.0.0.1"]).finish(deadline), passive=False)
    case.check(case, server.finish(deadline), passive=True)


def run_connection(start, case, deadline):
    server, output = start(case.server), None
    while output is None:
        client = start(case.command)
        try:
            output = client.finish(deadline)
        except Failure:
            if time.monotonic() > deadline:
                raise
            if case.BETWEEN.search(client.output()):
                server.stop()
                server = start(case.server)
            elif not case.EARLY.search(client.output()) or server.process.poll() is not None:
                raise
    case.check(case, output, passive=False)
    case.check(case, server.finish(deadline), passive=True)


def run_alone(start, case, deadline):
    case.check(case, start(case.command).finish(deadline), passive=False)


def run_case(runner, options, case):
    fabric = f"conformance-{os.getpid()}"
    path = f"/dev/shm/softhca-{os.getuid()}-{fabric}"
    with tempfile.NamedTemporaryFile("w", suffix=".topo") as topology:
        if case.topology:
            topology.write(case.topology)
            topology.flush()
            options = [*options, "--topology", topology.name]
        run = run_connection if isinstance(case, Connection) else run_alone if case.command[0] in ALONE else run_pair
        with tools(runner, options, fabric) as start:
            run(start, case, time.monotonic() + GUARD_S)
    if os.path.exists(path):
        raise Failure(f"{path} is left")


# Checks of the output.

def value_of(case, option, default):
    if option in case.command:
        return int(case.command[case.command.index(option) + 1])
    return default


def pingpong_done(case, output, passive):
    iters = value_of(case, "-n", 1000)
    size = value_of(case, "-s", 1024 if "ud" in case.command[0] else 4096)
    if not re.search(rf"^{iters} iters in ", output, re.M):
        raise Failure(f"no '{iters} iters' in:\n{output}")
    total = re.search(r"^(\d+) bytes in ", output, re.M)
    if not total or int(total[1]) != 2 * iters * size:
        raise Failure(f"not {2 * iters * size} bytes in:\n{output}")
    if "invalid data" in output:
        raise Failure(f"wrong data:\n{output}")


def rows(output):
    """Returns (bytes, iterations) of each line of results. The times are inf where perftest could not calibrate the
    clock on a busy machine (it prints "Correlation coefficient r^2")."""
    return [(int(m[1]), int(m[2]))
            for m in re.finditer(r"^ (\d+) +(\d+) +(?:[\d.]+|inf) +(?:[\d.]+|inf)", output, re.M)]


def perftest_done(case, output, passive):
    if "-a" in case.command:
        sizes = [2 ** i for i in range(1, 24)]
    else:
        sizes = [value_of(case, "-s", 8 if "atomic" in case.command[0] else 2)]
    iters = value_of(case, "-n", 0)
    if case.command[0].endswith("_bw"):
        iters *= value_of(case, "-q", 1)
    wanted = [(size, iters) for size in sizes]
    got = rows(output)
    if passive and got in ([], wanted[-1:]):
        return  # the passive side prints nothing, or the last size only
    if got != wanted:
        raise Failure(f"not {iters} iterations of {sizes} in:\n{output}")


def ucx_done(case, output, passive):
    if said := re.findall(r"^.*UCX +(?:WARN|ERROR).*$", output, re.M):
        raise Failure("UCX says:\n" + "\n".join(said))
    iters = value_of(case, "-n", 0)
    if not passive and not re.search(rf"^Final: +{iters} ", output, re.M):
        raise Failure(f"no {iters} iterations in:\n{output}")


def shows(*patterns):
    """Returns a check that searches for each pattern in the output."""
    def check(case, output, passive):
        for pattern in patterns:
            if not re.search(pattern, output, re.M):
                raise Failure(f"no '{pattern}' in:\n{output}")
        if "No such file" in output:
            raise Failure(f"something is not found:\n{output}")
    return check


def sides(pattern, client=None):
    """Returns a check that searches for `pattern` in the output of each side, or for `client` in that of the client."""
    server_shows, client_shows = shows(pattern), shows(client or pattern)

    def check(case, output, passive):
        (server_shows if passive else client_shows)(case, output, passive)
    return check


ALONE = {"ibv_devinfo", "ibv_devices", "ls", "stat", "find", "ibstat", "ibstatus"}
QUICK, FULL, LONG = range(3)


def devices():
    yield QUICK, Case("ibv_devices", shows(r"^ +mlx5_0 +\t025f48fffe000000$"))
    for topology, link in ("", "InfiniBand"), (ROCE, "Ethernet"):
        yield QUICK, Case("ibv_devinfo -v", shows("hca_id:\tmlx5_0", "PORT_ACTIVE", "vendor_part_id:\t\t\t4123",
                                                  "atomic_cap:\t\t\tATOMIC_HCA", r"GID\[  0\]:",
                                                  f"link_layer:\t\t{link}"), topology)


def system():
    """Tools of administrators."""
    base = "/sys/class/infiniband"
    names = [rf"^{base}/mlx5_{i}$" for i in range(4)]
    headings = [f"^CA 'mlx5_{i}'$" for i in range(4)]
    links = [rf"^l.* mlx5_{i} -> ../../devices/pci.*/infiniband/mlx5_{i}$" for i in range(4)]
    yield QUICK, Case(f"ls -l {base}", shows(*links), FOUR_RAILS)
    yield QUICK, Case(f"ls -l {base}/mlx5_0/ports/1 /dev/infiniband/uverbs0",
                      shows("^-r.* state$", "^d.* gids$", "^c.* 231, 192 .*uverbs0$"))
    yield QUICK, Case(f"stat {base}/mlx5_3", shows("symbolic link"), FOUR_RAILS)
    yield QUICK, Case(f"stat -L -c %F%t:%T {base}/mlx5_3 /dev/infiniband/uverbs3",
                      shows("^directory", "^character special filee7:c3$"), FOUR_RAILS)
    yield QUICK, Case(f"find {base}/ -name 'mlx5_*'", shows(*names), FOUR_RAILS)
    yield QUICK, Case("ibstat", shows(*headings, "State: Active", "Rate: 200",
                                      "layer: InfiniBand"), FOUR_RAILS)
    yield QUICK, Case("ibstat", shows("layer: Ethernet"), ROCE)
    yield QUICK, Case("ibstatus", shows(*(f"device 'mlx5_{i}' port 1" for i in range(4)),
                                        "4: ACTIVE", "InfiniBand$"), FOUR_RAILS)
    yield QUICK, Case("ibstatus mlx5_0:1", shows("link_layer:.*Ethernet"), ROCE)


def pingpong(tool, sizes, more=()):
    for events in "", " -e":
        for size in sizes:
            level = QUICK if size == sizes[-1] else FULL
            yield level, Case(f"{tool} -c -n 50 -s {size}{events}", pingpong_done)
        yield FULL, Case(f"{tool} -c -n 50 -g 1{events}", pingpong_done, ROCE)
        for args in more:
            yield FULL, Case(f"{tool} -c -n 50 {args}{events}", pingpong_done)


def perftest(tool, level, *variants, topology=""):
    """-F: the tool accepts that the processor's frequency varies."""
    for args in variants:
        yield level, Case(f"{tool} -F {args}", perftest_done, topology)


def latency(verb, sizes, *more):
    tool = f"ib_{verb}_lat"
    yield from perftest(tool, QUICK, "-n 50 -s 2")
    yield from perftest(tool, FULL, *(f"-n 50 -s {size}" for size in sizes), *more)
    yield from perftest(tool, FULL, "-n 50 -s 64 -x 1", topology=ROCE)
    yield from perftest(tool, LONG, "-n 5 -a")


def bandwidth(verb, *more, quick=()):
    tool = f"ib_{verb}_bw"
    yield from perftest(tool, QUICK, "-n 100 -s 4096", "-n 100 -s 4096 -q 8 -b", *quick)
    yield from perftest(tool, FULL, *(f"-n 100 -s {size}" for size in (1, 64, 1000000)),
                        "-n 100 -s 4096 -q 4", "-n 100 -s 4096 -b", "-n 128 -s 64 -l 16",
                        "-n 100 -s 64 -Q 1 -t 1", *more)
    yield from perftest(tool, FULL, "-n 100 -s 4096 -x 1", topology=ROCE)
    yield from perftest(tool, LONG, "-n 5 -a")


def atomic():
    for verb in "FETCH_AND_ADD", "CMP_AND_SWAP":
        yield from perftest("ib_atomic_lat", QUICK, f"-n 50 -A {verb}")
        yield from perftest("ib_atomic_bw", QUICK, f"-n 100 -A {verb}")
    yield from perftest("ib_atomic_bw", FULL, "-n 100 -q 4 -b")
    yield from perftest("ib_atomic_lat", FULL, "-n 50 -x 1", topology=ROCE)


def ucx():
    """UCX's own work requests, BlueFlame copies and completions (x), and verbs (v)."""
    for kind in "xv":
        transports = f"env UCX_TLS=rc_{kind},ud_{kind},self ucx_perftest -n 200 -w 20"
        for args in ("tag_lat -s 8", "tag_bw -s 512", "ucp_put_bw -s 4096", "ucp_get -s 4096",
                     "ucp_fadd -s 8", "ucp_am_bw -s 32"):
            yield FULL, Case(f"{transports} -t {args}", ucx_done)
        yield FULL, Case(f"{transports} -t tag_bw -s 1000000", ucx_done, FOUR_RAILS)
        yield FULL, Case(f"env UCX_TLS=ud_{kind},self ucx_perftest -n 200 -w 20 -t tag_bw -s 512",
                         ucx_done, ROCE)
    yield FULL, Case("env UCX_TLS=ud_x,self ucx_perftest -n 200 -w 20 -t tag_bw -s 512", ucx_done)
    # UCX spins while it waits, which takes long if a thread of the HCA needs the same core.
    yield QUICK, Case("env UCX_TLS=rc_x,self ucx_perftest -n 50 -w 5 -t tag_lat -s 8", ucx_done)
    yield QUICK, Case("env UCX_TLS=ud_x,self ucx_perftest -n 50 -w 5 -t tag_lat -s 8", ucx_done)


def connections():
    """Programs of librdmacm; the addresses are 127.0.0.1, the IPv4 addresses in the GIDs, and 0.0.0.0."""
    ping = sides(r"^server ping data: rdma-ping-9: ", r"^ping data: rdma-ping-9: ")
    yield QUICK, Connection("rping -s -v -C 10 -a 127.0.0.1", "rping -c -v -C 10 -a 127.0.0.1", ping)
    yield QUICK, Connection("udaddy", "udaddy -s 127.0.0.1", sides("^return status 0$"))
    yield FULL, Connection("ucmatose", "ucmatose -s 127.0.0.1", sides("^return status 0$"))
    yield FULL, Connection("rping -s -v -C 10 -a 0.0.0.0", "rping -c -v -C 10 -a 10.95.1.1", ping,
                           ROCE + ROCE)
    yield FULL, Connection("rping -s -v -C 10 -a 10.95.1.1",
                           "rping -c -v -C 10 -a 10.95.1.1 -I 10.95.0.1", ping, ROCE + ROCE)
    yield FULL, Connection("udaddy -b 10.95.0.1", "udaddy -s 10.95.0.1",
                           sides("^return status 0$"), ROCE)
    for level, tool, topology in (
            (QUICK, "ib_write_bw -n 100 -s 4096", ""), (QUICK, "ib_send_lat -n 50 -s 64", ""),
            (FULL, "ib_read_bw -n 100 -s 4096 -q 4", ROCE), (FULL, "ib_atomic_bw -n 100", ROCE),
            (FULL, "ib_send_bw -n 100 -s 1024 -c UD", "")):
        yield level, Connection(f"{tool} -F -R", f"{tool} -F -R 127.0.0.1", perftest_done, topology)


GROUPS = {
    "devices": devices,
    "system": system,
    "rc_pingpong": lambda: pingpong("ibv_rc_pingpong", (1, 64, 1000000, 4096),
                                    ("-m 256", "-r 1", "-N")),
    "srq_pingpong": lambda: pingpong("ibv_srq_pingpong", (1, 65536, 4096), ("-q 1", "-q 4 -r 16")),
    "ud_pingpong": lambda: pingpong("ibv_ud_pingpong", (1, 2048, 1024), ("-r 8",)),
    "uc_pingpong": lambda: pingpong("ibv_uc_pingpong", (1, 65536, 4096)),
    "write_lat": lambda: latency("write", (220, 221, 4096, 65536), "-n 50 -s 64 -I 0", "-n 50 -s 512 -I 512",
                                 "-n 50 -s 64 -c UC"),
    "write_bw": lambda: bandwidth("write", "-n 100 -s 4096 -c UC"),
    "read_lat": lambda: latency("read", (4096, 65536)),
    "read_bw": lambda: bandwidth("read", "-n 100 -s 4096 -o 1", "-n 100 -s 4096 -e"),
    "send_lat": lambda: latency("send", (220, 4096, 65536), "-n 50 -s 64 -c UC", "-n 50 -s 1024 -c UD",
                                "-n 50 -s 64 -I 0"),
    "send_bw": lambda: bandwidth("send", "-n 100 -s 2048 -q 4 -r 64", "-n 100 -s 2048 -c UC", "-n 100 -s 1024 -c UD",
                                 "-n 100 -s 2048 --use-srq -r 128",
                                 quick=("-n 100 -s 2048 -b --use-srq -r 128", "-n 100 -s 2048 -e")),
    "atomic": atomic,
    "ucx": ucx,
    "cm": connections,
}


NO_DOORBELLS = {"devices", "system"}  # groups that ring no doorbells


def every_group(without=frozenset()):
    for name, group in GROUPS.items():
        if name not in without:
            yield from group()


def main():
    levels = {"quick": QUICK, "full": FULL, "long": LONG}
    groups = GROUPS | {"all": every_group, "doorbells": lambda: every_group(NO_DOORBELLS)}
    if len(sys.argv) < 4 or sys.argv[2] not in groups or sys.argv[3] not in levels:
        sys.exit("usage: conformance.py SOFTHCA-RUN " + "|".join(groups) + " " +
                 "|".join(levels) + " [OPTION...]")
    runner, group, level, options = *sys.argv[1:4], sys.argv[4:]
    failed = count = 0
    missing = set()
    for needs, case in groups[group]():
        if needs > levels[level]:
            continue
        if not shutil.which(case.tool(), path=TOOLS):
            missing.add(case.tool())
            continue
        count += 1
        start = time.monotonic()
        try:
            run_case(runner, options, case)
            print(f"ok   {case.name} ({time.monotonic() - start:.1f} s)", flush=True)
        except Failure as failure:
            failed += 1
            print("FAIL", case.name, "--", failure, flush=True)
    print(f"{count - failed} of {count} passed")
    if missing:
        print("not installed:", *sorted(missing))
    sys.exit(1 if failed else 77 if missing else 0)


if __name__ == "__main__":
    main()
