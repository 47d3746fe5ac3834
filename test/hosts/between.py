# SPDX-License-Identifier: MIT
"""between.py HOSTS-DIR SOFTHCA-RUN GROUP PROGRAM...: runs the layers' programs between hosts, over UDP.

Hosts are network namespaces; HOSTS-DIR contains hosts.py. The status is 77 if namespaces cannot be made.
"""
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, sys.argv[1])
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../benchkv/test"))
import hosts  # noqa: E402
import slurm  # noqa: E402

RUN, GROUP, PROGRAMS = os.path.abspath(sys.argv[2]), sys.argv[3], sys.argv[4:]
LONG = "SOAK" in os.environ


def script(path, text):
    with open(path, "w") as f:
        f.write("#!/bin/sh\n" + text)
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
    return path


def copyrpc():
    """Calls with 1 and 32 in flight. The bench checks the length of each answer."""
    with hosts.Network(RUN) as (a, b):
        said = hosts.pair(a, b, PROGRAMS[0], "-q", "1,32", "-D", "0.2", "-e", "2", port=18515)
    rows = [line.split() for line in said[1].splitlines() if line.startswith("copyrpc")]
    assert len(rows) == 2 and all(float(r[5]) > 0 for r in rows), said


def copyrpc_losses():
    """Random calls over IPv4 and IPv6, with each byte compared. In most runs packets are lost, doubled and delayed."""
    calls = 5000 if LONG else 200
    with hosts.Network(RUN, ipv6=True) as (a, b):
        for gid, percent in (("0", 1), ("0", 10), ("1", 0), ("1", 10)):
            for said in hosts.lossy_pair(a, b, PROGRAMS[0], "18515", gid, str(calls), port=18515,
                                         percent=percent):
                assert "all is right" in said, said


def job_script(all_hosts, env):
    """Writes the script that starts each rank of a job, in the fabric of its host and with @env."""
    first = all_hosts[0]
    exports = "".join(f"export {name}='{value}'\n" for name, value in env.items())
    return script(os.path.join(first.tmp, "run"),
                  f"host=$(cat /proc/sys/kernel/hostname)\n{exports}exec {RUN} "
                  f'--topology {first.tmp}/$host --fabric job-{os.getpid()}-$host "$@"\n')


def mpirun(all_hosts, ranks, env, *program, name="mpirun", mca="--mca", agents="rsh", networks="oob_tcp_if_include"):
    """Starts @ranks ranks, distributed over the hosts, each with the fabric of its host."""
    first = all_hosts[0]
    pids = "".join(f"{h.name}) pid={h.pid};;\n" for h in all_hosts)
    agent = script(os.path.join(first.tmp, "agent"),
                   f'case "$1" in\n{pids}esac\nshift\nexec nsenter -t "$pid" -n -u sh -c "$*"\n')
    slots = ",".join(f"{h.name}:{-(-ranks // len(all_hosts))}" for h in all_hosts)
    command = [*first.prefix, name, "--allow-run-as-root", "--map-by", "node", "--bind-to", "none", "--host", slots,
               "-np", str(ranks), mca, f"plm_{agents}_agent", agent, mca, f"plm_{agents}_no_tree_spawn", "1",
               mca, networks, "wire0", job_script(all_hosts, env), *program]
    return hosts.Program(command, {"PRTE_MCA_plm_rsh_agent": agent}, program[0])


def prterun(*args):
    return mpirun(*args, name="prterun", mca="--prtemca", agents="ssh", networks="prte_if_include")


def verified(all_hosts, ranks, backend, launch, env={}):
    """Runs a job of benchkv, and checks that every reply and every stored value is right."""
    path = os.path.join(all_hosts[0].tmp, backend)
    said = launch(all_hosts, ranks, env, PROGRAMS[0], backend, "--ops", "300", "--json", path).end()
    with open(path) as f:
        j = json.load(f)
    assert j["np"] == ranks and j["verified"] == j["ops"] > 0 == j["errors"], (j, said)
    assert j["remote_ops"] > 0, j
    assert {r["host"] for r in j["ranks"]} == {h.name for h in all_hosts}, j
    print(f"{backend}, {ranks} ranks on {len(all_hosts)} hosts: {j['ops']} operations are right")


