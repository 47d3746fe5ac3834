#!/bin/sh
# SPDX-License-Identifier: MIT
# A CI job in plain shell, for an ordinary user: a program that uses verbs runs without faults, with a lost message and
# with a late one; two programs run on two hosts whose network loses packets. Copy the script, and replace APP (the
# program in softhca's README) and ibv_rc_pingpong with the tests of your project.
#
#	check.sh APP [DIRECTORY]
#
# The directory (default: artifacts) receives what the programs print, and the packets of the two hosts.
set -eu
app=$(realpath "$1")
mkdir -p "${2:-artifacts}"
cd "${2:-artifacts}"

# expect NAME STATUS TEXT COMMAND...: the command ends with the status and prints the text.
expect() {
	name=$1 want=$2 text=$3 status=0
	shift 3
	"$@" >"$name.log" 2>&1 || status=$?
	if [ $status != "$want" ] || ! grep -q "$text" "$name.log"; then
		echo "check: $name: status $status, not $want with '$text':"
		cat "$name.log"
		exit 1
	fi
	echo "check: $name: $text"
}

# A test fails at the first mistake in the use of verbs, and if it takes too long.
export SOFTHCA_STRICT=abort
expect plain 0 'success: 42' timeout 60 softhca-run -f "check-$$" "$app"

# If a message is lost for good, its sender gets an error. This test expects that error.
expect lost 1 'transport retry counter exceeded' \
	env SOFTHCA_FAULTS='opcode=write nth=1 count=0 action=no_answer' timeout 60 softhca-run -f "check-$$" "$app"

# A program that waits too long for a late message is ended by timeout, whose status, 124, fails a CI job. This test
# expects that status.
expect late 124 emulated \
	env SOFTHCA_FAULTS='opcode=write action=late delay_ns=3600000000000' timeout 1 softhca-run -f "check-$$" "$app"

# Two hosts are two fabrics, whose adapters have an address each. One twentieth of the packets of both hosts is lost, so the
# programs end with success only if each message is repeated until it arrives. At the end each host prints how many packets
# its rule has hit. Addresses and port depend on the process, so that several jobs can run on one machine.
export SOFTHCA_FAULTS='action=packet_lost percent=5 count=0 seed=1'
net=127.$((1 + $$ / 250 % 250)).$(($$ % 250)) port=$((20000 + $$ % 10000))
ping="timeout 60 ibv_rc_pingpong -p $port -g 0 -c -e -n 50"
for host in 2 3; do
	echo "link=roce netdev=lo gid=$net.$host udp=on" >"host$host.topology"
done
host() {
	SOFTHCA_CAPTURE=$PWD/host$1.pcapng softhca-run -f "check-$$-$1" -t "host$1.topology" sh -euc "$2; softhcactl fault list"
}
host 2 "$ping" >host2.log 2>&1 &
server=$!
until grep -q "$(printf ':%04X .* 0A ' $port)" /proc/net/tcp /proc/net/tcp6; do # the server listens
	kill -0 $server || { cat host2.log; exit 1; }
done
expect host3 0 'hit [1-9]' host 3 "$ping 127.0.0.1"
wait $server || { cat host2.log; exit 1; }
