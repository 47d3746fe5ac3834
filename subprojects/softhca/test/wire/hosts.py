# SPDX-License-Identifier: MIT
"""Hosts in network namespaces, each with a fabric whose adapters are bound to its addresses."""
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

GUARD_S = 400  # guards only against hanging
LOOK_S = 4  # between two checks of whether a program hangs
SKIP = 77
unsteady_clock = False  # true: perftest runs with unsteady-clock.c, so it is quicker and its figures are wrong
STOP_S = 80  # after which a program that should end counts as ignoring signals


def namespace():
    """A process that keeps a network namespace and a host name of its own."""
    keeper = subprocess.Popen(["unshare", "-n", "-u", "cat"], stdin=subprocess.PIPE)
    own = [os.stat(f"/proc/self/ns/{kind}").st_ino for kind in ("net", "uts")]
    while own[0] == os.stat(f"/proc/{keeper.pid}/ns/net").st_ino or \
            own[1] == os.stat(f"/proc/{keeper.pid}/ns/uts").st_ino:
        assert keeper.poll() is None, "unshare has failed"
    return keeper


def ip(*arguments, pid):
    subprocess.run(["nsenter", "-t", str(pid), "-n", "ip", *arguments], check=True)


def in_time():
    """Returns the guard of a program that may take GUARD_S."""
    due = time.monotonic() + GUARD_S
    return lambda: f"has not ended in {GUARD_S} s" if time.monotonic() > due else None


class Program:
    """A program that runs on a host. Its guard returns why the test should not wait any longer, or None."""

    started = []

    def __init__(self, command, env, name=""):
        Program.started.append(self)
        self.name = name
        self.guard = in_time()
        self.ports, told = os.pipe()  # see tell-listen.c
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        env={**os.environ, "HOSTS_LISTEN": str(told), **env}, pass_fds=[told])
        os.close(told)

    def running(self):
        return self.process.poll() is None

    def children(self):
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as f:
            return f.read().split()

    def kill(self):
        """Sends SIGKILL to the program, which softhca-run has started."""
        children = self.children()
        for child in children:
            with open(f"/proc/{child}/cmdline") as f:
                if f.read().split("\0")[0] == self.name:
                    os.kill(int(child), signal.SIGKILL)
                    return
        said = "" if self.running() else self.process.communicate()[0]
        raise AssertionError(f"no child of softhca-run is {self.name}: {children}: {said}")

    def await_line(self, text):
        """Reads up to the end of the first line with @text. Reads single bytes, and none after that line: end() does
        not get the bytes that process.stdout has buffered."""
        said, line = b"", b""
        while text.encode() not in line or not line.endswith(b"\n"):
            byte = os.read(self.process.stdout.fileno(), 1)
            said += byte
            line = byte if line.endswith(b"\n") else line + byte
            assert byte, f"{self.process.args} has not said: {text}, but {said.decode()}"

    def await_listener(self, port):
        """Returns when the program listens on the port, or has ended."""
        while os.read(self.ports, 2) not in (struct.pack("H", port), b""):
            pass

    def stop(self):
        """Ends the program, even if it ignores signals. Returns its output."""
        self.process.terminate()
        try:
            return self.process.communicate(timeout=STOP_S)[0]
        except subprocess.TimeoutExpired:
            for child in self.children():
                os.kill(int(child), signal.SIGKILL)
            self.process.kill()
            return "(SIGTERM did not end it) " + self.process.communicate()[0]

    def end(self):
        """Waits for exit status 0 and returns the output."""
        said = None
        while said is None:
            try:
                said = self.process.communicate(timeout=LOOK_S)[0]
            except subprocess.TimeoutExpired:
                why = self.guard()
                if why:
                    raise AssertionError((self.process.args, why, self.stop())) from None
        assert self.process.returncode == 0, (self.process.args, self.process.returncode, said)
        return said


def end_all():
    """Ends the programs that still run, and prints their output."""
    for program in Program.started:
        if program.running():
            print(f"still running: {program.process.args}: {program.stop()}", file=sys.stderr)


class Host:
    """
    A network namespace and a host name. Rail (adapter) number r of host number n has the address 10.99.r.n as GID 0,
    and with @ipv6 fd99:r::n as GID 1 and a link-local address as GID 2. @tell: the path of tell-listen.so.
    """

    def __init__(self, tmp, number, runner, tell, rails=1, topology="", ipv6=False):
        self.tmp, self.number = tmp, number
        self.addresses = [f"10.99.{r}.{number}" for r in range(rails)]
        self.address = self.addresses[0]
        self.ipv6 = [(f"fd99:{r}::{number}", f"fe80::{r}:{number}") for r in range(rails if ipv6 else 0)]
        self.name = f"host{number}"
        self.keeper = namespace()
        self.pid = self.keeper.pid
        path = os.path.join(tmp, f"host{number}")
        with open(path, "w") as f:
            for r, address in enumerate(self.addresses):
                gids = "".join(f"gid={a} " for a in [address, *(self.ipv6[r] if ipv6 else ())])
                f.write(f"name=mlx5_{r} link=roce netdev=wire{r} {gids}udp=on {topology}\n")
        self.prefix = ["nsenter", "-t", str(self.pid), "-n", "-u"]
        subprocess.run([*self.prefix, "hostname", self.name], check=True)
        self.tell = tell
        self.fabric = f"hosts-{number}-{os.getpid()}"
        self.runner = [*self.prefix, runner, "--topology", path, "--fabric", self.fabric]

    def start(self, *program, env={}):
        preload = [self.tell]
        if program[0].startswith("ib_"):  # perftest; -F: else it fails where it cannot measure the processor's frequency
            program += "-F",
            if unsteady_clock:
                preload.append(os.path.join(os.path.dirname(self.tell), "unsteady-clock.so"))
        return Program([*self.runner, *program], {"LD_PRELOAD": ":".join(preload), **env}, program[0])


