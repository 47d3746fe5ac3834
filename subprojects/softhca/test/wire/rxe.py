# SPDX-License-Identifier: MIT
"""rxe.py SOFTHCA-RUN PEER: the software HCA and the kernel's rdma_rxe, against each other.

A network namespace is the software HCA's host. A guest (QEMU, without KVM; Debian's kernel from a
package, an initramfs with this machine's programs) is rxe's, and a tap connects them. Each program is
run in both directions, without losses and with 1 % of the packets lost each way.

`scripts/deps soak` of the workspace gets what this needs, the kernel's package as
~/.cache/softhca/linux-image-*.deb. What is missing is named, and the test is skipped.

rxe.py --in-guest HOST COMMAND: runs a shell command in the guest; the tests' own use.
"""
import glob
import lzma
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import hosts

GUARD_S = 1500  # against hanging only
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "softhca")
TOOLS = ("ibv_rc_pingpong ibv_ud_pingpong ib_send_lat ib_send_bw ib_write_lat ib_write_bw ib_read_lat "
         "ib_read_bw ib_atomic_lat ib_atomic_bw rdma tc").split()
NEEDS = ["qemu-system-x86_64", "busybox", "cpio", "modprobe", "depmod", "ldd", "setpriv", *TOOLS]
MODULES = "virtio_pci virtio_net ib_uverbs rdma_rxe crc32_generic sch_netem".split()
PARTS = "boot/vmlinuz lib/modules/*/modules. lib/modules/*/kernel/net/ lib/modules/*/kernel/lib/ " \
        "lib/modules/*/kernel/crypto/ lib/modules/*/kernel/drivers/virtio/ " \
        "lib/modules/*/kernel/drivers/infiniband/ lib/modules/*/kernel/drivers/net/"
HOST, GUEST, AGENT_PORT = "10.99.0.1", "10.99.0.2", 5000

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc && mount -t sysfs sys /sys && mount -t devtmpfs dev /dev
{insmod}
ip link set lo up && ip link set eth0 mtu 9000 up && ip addr add {guest}/24 dev eth0
rdma link add rxe0 type rxe netdev eth0 && echo the guest is ready
nc -ll -p {port} -e /bin/sh
"""

# GID: the index of the end's IPv4 GID. -F: perftest does without a steady clock, which the guest has not.
PATH_MTUS = (256, 512, 1024, 2048, 4096)
CASES = [
    *[f"ibv_rc_pingpong -g GID -c -n 30 -s 10000 -m {mtu}" for mtu in PATH_MTUS],
    "ibv_rc_pingpong -g GID -c -n 30 -e",
    "ibv_ud_pingpong -g GID -c -n 30 -s 1024",
    "ib_send_lat -F -x GID -n 20",
    "ib_send_lat -F -x GID -n 20 -c UD",
    "ib_send_bw -F -x GID -n 30 -s 65536",
    "ib_write_lat -F -x GID -n 20",
    "ib_write_bw -F -x GID -n 30 -q 2 -s 65536",
    "ib_read_lat -F -x GID -o 4 -n 20",
    "ib_read_bw -F -x GID -o 4 -n 30 -s 65536",
    "ib_atomic_lat -F -x GID -o 4 -n 20",
    "ib_atomic_bw -F -x GID -o 4 -n 30 -A CMP_AND_SWAP",
    *[f"PEER -g GID -f -t 17 -n 200 -m {code}" for code in range(1, 6)],
    "PEER -g GID -f -t 17 -n 100 -q 4 -s",
]
LOSSY = [
    "ibv_rc_pingpong -g GID -c -n 200 -s 10000 -m 1024",
    "ib_send_bw -F -x GID -n 50 -s 65536",
    "ib_write_bw -F -x GID -n 50 -s 65536",
    "ib_read_bw -F -x GID -o 4 -n 50 -s 65536",
    "ib_atomic_bw -F -x GID -o 4 -n 200",
    "PEER -g GID -f -t 17 -n 300",
    "PEER -g GID -f -t 17 -n 100 -q 4 -s -m 1",
]


def in_guest(address, command):
    """Runs a shell command there; ends with its status."""
    with socket.create_connection((address, AGENT_PORT), timeout=hosts.GUARD_S) as agent:
        agent.sendall(f"{{ {command}\n}} </dev/null 2>&1; echo status $?\n".encode())
        agent.shutdown(socket.SHUT_WR)
        line = "nothing"
        for line in agent.makefile():
            if not re.fullmatch(r"status \d+\n", line):
                print(line, end="", flush=True)
    said = re.fullmatch(r"status (\d+)\n", line)
    return int(said.group(1)) if said else f"the guest has not answered; its last line: {line}"


def kernel_package():
    """The newest one, or None."""
    found = glob.glob(os.path.join(CACHE, "linux-image-*.deb"))
    return max(found, key=os.path.getmtime) if found else None


def missing():
    lacks = [name for name in NEEDS if not shutil.which(name)]
    if not kernel_package():
        lacks.append(f"{CACHE}/linux-image-*-amd64_*.deb (apt-get download)")
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        lacks.append("/dev/net/tun")
    return lacks


def unpack_kernel(directory):
    """The part of the package that is used; returns the path of the kernel's ELF image, and its version."""
    package = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", kernel_package()], stdout=subprocess.PIPE)
    subprocess.run(["tar", "-x", "-C", directory, "--wildcards", *[f"./{p}*" for p in PARTS.split()]],
                   stdin=package.stdout, check=True)
    assert package.wait() == 0, "dpkg-deb has failed"
    with open(glob.glob(os.path.join(directory, "boot/vmlinuz-*"))[0], "rb") as f:
        bz_image = f.read()
    # Its boot loader's own decompression takes long in an emulator.
    elf = lzma.LZMADecompressor().decompress(bz_image[bz_image.index(b"\xfd7zXZ\0"):])
    path = os.path.join(directory, "vmlinux")
    with open(path, "wb") as f:
        f.write(elf)
    version = os.listdir(os.path.join(directory, "lib/modules"))[0]
    subprocess.run(["depmod", "-b", directory, version], check=True)
    return path, version