# By the number of hosts: ranks and backend of each job.
JOBS = {2: ((2, "delegation"), (2, "direct"), (4, "meta")), 4: ((4, "delegation"),)}


def benchkv(launch=mpirun):
    if not shutil.which(launch.__name__):
        print(f"not installed: {launch.__name__}")
        return hosts.SKIP
    for n, jobs in JOBS.items():
        with hosts.Network(RUN, n) as all_hosts:
            for ranks, backend in jobs:
                verified(all_hosts, ranks, backend, launch)
    return 0


def benchkv_prterun():
    return benchkv(prterun)


def benchkv_srun():
    """The same jobs, started by Slurm, whose nodes are the hosts."""
    missing = slurm.missing()
    if missing:
        print(f"not installed: {missing}")
        return hosts.SKIP
    for n, jobs in JOBS.items():
        with hosts.Network(RUN, n) as all_hosts, tempfile.TemporaryDirectory() as tmp, \
                slurm.Slurm(tmp, hosts=all_hosts) as launcher:
            if not launcher.has_pmix():
                print("Slurm has no PMIx plugin")
                return hosts.SKIP

            def srun(all_hosts, ranks, env, *program):
                command = [*all_hosts[0].prefix, *launcher.srun(len(all_hosts), ranks),
                           job_script(all_hosts, env), *program]
                return hosts.Program(command, launcher.env(), "srun")

            for ranks, backend in jobs:
                verified(all_hosts, ranks, backend, srun)
    return 0


def benchkv_losses():
    """Every value is compared, while packets are lost, doubled and delayed."""
    if not shutil.which("mpirun"):
        return hosts.SKIP
    ucx = {"UCX_IB_GID_INDEX": "0", "UCX_NET_DEVICES": "mlx5_0:1", "UCX_TLS": "rc_x,ud_x,self",
           "UCX_RC_TIMEOUT": "60ms", "UCX_UD_TIMER_TICK": "2ms"}
    jobs = {"delegation": {}, **({"ucx": ucx} if "HAVE_UCX" in os.environ else {})}
    with hosts.Network(RUN) as all_hosts:
        for percent in (1, 10) if LONG else (10,):
            for backend, env in jobs.items():
                verified(all_hosts, 2, backend, mpirun, {**env, **hosts.faults(percent, 1)})
    return 0


def received(host, interface):
    with open(f"/proc/{host.pid}/net/dev") as f:
        line = next(line for line in f if line.strip().startswith(interface + ":"))
    return int(line.split(":")[1].split()[0])


def tent():
    """Requests over three rails. One rail's network interface loses its address while requests are under way."""
    with hosts.Network(RUN, rails=3) as (a, b):
        path = os.path.join(b.tmp, "rows")
        server = a.start(PROGRAMS[0], "server", "--address", a.address, "--once", "--memory", "32M")
        server.await_listener(18516)
        client = b.start(PROGRAMS[0], "client", a.address, "--address", b.address, "--size", "1M",
                         "--batch", "4", "--count", "24", "--check", "--stats", "--json", path)
        before = received(a, "wire1")
        while received(a, "wire1") - before < 4 << 20 and client.running():
            time.sleep(0.01)
        assert client.running(), client.end()
        hosts.ip("addr", "del", b.addresses[1] + "/24", "dev", "wire1", pid=b.pid)
        print(client.end())
        server.end()
        with open(path) as f:
            row = json.loads(f.read())
        assert row["requests"] == 96 and row["checked"], row
        assert not row["failed"] and not row["wrong"], row


sys.exit(hosts.run(globals()[GROUP.replace("-", "_")], LONG))
