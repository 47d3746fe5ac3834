# SPDX-License-Identifier: MIT
"""Runs a guest that has the kernel's driver rdma_rxe, in QEMU without KVM. It boots Debian's kernel from a package, and an
initramfs with this machine's programs. A tap connects it with the network namespace in which QEMU runs.

`scripts/deps soak` installs what this needs, and downloads the kernels' packages as
~/.cache/softhca/linux-image-*.deb.

guest.py HOST COMMAND: runs a shell command in the guest; only for the tests.
"""
import collections
import glob
import lzma
import os
import re
import shutil
import socket
import subprocess
import sys

import hosts

CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "softhca")
TOOLS = ("ibv_rc_pingpong ibv_srq_pingpong ibv_ud_pingpong ib_send_lat ib_send_bw ib_write_lat ib_write_bw "
         "ib_read_lat ib_read_bw ib_atomic_lat ib_atomic_bw nice rdma tc").split()
NEEDS = ["qemu-system-x86_64", "busybox", "cpio", "modprobe", "depmod", "ldd", "setpriv", *TOOLS]
MODULES = "virtio_pci virtio_net ib_uverbs rdma_rxe crc32_generic sch_netem".split()
PARTS = "boot/vmlinuz lib/modules/*/modules. lib/modules/*/kernel/net/ lib/modules/*/kernel/lib/ " \
        "lib/modules/*/kernel/crypto/ lib/modules/*/kernel/drivers/virtio/ " \
        "lib/modules/*/kernel/drivers/infiniband/ lib/modules/*/kernel/drivers/net/"
AGENT_PORT = 5000
SILENCE_S = 600  # the longest time without output; only guards against hanging

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc && mount -t sysfs sys /sys && mount -t devtmpfs dev /dev
mount -t debugfs debugfs /sys/kernel/debug
{insmod}
echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad
ip link set lo up && ip link set eth0 mtu 9000 up
ip addr add {address}/24 dev eth0 && ip addr add {ipv6}/64 dev eth0
rdma link add rxe0 type rxe netdev eth0 && echo the guest is ready
nc -ll -p {port} -e /bin/sh
"""


def in_guest(address, command):
    """Runs a shell command in the guest. Returns its status, or a text if the guest has not answered."""
    with socket.create_connection((address, AGENT_PORT), timeout=SILENCE_S) as agent:
        agent.sendall(f"{{ {command}\n}} </dev/null 2>&1; echo status $?\n".encode())
        agent.shutdown(socket.SHUT_WR)
        line = "nothing"
        for line in agent.makefile():
            if not re.fullmatch(r"status \d+\n", line):
                print(line, end="", flush=True)
    said = re.fullmatch(r"status (\d+)\n", line)
    return int(said.group(1)) if said else f"the guest has not answered; its last line: {line}"


def kernel_packages():
    return sorted(glob.glob(os.path.join(CACHE, "linux-image-*.deb")))


def missing():
    lacks = [name for name in NEEDS if not shutil.which(name)]
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        lacks.append("/dev/net/tun")
    return lacks


def unpack_kernel(package, directory):
    """Unpacks the needed part of the package. Returns the path of the kernel's image, and its version."""
    content = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE)
    subprocess.run(["tar", "-x", "-C", directory, "--wildcards", *[f"./{p}*" for p in PARTS.split()]],
                   stdin=content.stdout, check=True)
    assert content.wait() == 0, "dpkg-deb has failed"
    with open(glob.glob(os.path.join(directory, "boot/vmlinuz-*"))[0], "rb") as f:
        bz_image = f.read()
    path, xz = os.path.join(directory, "vmlinux"), bz_image.find(b"\xfd7zXZ\0")
    with open(path, "wb") as f:
        # Unpacked here, because the image's own decompression of xz is slow in an emulator.
        f.write(lzma.LZMADecompressor().decompress(bz_image[xz:]) if xz >= 0 else bz_image)
    version = os.listdir(os.path.join(directory, "lib/modules"))[0]
    subprocess.run(["depmod", "-b", directory, version], check=True)
    return path, version


