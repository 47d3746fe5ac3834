# SPDX-License-Identifier: MIT
"""Hosts in network namespaces, each with a fabric whose adapters are bound to its addresses."""
import os
import signal
import subprocess
import sys
import tempfile

GUARD_S = 100  # against hanging only
SKIP = 77


def ip(*arguments, pid):
    subprocess.run(["nsenter", "-t", str(pid), "-n", "ip", *arguments], check=True)


class Program:
    """A program that runs on a host."""

    def __init__(self, command, env, name=""):
        self.name = name
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True, env={**os.environ, **env})

    def running(self):
        return self.process.poll() is None

    def kill(self):
        """SIGKILL for the program, which softhca-run has started."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as f:
            children = f.read().split()
        for child in children:
            with open(f"/proc/{child}/cmdline") as f:
                if f.read().split("\0")[0] == self.name:
                    os.kill(int(child), signal.SIGKILL)
                    return
        raise AssertionError(f"no child of softhca-run is {self.name}: {children}")

    def await_line(self, text):
        """Reads until a line has @text."""
        line = ""
        while text not in line:
            line = self.process.stdout.readline()
            assert line, f"{self.process.args} has not said: {text}"

    def end(self):
        """Its output, when it has ended with status 0."""
        said = self.process.communicate(timeout=GUARD_S)[0]
        assert self.process.returncode == 0, (self.process.args, self.process.returncode, said)
        return said


class Host:
    """A network namespace. Rail number r of host number n has the address 10.99.r.n."""

    def __init__(self, tmp, number, runner, rails=1, topology=""):
        self.tmp = tmp
        self.addresses = [f"10.99.{r}.{number}" for r in range(rails)]
        self.address = self.addresses[0]
        self.keeper = subprocess.Popen(["unshare", "-n", "cat"], stdin=subprocess.PIPE)
        self.pid = self.keeper.pid
        own = os.stat("/proc/self/ns/net").st_ino
        while os.stat(f"/proc/{self.pid}/ns/net").st_ino == own:
            assert self.keeper.poll() is None, "unshare has failed"
        path = os.path.join(tmp, f"host{number}")
        with open(path, "w") as f:
            for r, address in enumerate(self.addresses):
                f.write(f"name=mlx5_{r} link=roce gid={address} udp=on {topology}\n")
        self.prefix = ["nsenter", "-t", str(self.pid), "-n"]
        self.fabric = f"hosts-{number}-{os.getpid()}"
        self.runner = [*self.prefix, runner, "--topology", path, "--fabric", self.fabric]

    def start(self, *program, env={}):
        return Program([*self.runner, *program], env, program[0])

    def listens(self, port):
        with open(f"/proc/{self.pid}/net/tcp") as v4, open(f"/proc/{self.pid}/net/tcp6") as v6:
            rows = [line.split() for line in [*v4.readlines(), *v6.readlines()]]
        return any(r[1].endswith(f":{port:04X}") and r[3] == "0A" for r in rows)

    def wait_for(self, port, program):
        while not self.listens(port) and program.running():
            os.sched_yield()

    def close(self):
        self.keeper.stdin.close()
        self.keeper.wait()


def connect(hosts, mtu=9000):
    """A wire between two hosts for each rail, or a switch between more."""
    a, b = hosts
    for r in range(len(a.addresses)):
        ip("link", "add", f"wire{r}", "mtu", str(mtu), "type", "veth", "peer", "name", f"wire{r}",
           "mtu", str(mtu), "netns", str(b.pid), pid=a.pid)
    for host in hosts:
        ip("link", "set", "lo", "up", pid=host.pid)
        for r, address in enumerate(host.addresses):
            ip("addr", "add", address + "/24", "dev", f"wire{r}", pid=host.pid)
            ip("link", "set", f"wire{r}", "up", pid=host.pid)


def pair(a, b, *program, port, env={}, server_env={}):
    """A server on @a, a client on @b; returns what both have said."""
    server = a.start(*program, env={**env, **server_env})
    a.wait_for(port, server)
    client = b.start(*program, a.address, env=env)
    try:
        said = client.end()
    except AssertionError:
        server.process.kill()
        print(server.process.communicate()[0], file=sys.stderr)
        raise
    return server.end(), said


class Two:
    """with Two(RUNNER) as (a, b): two hosts with a wire."""

    def __init__(self, runner, rails=1, mtu=9000, topology=""):
        self.runner, self.rails, self.mtu, self.topology = runner, rails, mtu, topology

    def __enter__(self):
        self.tmp = tempfile.TemporaryDirectory()
        self.hosts = []
        for number in (1, 2):
            self.hosts.append(Host(self.tmp.name, number, self.runner, self.rails, self.topology))
        connect(self.hosts, self.mtu)
        return self.hosts

    def __exit__(self, *_):
        for host in self.hosts:
            host.close()
        self.tmp.cleanup()


def possible():
    """Whether namespaces can be made; says so if not."""
    made = subprocess.run(["unshare", "-n", "true"], stderr=subprocess.PIPE, text=True)
    if made.returncode:
        print("no network namespaces: " + made.stderr.strip())
    return made.returncode == 0
