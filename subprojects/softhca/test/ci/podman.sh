#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the image of ci/Containerfile with podman, without privileges, and runs programs in its containers: ibv_devinfo, and
# two containers that exchange packets. Runs the commands of the workflow files in containers of Debian, as CI services do.
#
#	podman.sh SOURCE
#
# Needs root for debootstrap, and a Debian mirror. Podman runs in a user namespace that has no privileges outside. All
# files are on a tmpfs, which disappears when this script ends.
set -eu
source=$1
stage=${2:-root}
image=debian:bookworm
pod="podman --log-level error"

# Makes the base image, and gives root the subordinate ids 100000 to 165535, for users of containers.
in_root() {
	work=$(mktemp -d)
	mount --make-rprivate /
	mount -t tmpfs -o size=4G,mode=755 tmpfs "$work"
	trap 'umount -l "$work"; rmdir "$work"' EXIT
	debootstrap --variant=minbase bookworm "$work/root" >"$work/log" || { tail -20 "$work/log"; exit 1; }
	tar -C "$work/root" -cf "$work/root.tar" .
	mkdir "$work/source"
	tar -C "$source" --exclude=build -cf - . | tar -C "$work/source" --no-same-owner -xf -
	echo root:100000:65536 >"$work/ids"
	mkdir -m 777 "$work/user"
	mount --bind "$work/ids" /etc/subuid
	mount --bind "$work/ids" /etc/subgid
	umount -l /sys/fs/cgroup # on some machines it is a mixture of v1 and v2, which crun refuses
	mount -t cgroup2 none /sys/fs/cgroup
	as_user sh "$0" "$work/source" user "$work"
}

as_user() {
	unshare --user --map-users=100000,0,65536 --map-groups=100000,0,65536 --setuid 0 --setgid 0 \
		--mount --pid --fork --kill-child --mount-proc --ipc "$@"
}

# run OPTION... IMAGE COMMAND...: runs the command in a new container.
run() {
	$pod run --rm --cgroups=disabled "$@"
}

# Prints the commands of a workflow file as one shell script.
commands() {
	/usr/bin/python3 -c '
import sys, yaml
job = yaml.safe_load(open(sys.argv[1]))
if "jobs" in job:
    steps = job["jobs"]["rdma"]["steps"]
    print("\n".join(step["run"] for step in steps if "run" in step))
else:
    print("\n".join(job["rdma"]["before_script"] + job["rdma"]["script"]))' "$source/ci/$1"
}

in_user() {
	for directory in /run /root /var/tmp /var/lib /var/cache /dev/shm; do
		mount -t tmpfs tmpfs $directory
	done
	export HOME=/root
	$pod import -q "$3/root.tar" $image
	$pod tag $image debian:bookworm-slim
	for file in github.yml gitlab.yml; do
		commands $file >"$3/user/commands"
		mkdir -p "$3/user/project/subprojects"
		rm -rf "$3/user/project/subprojects/softhca"
		cp -r "$source" "$3/user/project/subprojects/softhca"
		run --network host -i -v "$3/user/project:/project" -w /project -e PYTHONPATH=/usr/share/softhca \
			$image sh -eu <"$3/user/commands" >"$3/user/log" 2>&1 || { tail -40 "$3/user/log"; exit 1; }
		grep -q ' passed in ' "$3/user/log"
		echo "podman: the commands of $file have ended with success"
	done
	$pod build -q --network host --isolation chroot -t softhca -f "$source/ci/Containerfile" "$source"
	unshare --net sh "$0" "$source" network "$3"
}

# Runs programs in two containers on a network that podman makes.
in_network() {
	ip link set lo up
	run --network none softhca ibv_devinfo | grep PORT_ACTIVE
	run --network none --cap-drop ALL --security-opt no-new-privileges --read-only softhca ibv_devinfo | grep PORT_ACTIVE
	$pod network create --subnet 10.95.200.0/24 rdma
	for host in 2 3; do
		echo "link=roce netdev=eth0 gid=10.95.200.$host udp=on" >"$HOME/topology$host"
	done
	for program in "ibv_rc_pingpong -g 0 -c -e -n 50" "ib_write_bw -F -x 0 -m 1024 -n 50"; do
		container 2 "$program" &
		while ! $pod exec host2 cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -q ':4855 .* 0A '; do
			kill -0 $!
		done
		container 3 "$program 10.95.200.2"
		wait $!
	done
}

# container HOST PROGRAM: runs the program, with port 18517, in a container.
container() {
	# shellcheck disable=SC2086
	run --name "host$1" --network rdma --ip "10.95.200.$1" -v "$HOME/topology$1:/topology:ro" softhca -t /topology \
		${2%% *} -p 18517 ${2#* }
}

case $stage in
root) [ "${SEPARATE:-}" ] || SEPARATE=1 exec unshare --mount "$0" "$source"; in_root ;;
user) in_user "$@" ;;
network)
	in_network
	echo "podman: two containers have exchanged packets"
	;;
esac
