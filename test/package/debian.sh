#!/bin/bash
# SPDX-License-Identifier: MIT
# Builds the Debian packages in a clean chroot that has only their build dependencies. lintian must
# find no error. Then installs the packages in another chroot that has only what they depend on,
# builds a user of each layer by pkg-config, and runs the programs over the software HCA. In a third one softhca is the only
# package that is installed.
#
#	debian.sh SOURCE
#
# Needs root (chroot), a Debian mirror, and 4 GB of memory. The chroots are on a tmpfs, because dpkg
# waits for the disk after each file; the tmpfs ends with this script.
set -euo pipefail
[ "${2:-}" = inside ] || exec unshare --mount "$0" "$1" inside
source=$(realpath "$1")
consumers=$source/test/layers/consumer
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")

work=$(mktemp -d)
mount --make-rprivate /
mount -t tmpfs -o size=6G tmpfs "$work"
trap 'umount -l "$work"; rmdir "$work"' EXIT

# in_chroot DIRECTORY COMMAND...: with /proc, /dev and a /dev/shm of its own, which end with it.
in_chroot() {
	local root=$1
	shift
	unshare --mount --pid --fork sh -c '
		mount -t proc proc "$1/proc"
		mount --rbind /dev "$1/dev"
		mount -t tmpfs -o mode=1777 tmpfs "$1/dev/shm"
		cd "$1"
		shift
		exec chroot . "$@"' sh "$root" "$@"
}

install_packages() {
	local root=$1
	shift
	in_chroot "$root" env DEBIAN_FRONTEND=noninteractive \
		apt-get install -y -qq --no-install-recommends "$@" >>"$work/log" 2>&1
}

build() {
	local root=$work/build
	install_packages "$root" build-essential devscripts equivs lintian
	mkdir -p "$root/tree/src"
	git -C "$source" ls-files -co --exclude-standard -z |
		tar -C "$source" --null -cf - -T - | tar -C "$root/tree/src" -xf -
	in_chroot "$root" sh -c 'cd /tree && exec mk-build-deps --install --remove \
		--tool "apt-get -y -qq --no-install-recommends" src/debian/control' >>"$work/log" 2>&1
	in_chroot "$root" sh -c 'cd /tree/src && exec dpkg-buildpackage -b -us -uc' >>"$work/log" 2>&1
	in_chroot "$root" sh -c 'cd /tree && exec lintian --allow-root --fail-on error *.changes'
}

use() {
	local root=$work/use
	mkdir -p "$root/debs"
	cp "$work"/build/tree/*.deb "$root/debs"
	rm -f "$root"/debs/*-dbgsym_*
	cp -r "$consumers" "$root/consumer"
	install_packages "$root" gcc libc6-dev pkg-config
	in_chroot "$root" sh -c 'apt-get install -y -qq --no-install-recommends /debs/*.deb' >>"$work/log" 2>&1
	in_chroot "$root" sh -euc '
		for file in /consumer/*.c; do
			layer=$(basename "$file" .c)
			gcc "$file" -o "/tmp/use-$layer" $(pkg-config --cflags --libs "$layer")
			"/tmp/use-$layer"
			echo "debian: a user of $layer was built and run"
		done
		python3 -c "
from mlx5rpc import shmipc
with shmipc.Server(\"package\") as server, shmipc.Client(\"package\") as client:
	client.call(b\"payload\", \"token\")
	client.flush()
	for request in server.requests():
		request.reply(request.data)
	server.flush()
	assert client.poll() == [(\"token\", b\"payload\")]"
		softhca-run python3 -c "from mlx5rpc import copyrpc, tent; copyrpc.Context().close(); tent.Engine().close()"
		benchkv delegation --ops 1000
		benchkv-sim --np 2 --qd 1 --clients 1 --control none --machine cx7
		tentbench sim --case step-1m --seeds 1
		rdmabench engine --help >/dev/null'
}

# The package softhca and what it depends on, for a user without privileges.
alone() {
	local root=$work/alone
	mkdir -p "$root/debs"
	cp "$work"/build/tree/softhca_*.deb "$root/debs"
	in_chroot "$root" sh -c 'apt-get install -y -qq --no-install-recommends /debs/*.deb' >>"$work/log" 2>&1
	in_chroot "$root" setpriv --reuid nobody --regid nogroup --clear-groups --no-new-privs \
		softhca-run ibv_devinfo | grep PORT_ACTIVE
}

debootstrap --variant=minbase "$suite" "$work/build" >"$work/log" 2>&1 || {
	tail -20 "$work/log"
	exit 1
}
cp /etc/resolv.conf "$work/build/etc/"
cp -a "$work/build" "$work/use"
cp -a "$work/build" "$work/alone"
{ build && use && alone; } || {
	echo "debian: the end of its log:"
	tail -40 "$work/log"
	exit 1
}
echo "debian: built in one clean chroot, installed and used in another"