def connect(hosts, switch, mtu):
    """Connects the hosts by a switch for each rail. @switch: the process that keeps the namespace of all switches."""
    for r in range(len(hosts[0].addresses)):
        ip("link", "add", f"rail{r}", "type", "bridge", pid=switch.pid)
        ip("link", "set", f"rail{r}", "mtu", str(mtu), "up", pid=switch.pid)
        for host in hosts:
            port = f"r{r}h{host.number}"
            ip("link", "add", f"wire{r}", "mtu", str(mtu), "type", "veth", "peer", "name", port,
               "mtu", str(mtu), "netns", str(switch.pid), pid=host.pid)
            ip("link", "set", port, "master", f"rail{r}", "up", pid=switch.pid)
            ip("addr", "add", host.addresses[r] + "/24", "dev", f"wire{r}", pid=host.pid)
            # The addresses can be used immediately, without a check for duplicates.
            ip("link", "set", f"wire{r}", "addrgenmode", "none", "up", pid=host.pid)
            for address in host.ipv6[r] if host.ipv6 else ():
                ip("addr", "add", address + "/64", "dev", f"wire{r}", "nodad", pid=host.pid)
    for host in hosts:
        ip("link", "set", "lo", "up", pid=host.pid)


def pair(a, b, *program, port, env={}, server_env={}):
    """Runs a server on @a and a client on @b. Returns the output of both."""
    server = a.start(*program, env={**env, **server_env})
    server.await_listener(port)
    client = b.start(*program, a.address, env=env)
    try:
        said = client.end()
    except AssertionError as e:
        raise AssertionError(f"{e}; the server has said: {server.stop()!r}") from None
    return server.end(), said


def faults(percent, seed):
    """Returns the environment in which @percent of the packets are lost, as many doubled and as many late."""
    rules = [f"action=packet_{what} count=0 percent={percent} seed={seed + i}"
             for i, what in enumerate(("lost", "twice", "late"))]
    return {"SOFTHCA_FAULTS": ";".join(rules)} if percent else {}


def lossy_pair(a, b, *program, port, percent, env={}):
    """Like pair(), with faults at both ends."""
    return pair(a, b, *program, port=port, env={**env, **faults(percent, 1)},
                server_env=faults(percent, 100))


def tell_listen(runner):
    """Returns the path of tell-listen.so, which is built beside softhca-run."""
    path = os.path.join(os.path.dirname(os.path.abspath(runner)), "../../test/wire/tell-listen.so")
    assert os.path.exists(path), path
    return path


class Network:
    """with Network(RUNNER) as (a, b): hosts with a network for each rail."""

    def __init__(self, runner, n=2, rails=1, mtu=9000, topology="", ipv6=False, built=None):
        """
        @topology: keys for each rail, or a list with the keys for each host's rails. @built: the softhca-run of the
        build, if @runner is another program.
        """
        self.tell = tell_listen(built or runner)
        self.runner, self.n, self.rails, self.mtu = runner, n, rails, mtu
        self.topologies = [topology] * n if isinstance(topology, str) else topology
        self.ipv6 = ipv6

    def __enter__(self):
        self.tmp = tempfile.TemporaryDirectory()
        self.switch = namespace()
        self.hosts = [Host(self.tmp.name, number, self.runner, self.tell, self.rails, topology, self.ipv6)
                      for number, topology in enumerate(self.topologies, 1)]
        connect(self.hosts, self.switch, self.mtu)
        return self.hosts

    def __exit__(self, *_):
        for keeper in [host.keeper for host in self.hosts] + [self.switch]:
            keeper.stdin.close()
            keeper.wait()
        self.tmp.cleanup()


def possible():
    """Returns true if namespaces can be made, else prints that they cannot."""
    if not shutil.which("ip"):
        print("needs ip, of iproute2")
        return False
    made = subprocess.run(["unshare", "-n", "true"], stderr=subprocess.PIPE, text=True)
    if made.returncode:
        print("no network namespaces: " + made.stderr.strip())
    return made.returncode == 0


def run(test, long=False):
    """Runs a test and returns its status. @long: the time limits are ten times as long."""
    global GUARD_S
    GUARD_S *= 10 if long else 1

    def late(*_):
        end_all()
        raise AssertionError(f"not ended in {2 * GUARD_S} s")

    if not possible():
        return SKIP
    signal.signal(signal.SIGALRM, late)
    signal.alarm(2 * GUARD_S)
    try:
        return test()
    finally:
        signal.alarm(0)
        end_all()