def modules_for(kernel, version):
    """Returns the files of MODULES, each after the modules that it needs."""
    said = subprocess.run(["modprobe", "-d", kernel, "-S", version, "-a", "-D", *MODULES], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    files = [line.split()[1] for line in said.splitlines() if line.startswith("insmod")]
    return list(dict.fromkeys(files))


def libraries_of(*programs):
    said = subprocess.run(["ldd", *programs], check=True, stdout=subprocess.PIPE, text=True).stdout
    return set(re.findall(r"(?:=> |^\t)(/\S+)", said, re.MULTILINE))


def initramfs(tmp, package, peer, address, ipv6):
    """Builds the initramfs in @tmp. Returns the paths of the kernel and of the archive."""
    kernel, root = os.path.join(tmp, "kernel"), os.path.join(tmp, "root")
    for directory in (kernel, *(os.path.join(root, d) for d in "bin proc sys dev tmp".split())):
        os.makedirs(directory)
    image, version = unpack_kernel(package, kernel)
    provider = glob.glob("/usr/lib/*/libibverbs/librxe-rdmav*.so")
    programs = [shutil.which(name) for name in TOOLS] + [peer] + provider
    for path in {*programs, *libraries_of(*programs), "/etc/libibverbs.d/rxe.driver"}:
        os.makedirs(root + os.path.dirname(path), exist_ok=True)
        shutil.copy(path, root + path)
    shutil.copy(shutil.which("busybox"), os.path.join(root, "bin/busybox"))
    modules = []
    for path in modules_for(kernel, version):
        name, kind = re.fullmatch(r"(.*\.ko)(\.xz)?", os.path.basename(path)).groups()
        with (lzma.open if kind else open)(path, "rb") as f, open(os.path.join(root, name), "wb") as out:
            shutil.copyfileobj(f, out)
        modules.append(name)
    with open(os.path.join(root, "init"), "w") as f:
        f.write(INIT.format(insmod="\n".join("insmod /" + name for name in modules), address=address,
                            ipv6=ipv6, port=AGENT_PORT))
        os.fchmod(f.fileno(), 0o755)
    archive = os.path.join(tmp, "initramfs")
    with open(archive, "wb") as f:
        names = "\n".join(os.path.relpath(os.path.join(at, name), root)
                          for at, below, files in os.walk(root) for name in below + files)
        subprocess.run(["cpio", "-o", "--quiet", "-H", "newc"], cwd=root, input=names.encode(), stdout=f,
                       check=True)
    return image, archive


class GuestProgram(hosts.Program):
    def await_listener(self, port):
        """Like that of a program of this host, but polls the guest's kernel."""
        while self.running() and not self.guest.listens(port):
            pass


class Guest:
    """
    The guest, which has the adapter rxe0. @prefix: the words before a command that make it run in the network namespace
    of the tap wire0. gids: the indices of the GIDs of the guest's IPv4 and IPv6 address.
    """

    def __init__(self, tmp, package, peer, address, ipv6, prefix):
        self.address, self.prefix, self.guard = address, prefix, None
        image, archive = initramfs(tmp, package, peer, address, ipv6)
        self.qemu = hosts.Program(
            [*prefix, "setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64", "-M", "pc", "-accel",
             "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "768", "-nodefaults", "-nographic",
             "-no-reboot", "-serial", "stdio", "-kernel", image, "-initrd", archive, "-append",
             "console=ttyS0 quiet panic=-1", "-netdev", "tap,id=n,ifname=wire0,script=no,downscript=no",
             "-device", "virtio-net-pci,netdev=n,romfile="], {})
        self.qemu.await_line("the guest is ready")
        self.gids = {"GID": self.gid("ffff:" + socket.inet_aton(address).hex(":", 2)),
                     "GID6": self.gid(socket.inet_pton(socket.AF_INET6, ipv6).hex(":", 2))}

    def gid(self, ends_with):
        said = self.shell(f"cd /sys/class/infiniband/rxe0/ports/1/gids && grep {ends_with} *").end()
        return said.split(":")[0]

    def start(self, *program, env={}):
        # Low priority, because programs that poll would otherwise keep the kernel from processing packets.
        p = self.shell("nice -n 19 " + " ".join(self.gids.get(word, word) for word in program), env, GuestProgram)
        p.guest = self
        return self.guard.watch(p) if self.guard else p

    def shell(self, command, env={}, kind=hosts.Program):
        return kind([*self.prefix, sys.executable, os.path.abspath(__file__), self.address, command], env)

    def listens(self, port):
        tables = self.shell("cat /proc/net/tcp /proc/net/tcp6").end()
        return re.search(rf":{port:04X} \S+ 0A ", tables)

    def forget_messages(self):
        """Empties the kernel's log, and enables its one-time warnings again."""
        self.shell("dmesg -c >/dev/null; echo 1 >/sys/kernel/debug/clear_warn_once").end()

    def counters(self):
        """Returns rxe's counters by name."""
        said = self.shell("cd /sys/class/infiniband/rxe0/ports/1/hw_counters && grep . *").end()
        return collections.Counter({name: int(value) for name, value in
                                    (line.split(":") for line in said.split())})


if __name__ == "__main__":
    sys.exit(in_guest(*sys.argv[1:]))
