#!/bin/bash
# SPDX-License-Identifier: MIT
# Builds the Debian packages twice, in a clean chroot with their build dependencies and lintian, with different
# directories, times, time zones, locales and umasks. Both builds must give identical packages. lintian must find
# neither an error nor a warning. Then installs the packages in a second chroot that also has gcc and pkg-config, builds
# a user of each layer by pkg-config, runs the programs over the software HCA, runs mlx5rpc-hw-check, and purges the
# packages: no file may be left. In a third chroot softhca is the only package of this tree. In a fourth one the
# packages are built for arm64.
#
#	debian.sh SOURCE
#
# Needs root (chroot), a Debian mirror, and 6 GB of memory. The chroots are on a tmpfs, because dpkg
# waits for the disk after each file; the tmpfs disappears when this script ends.
set -euo pipefail
unset PYTHONPYCACHEPREFIX # of scripts/test: Python would leave its byte code in that directory of the chroots
[ "${2:-}" = inside ] || exec unshare --mount "$0" "$1" inside
source=$(realpath "$1")
consumers=$source/test/layers/consumer
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
quiet="-y -qq --no-install-recommends"

work=$(mktemp -d)
mount --make-rprivate /
mount -t tmpfs -o size=12G tmpfs "$work"
finish() {
	local status=$?
	if [ $status != 0 ]; then
		echo "debian: the end of its log:"
		tail -40 "$work/log"
	fi
	umount -l "$work"
	rmdir "$work"
	exit $status
}
trap finish EXIT

# in_chroot DIRECTORY COMMAND...: runs the command in the chroot, with /proc, /dev and a /dev/shm of its own, which are
# unmounted when the command ends.
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

# apt ROOT COMMAND ARGUMENT...: runs apt-get in the chroot.
apt() {
	local root=$1
	shift
	# shellcheck disable=SC2086
	in_chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get $quiet "$@" >>"$work/log" 2>&1
}

# copy_tree DIRECTORY: copies the source tree to the directory.
copy_tree() {
	mkdir -p "$1"
	git -C "$source" ls-files -co --exclude-standard -z | tar -C "$source" --null -cf - -T - | tar -C "$1" -xf -
}