def modules_for(kernel, version):
    """The files of MODULES, each after those that it needs."""
    said = subprocess.run(["modprobe", "-d", kernel, "-S", version, "-a", "-D", *MODULES], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    files = [line.split()[1] for line in said.splitlines() if line.startswith("insmod")]
    return list(dict.fromkeys(files))


def libraries_of(*programs):
    said = subprocess.run(["ldd", *programs], check=True, stdout=subprocess.PIPE, text=True).stdout
    return set(re.findall(r"(?:=> |^\t)(/\S+)", said, re.MULTILINE))


def initramfs(tmp, peer):
    """Builds it in @tmp; returns the paths of kernel and archive."""
    kernel, root = os.path.join(tmp, "kernel"), os.path.join(tmp, "root")
    for directory in (kernel, *(os.path.join(root, d) for d in "bin proc sys dev tmp".split())):
        os.makedirs(directory)
    image, version = unpack_kernel(kernel)
    provider = glob.glob("/usr/lib/*/libibverbs/librxe-rdmav*.so")
    programs = [shutil.which(name) for name in TOOLS] + [peer] + provider
    for path in {*programs, *libraries_of(*programs), "/etc/libibverbs.d/rxe.driver"}:
        os.makedirs(root + os.path.dirname(path), exist_ok=True)
        shutil.copy(path, root + path)
    shutil.copy(shutil.which("busybox"), os.path.join(root, "bin/busybox"))
    modules = modules_for(kernel, version)
    for path in modules:
        shutil.copy(path, root)
    with open(os.path.join(root, "init"), "w") as f:
        f.write(INIT.format(insmod="\n".join("insmod /" + os.path.basename(path) for path in modules),
                            guest=GUEST, port=AGENT_PORT))
        os.fchmod(f.fileno(), 0o755)
    archive = os.path.join(tmp, "initramfs")
    with open(archive, "wb") as f:
        names = "\n".join(os.path.relpath(os.path.join(at, name), root)
                          for at, below, files in os.walk(root) for name in below + files)
        subprocess.run(["cpio", "-o", "--quiet", "-H", "newc"], cwd=root, input=names.encode(), stdout=f,
                       check=True)
    return image, archive


class Software(hosts.Host):
    """The software HCA's host. @loss: the percentage of its packets that are lost."""
    loss = 0

    def start(self, *program, env={}):
        if self.loss:
            env = {**env, "SOFTHCA_FAULTS": f"action=packet_lost count=0 percent={self.loss} seed=1"}
        return super().start(*(word.replace("GID", "0") for word in program), env=env)


class Guest:
    """rxe's host."""

    def __init__(self, image, archive, prefix):
        self.address, self.prefix = GUEST, prefix
        qemu = hosts.Program(
            [*prefix, "setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64", "-M", "pc", "-accel",
             "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "768", "-nodefaults", "-nographic",
             "-no-reboot", "-serial", "stdio", "-kernel", image, "-initrd", archive, "-append",
             "console=ttyS0 quiet panic=-1", "-netdev", "tap,id=n,ifname=wire0,script=no,downscript=no",
             "-device", "virtio-net-pci,netdev=n,romfile="], {})
        qemu.await_line("the guest is ready")

    def start(self, *program, env={}):
        return self.shell(f"timeout {hosts.GUARD_S} " + " ".join(program).replace("GID", "1"), env)

    def shell(self, command, env={}):
        return hosts.Program([*self.prefix, sys.executable, os.path.abspath(__file__), "--in-guest", GUEST,
                              command], env)

    def listens(self, port):
        tables = self.shell("cat /proc/net/tcp /proc/net/tcp6").end()
        return re.search(rf":{port:04X} \S+ 0A ", tables)

    wait_for = hosts.Host.wait_for


def matrix(software, guest, peer, cases):
    """Runs each case, once with each end as the server."""
    failed = 0
    for case in cases:
        program = case.replace("PEER", peer).split()
        for server, client, name in ((guest, software, "rxe serves"), (software, guest, "rxe asks")):
            began, result = time.monotonic(), "ok"
            try:
                said = hosts.pair(server, client, *program, port=4444 if "PEER" in case else 18515)
                assert "PEER" not in case or all("all is right" in s for s in said), said
            except AssertionError as e:
                result, failed = f"FAILED: {e}", failed + 1
            took = time.monotonic() - began
            print(f"{software.loss} % lost, {name}: {case}: {result} ({took:.1f} s)", flush=True)
    return failed


def run(tmp, runner, peer):
    software = Software(tmp, 1, runner)
    try:
        for words in ("link set lo up", "tuntap add wire0 mode tap", f"addr add {HOST}/24 dev wire0",
                      "link set wire0 mtu 9000 up"):
            hosts.ip(*words.split(), pid=software.pid)
        guest = Guest(*initramfs(tmp, peer), software.prefix)
        print("rxe of", guest.shell("uname -r").end().strip(), flush=True)
        failed = matrix(software, guest, peer, CASES)
        software.loss = 1
        guest.shell(shutil.which("tc") + " qdisc add dev eth0 root netem loss 1%").end()
        failed += matrix(software, guest, peer, LOSSY)
        print(f"{failed} failed")
        return 1 if failed else 0
    finally:
        hosts.end_all()
        software.keeper.stdin.close()
        software.keeper.wait()


def main():
    if sys.argv[1] == "--in-guest":
        return in_guest(*sys.argv[2:])
    for sig in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT):
        signal.signal(sig, lambda number, _: sys.exit(f"ended by {signal.Signals(number).name}"))
    signal.alarm(GUARD_S)
    if not hosts.possible():
        return hosts.SKIP
    lacks = missing()
    if lacks:
        print("needs", ", ".join(lacks))
        return hosts.SKIP
    with tempfile.TemporaryDirectory() as tmp:
        return run(tmp, os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]))


if __name__ == "__main__":
    sys.exit(main())
