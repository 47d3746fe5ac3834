# SPDX-License-Identifier: MIT
"""A private Slurm with several nodes on this machine, for the duration of a test.

    with Slurm(directory, nodes=4) as slurm:
        subprocess.run(slurm.srun(2, 4) + ["program"], env=slurm.env())

`hosts` replaces the nodes by other machines: objects with a name, an address, and a prefix that runs a
command line there. The controller is on the first node, and srun must run there.

The processes of this Slurm have the directory in TMPDIR, unlike the processes of the jobs. All
keys, sockets, pid files and logs are in the directory; no file outside of it is written. The class
ends the processes that it has started by their pids.
"""
import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../test/support"))
from ports import free_port  # noqa: E402

PROGRAMS = "munged", "slurmctld", "slurmd", "srun", "sinfo"
START_S = 240  # after this time a Slurm whose nodes are not ready counts as broken
CONF = """\
ClusterName=test
SlurmctldHost={host}({address})
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={dir}/munge.socket
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool.%n
SlurmctldPidFile={dir}/slurmctld.pid
SlurmdPidFile={dir}/slurmd.%n.pid
SlurmctldLogFile={dir}/slurmctld.log
SlurmdLogFile={dir}/slurmd.%n.log
# A directory for each node, because two nodes on this machine cannot share one.
TmpFS={dir}/tmp.%n
# The nodes may claim more cores than the machine has.
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
SelectType=select/linear
MpiDefault=none
ReturnToService=2
KillWait=2
"""


PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"


def missing():
    """The programs that are not installed, separated by commas; empty: all are installed."""
    return ", ".join(p for p in PROGRAMS if not shutil.which(p, path=PATH))


class Node:
    """A node of the default kind, on this machine."""

    def __init__(self, number):
        self.name, self.address, self.prefix = f"n{number}", "127.0.0.1", []


class Slurm:
    def __init__(self, directory, nodes=0, hosts=()):
        self.dir, self.daemons = directory, []
        self.nodes = hosts or [Node(i) for i in range(nodes)]
        self.controller = hosts[0].name if hosts else socket.gethostname().split(".")[0]

    def env(self):
        return {"SLURM_CONF": f"{self.dir}/slurm.conf",
                "PATH": PATH}

    def srun(self, nodes, ranks):
        """Returns the beginning of a command line that runs this number of ranks, spread evenly over the nodes."""
        return ["srun", "--mpi=pmix", f"-N{nodes}", f"-n{ranks}", "--overcommit",
                f"--ntasks-per-node={-(-ranks // nodes)}"]

    def configure(self):
        os.makedirs(f"{self.dir}/state")
        with open(f"{self.dir}/slurm.conf", "w") as f:
            f.write(CONF.format(dir=self.dir, host=self.controller, address=self.nodes[0].address,
                                port=free_port(), user=getpass.getuser()))
            for node in self.nodes:
                os.makedirs(f"{self.dir}/spool.{node.name}")
                os.makedirs(f"{self.dir}/tmp.{node.name}")
                f.write(f"NodeName={node.name} NodeAddr={node.address} Port={free_port()} CPUs=8\n")
            f.write("PartitionName=all Nodes=ALL Default=YES State=UP\n")
        key = os.open(f"{self.dir}/munge.key", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.write(key, os.urandom(128))
        os.close(key)

    def start(self, node, name, *args):
        """Starts a program in a session of its own, in the foreground, so that its pid is known."""
        log = open(f"{self.dir}/{name}.out", "a")
        proc = subprocess.Popen([*node.prefix, name, *args], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                env=dict(os.environ, **self.env(), TMPDIR=self.dir),
                                start_new_session=True)
        log.close()
        self.daemons.append(proc)

    def ask(self, *argv):
        r = subprocess.run([*self.nodes[0].prefix, *argv], env=dict(os.environ, **self.env()), capture_output=True,
                           text=True, check=False)
        return r.stdout + r.stderr

    def ready(self):
        return self.ask("sinfo", "-h", "-o", "%T %D").split() == ["idle", str(len(self.nodes))]

    def has_pmix(self):
        return "pmix" in self.ask("srun", "--mpi=list")

    def __enter__(self):
        try:
            self.configure()
            self.start(self.nodes[0], "munged", "--foreground", "--force", f"--key-file={self.dir}/munge.key",
                       f"--socket={self.dir}/munge.socket", f"--pid-file={self.dir}/munged.pid",
                       f"--log-file={self.dir}/munged.log", f"--seed-file={self.dir}/munge.seed")
            self.start(self.nodes[0], "slurmctld", "-D")
            for node in self.nodes:
                self.start(node, "slurmd", "-D", "-N", node.name)
            end = time.monotonic() + START_S
            while not self.ready():
                if time.monotonic() > end:
                    raise RuntimeError("Slurm does not start:\n" + self.logs())
                time.sleep(0.1)
        except BaseException:
            self.__exit__()
            raise
        return self

    def logs(self):
        text = ""
        for name in sorted(os.listdir(self.dir)):
            if name.endswith((".log", ".out")):
                text += f"--- {name}\n" + open(f"{self.dir}/{name}").read()[-2000:]
        return text

    def __exit__(self, *exc):
        """Ends the programs, the last one first, because a slurmd that loses its controller waits for it."""
        for proc in reversed(self.daemons):
            proc.send_signal(signal.SIGTERM)
        for proc in reversed(self.daemons):
            try:
                proc.wait(80)
            except subprocess.TimeoutExpired:
                proc.kill()
                proc.wait()