build() {
	local root=$work/build first=tree/src second=other/place/of/the-tree deb name
	apt "$root" install build-essential lintian
	copy_tree "$root/$first"
	apt "$root" build-dep "/$first"
	in_chroot "$root" sh -c "cd /$first && exec dpkg-buildpackage -b -us -uc" >>"$work/log" 2>&1
	in_chroot "$root" sh -c 'cd /tree && exec lintian --allow-root --fail-on error,warning *.changes'
	umask 002
	copy_tree "$root/$second"
	umask 022
	in_chroot "$root" env TZ=Pacific/Kiritimati LC_ALL=C.UTF-8 HOME=/nonexistent \
		sh -c "umask 002; cd /$second && exec dpkg-buildpackage -b -us -uc" >>"$work/log" 2>&1
	for deb in "$root"/tree/*.deb; do
		name=$(basename "$deb")
		cmp "$deb" "$root/$(dirname $second)/$name" || differ "$deb" "$root/$(dirname $second)/$name"
	done
	echo "debian: $(ls "$root"/tree/*.deb | wc -l) packages, built twice and identical"
}

# Names the files of two packages that differ, and fails.
differ() {
	local one two
	one=$(mktemp -d -p "$work")
	two=$(mktemp -d -p "$work")
	dpkg-deb -R "$1" "$one"
	dpkg-deb -R "$2" "$two"
	diff -rq "$one" "$two"
	diff <(dpkg-deb -c "$1") <(dpkg-deb -c "$2")
	return 1
}

# Builds for arm64 by Debian's cross compiler. Libraries of other packages come from the arm64 part of the mirror.
cross() {
	local root=$work/cross
	in_chroot "$root" dpkg --add-architecture arm64
	apt "$root" update
	apt "$root" install crossbuild-essential-arm64
	copy_tree "$root/tree/src"
	apt "$root" build-dep --host-architecture arm64 -P cross,nocheck /tree/src
	in_chroot "$root" sh -c 'cd /tree/src && exec dpkg-buildpackage -aarm64 -Pcross,nocheck -b -us -uc' >>"$work/log" 2>&1
	for deb in "$root"/tree/*_arm64.deb; do
		dpkg-deb -x "$deb" "$root/x"
	done
	file=$(ls "$root"/x/usr/lib/aarch64-linux-gnu/libcopyrpc.so.1)
	readelf -h "$file" | grep -q AArch64
	echo "debian: $(ls "$root"/tree/*_arm64.deb | wc -l) packages built for arm64"
}

# Lists the files of a chroot, without the state files of dpkg and apt.
files_of() {
	(cd "$1" && find . -xdev \( -path ./proc -o -path ./dev -o -path ./debs -o -path ./consumer -o -path ./tmp -o -path ./root \
		-o -path ./var/lib/dpkg -o -path ./var/lib/apt -o -path ./var/cache -o -path ./var/log -o -path ./etc/ld.so.cache \) \
		-prune -o -print | sort)
}

use() {
	local root=$work/use
	mkdir -p "$root/debs"
	cp "$work"/build/tree/*.deb "$root/debs"
	rm -f "$root"/debs/*-dbgsym_*
	cp -r "$consumers" "$root/consumer"
	apt "$root" install gcc libc6-dev pkg-config
	files_of "$root" >"$work/before"
	in_chroot "$root" sh -c "apt-get install $quiet /debs/*.deb" >>"$work/log" 2>&1
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
		rdmabench engine --help >/dev/null
		cd /tmp
		mlx5rpc-hw-check --softhca --quick --report /tmp/report'
	grep -q '^benchkv *ok' "$root/tmp/report"
	# Also purges all packages that were installed with those of this tree, including those that others recommend.
	in_chroot "$root" sh -c "apt-get purge $quiet --autoremove -o APT::AutoRemove::RecommendsImportant=false \
		-o APT::AutoRemove::SuggestsImportant=false \
		\$(for deb in /debs/*.deb; do dpkg-deb -f \$deb Package; done)" >>"$work/log" 2>&1
	files_of "$root" >"$work/after"
	# adduser, which a package of Debian calls, leaves two files.
	if comm -13 "$work/before" "$work/after" | grep -vx './etc/gshadow-\|./run/adduser'; then
		echo "debian: these files are left after the purge"
		return 1
	fi
	echo "debian: purged, no file is left"
}

# Installs only the package softhca and what it depends on, and uses it as a user without privileges.
alone() {
	local root=$work/alone
	mkdir -p "$root/debs"
	cp "$work"/build/tree/softhca_*.deb "$root/debs"
	in_chroot "$root" sh -c "apt-get install $quiet /debs/*.deb" >>"$work/log" 2>&1
	in_chroot "$root" setpriv --reuid nobody --regid nogroup --clear-groups --no-new-privs \
		softhca-run ibv_devinfo | grep PORT_ACTIVE
	apt "$root" install gcc libc6-dev libibverbs-dev
	sed -n '/^```c$/,/^```$/{/^```/d;p}' "$source/subprojects/softhca/README.md" >"$root/tmp/app.c"
	in_chroot "$root" setpriv --reuid nobody --regid nogroup --clear-groups --no-new-privs \
		sh -euc 'cd "$(mktemp -d)" && cc /tmp/app.c -o app -libverbs && exec sh /usr/share/softhca/check.sh ./app'
}

debootstrap --variant=minbase "$suite" "$work/build" >"$work/log" 2>&1
cp /etc/resolv.conf "$work/build/etc/"
for chroot in use alone cross; do
	cp -a "$work/build" "$work/$chroot"
done
build
use
alone
cross
echo "debian: built in clean chroots, installed and used in others"
