#!/bin/sh
# SPDX-License-Identifier: MIT
# test-ctl.sh SOFTHCA-RUN SOFTHCACTL: tests what softhcactl prints about a fabric in use, and its changes to the fabric.
set -u

run=$(realpath "$1")
ctl=$(realpath "$2")
[ "${3:-}" ] || export SOFTHCA_FABRIC="ctl-$$"
dir=/dev/shm/softhca-$(id -u)-$SOFTHCA_FABRIC
out=$(mktemp)
trap 'rm -f "$out"' EXIT

fail() {
	echo "test-ctl: $*: $(cat "$out")" >&2
	exit 1
}

# says STATUS PATTERN ARGUMENT...: softhcactl must end with STATUS and print a line that matches PATTERN.
says() {
	want=$1
	pattern=$2
	shift 2
	"$ctl" "$@" >"$out" 2>&1
	got=$?
	[ $got = "$want" ] || fail "softhcactl $* ends with $got"
	[ -z "$pattern" ] || grep -q -e "$pattern" "$out" || fail "softhcactl $* does not say '$pattern'"
}

# mode PATTERN VARIABLE=VALUE: a program that has opened a device with this setting is shown with this mode.
mode() {
	env "$2" ibv_asyncwatch >/dev/null &
	pid=$!
	until "$ctl" show >"$out" && grep -q -e "^$pid .*)$" "$out" && ! grep -q -e "^$pid .*(auto)$" "$out"; do
		kill -0 $pid || fail "ibv_asyncwatch has ended"
	done
	kill $pid
	wait $pid 2>/dev/null
	grep -q -e "^$pid .*  $1$" "$out" || fail "with $2 the mode is not $1"
}

# The part that runs inside of a fabric with two adapters.
inside() {
	says 0 "^$SOFTHCA_FABRIC: 1 processes, 2 adapters, 0 QPs$" list
	says 0 '^mlx5_1 .* active ' show
	says 0 '^[0-9]* *softhca-run ' show
	says 0 '' link mlx5_1 down
	says 0 '^mlx5_1 .* down ' show
	says 0 '^mlx5_0 .* active ' show
	ibv_devinfo -d mlx5_1 >"$out"
	grep -q PORT_DOWN "$out" || fail "mlx5_1 is not down"
	cat /sys/class/infiniband/mlx5_1/ports/1/state >"$out"
	grep -q '^1: DOWN$' "$out" || fail "sysfs shows another state"
	says 0 '' link mlx5_1 up
	ibv_devinfo -d mlx5_1 >"$out"
	grep -q PORT_ACTIVE "$out" || fail "mlx5_1 is not up again"

	mode 'trap (auto: needs 2 cores, has 1)' SOFTHCA_CORES=1
	mode 'poll (auto: needs 2 cores, has 2)' SOFTHCA_CORES=2
	mode 'trap (auto: strict mode)' SOFTHCA_STRICT=1
	mode 'trap (auto: legacy doorbell pages)' SOFTHCA_UAR=legacy
	mode 'poll (given)' SOFTHCA_MODE=poll
	mode 'step (given)' SOFTHCA_MODE=step
	gids=/sys/class/infiniband/mlx5_1/ports/1/gids
	says 0 '' gid mlx5_1 0 192.0.2.7
	cat $gids/0 >"$out"
	grep -q '^0000:0000:0000:0000:0000:ffff:c000:0207$' "$out" || fail "the GID was not replaced"
	says 2 'an adapter has this address' gid mlx5_0 0 ::ffff:192.0.2.7
	ibv_devices >"$out" # joins the fabric, whose settings differ from the variables here
	grep -q mlx5_1 "$out" || fail "nobody can join"
	says 0 '' gid mlx5_1 0 -
	cat $gids/0 >"$out"
	grep -q '^0000:0000:0000:0000:0000:0000:0000:0000$' "$out" || fail "the GID is still there"

	says 0 '' fault add action=rnr count=2 opcode=send
	says 0 '' fault add action=delay delay_ns=5 qpn=0x77
	says 0 '^1: action=rnr opcode=send nth=1 count=2 .*seen 0, hit 0$' fault list
	says 0 '^2: action=delay qpn=0x77' fault list
	says 2 'give a number' fault clear 1x
	says 2 'no such rule' fault clear 3
	says 0 '' fault clear 1
	says 0 '^2: ' fault list
	! grep -q '^1: ' "$out" || fail "rule 1 is still there"
	says 0 '' fault clear
	says 0 '' fault list
	[ ! -s "$out" ] || fail "there are rules left"

	for what in list show --help --version; do
		"$ctl" $what >/dev/full 2>"$out"
		[ $? = 1 ] || fail "softhcactl $what to a full device does not end with 1"
		grep -q 'standard output: No space' "$out" || fail "softhcactl $what does not say why"
	done

	says 2 'give a command' nothing
	says 2 'give a command' link mlx5_0
	says 2 'give up or down' link mlx5_0 sideways
	says 2 'no such adapter' link mlx5_2 down
	says 2 'give the index' gid mlx5_0 8 192.0.2.7
	says 2 'no such entry' gid mlx5_0 1 192.0.2.7
	says 2 'give an IPv6 or IPv4 address' gid mlx5_0 0 192.0.2
	says 2 'no such adapter' gid mlx5_2 0 192.0.2.7
	says 2 'give error, rnr' fault add action=duplicate
	says 2 'no such adapter' fault add action=rnr device=mlx5_2
	says 2 'no rule' fault add ''
	says 2 'give a number' fault clear 65
	says 2 'unknown option' --nothing list
	says 1 "no fabric 'ctl-none'" -f ctl-none show
	says 2 '--fabric a/b: give up to 63' -f a/b show
	says 2 '--fabric : give up to 63' -f '' show
	SOFTHCA_FABRIC=a/b says 2 'SOFTHCA_FABRIC=a/b: give up to 63' show
	SOFTHCA_FABRIC=a/b says 2 'SOFTHCA_FABRIC=a/b: give up to 63' list
	[ "$(wc -l <"$out")" = 1 ] || fail "that is not one line"
}

case "${3:-}" in
inside)
	inside
	exit 0
	;;
other)
	says 1 "no fabric 'ctl-" -f "$(echo "$SOFTHCA_FABRIC" | tr _ -)" show
	says 2 ' -x: unknown option' -f "$SOFTHCA_FABRIC" -xy
	exit 0
	;;
chaos)
	mode 'trap (auto: chaos mode)' SOFTHCA_CORES=2
	exit 0
	;;
link)
	mode 'trap (auto: the link model)' SOFTHCA_CORES=2
	exit 0
	;;
esac
says 1 'no fabric' show
# The name of another fabric is not taken for this one.
"$run" --fabric "ctl_$$" "$0" "$run" "$ctl" other || exit 1
"$run" -n 2 "$0" "$run" "$ctl" inside || exit 1
"$run" --chaos 1 "$0" "$run" "$ctl" chaos || exit 1
SOFTHCA_LINK=virtual "$run" "$0" "$run" "$ctl" link || exit 1
[ ! -e "$dir" ] || fail "$dir is left"
