#!/bin/sh
# SPDX-License-Identifier: MIT
# test-run.sh SOFTHCA-RUN SOFTHCACTL HOLDER LOCKER NO-FORK LATE-SETSID LATE-FORK [STATIC]: tests what the manual of softhca-run promises.
set -u

run=$(realpath "$1")
ctl=$(realpath "$2")
holder=$(realpath "$3")
locker=$(realpath "$4")
no_fork=$(realpath "$5")
late_setsid=$(realpath "$6")
late_fork=$(realpath "$7")
fixed=${8:+$(realpath "$8")}
me=$(id -u)
tmp=$(mktemp -d)
fabric=run-$$
dir=/dev/shm/softhca-$me-$fabric
unset LD_PRELOAD SOFTHCA_RAILS SOFTHCA_TOPOLOGY SOFTHCA_BF SOFTHCA_STRICT SOFTHCA_CHAOS \
	SOFTHCA_MEMLOCK SOFTHCA_DEATH SOFTHCA_UAR SOFTHCA_RUN \
	SOFTHCA_MODE SOFTHCA_TRACE SOFTHCA_PATIENCE SOFTHCA_LINK SOFTHCA_FAULTS SOFTHCA_FAULT_FILE \
	SOFTHCA_CAPTURE SOFTHCA_IDLE SOFTHCA_CORES HWLOC_XMLFILE PMIX_NAMESPACE
export SOFTHCA_FABRIC="$fabric"
trap 'rm -rf "$tmp"' EXIT

fail() {
	echo "test-run: $*" >&2
	exit 1
}

# status N COMMAND...: the command must end with N.
status() {
	want=$1
	shift
	"$@" >"$tmp/out" 2>"$tmp/err"
	got=$?
	[ $got = "$want" ] || fail "'$*' ends with $got, not $want: $(cat "$tmp/err")"
	[ ! -e "$dir" ] || fail "'$*' leaves $dir"
}

# refused PATTERN ARGUMENT...: softhca-run must end with status 2 and one line that matches.
refused() {
	pattern=$1
	shift
	status 2 "$run" "$@"
	one_line "$*"
	grep -q -e "$pattern" "$tmp/err" || fail "'$*' says: $(cat "$tmp/err")"
}

# until_true COMMAND...: waits until the command succeeds. The limit only ends a test that hangs.
until_true() {
	n=0
	while ! "$@"; do
		n=$((n + 1))
		[ $n -lt 2400 ] || fail "never true: $*"
		sleep 0.05
	done
}

# released NAME: ends the program that waits for the end of its input, and its softhca-run with it.
released() {
	exec 9>&-
	wait "$runner" || fail "$1 ends with $?"
}

# one_line NAME: standard error must have one line.
one_line() {
	[ "$(wc -l <"$tmp/err")" = 1 ] || fail "$1: not one line: $(cat "$tmp/err")"
}

# Sets $library to the library's path, and $port to a file that exists only for programs with the library.
find_library() {
	status 0 "$run" printenv LD_PRELOAD
	library=$(cat "$tmp/out")
	port=/sys/class/infiniband/mlx5_0/ports/1/state
}

gone() {
	[ ! -e "$1" ]
}

ended() {
	! kill -0 "$1" 2>/dev/null
}

# hold NAME ARGUMENT...: starts a holder under softhca-run; its input is $tmp/NAME.in
# on descriptor 9, and the file NAME.pid has the program's own pid.
hold() {
	name=$1
	shift
	mkfifo "$tmp/$name.in" "$tmp/$name.out"
	"$run" "$@" sh -c 'echo $$ >"$1"; shift; exec "$@"' - "$tmp/$name.pid" "$holder" \
		<"$tmp/$name.in" >"$tmp/$name.out" 2>"$tmp/$name.err" 8>&- 9>&- &
	runner=$!
	exec 9>"$tmp/$name.in"
	read -r line <"$tmp/$name.out" || fail "$name: $(cat "$tmp/$name.err")"
	[ "$line" = ready ] || fail "$name says $line"
	program=$(cat "$tmp/$name.pid")
	[ -d "$dir" ] || fail "$name has no fabric"
}

exit_statuses() {
	status 0 "$run" true
	status 3 "$run" sh -c 'exit 3'
	status 137 "$run" sh -c 'kill -9 $$'
	status 143 "$run" sh -c 'kill -15 $$'
	status 127 "$run" "$tmp/no-such-program"
	status 126 "$run" "$tmp"
	status 0 "$run" --help
	status 0 "$run" --version
}

full_device() {
	for what in --help --version; do
		status 1 sh -c '"$@" >/dev/full' - "$run" $what
		one_line "$what"
		grep -q 'standard output: No space' "$tmp/err" || fail "$what does not say why"
		status 1 sh -c '"$@" >&-' - "$run" $what
		grep -q 'standard output: Bad file' "$tmp/err" || fail "$what with a closed file does not say why"
	done
}

wrong_arguments() {
	echo 'name=mlx5_0 speed=1' >"$tmp/wrong"
	refused 'no program' -n 2
	refused '--rails 0: give a number' -n 0 true
	refused '--rails 17: give' --rails=17 true
	refused '--rails x: give' -n x true
	refused '--topology .*: no such file' -t "$tmp/nothing" true
	refused "wrong:1: 'speed': give key=value" -t "$tmp/wrong" true
	refused '--fabric .*: give up to 63' -f a/b true
	refused '--nothing: unknown option' --nothing true
	refused '--fabric: give it a value' --fabric
	refused '--mode fast: give auto' --mode fast true
	refused '--link slow: give off' --link slow true
	refused '--uar old: give dynamic or legacy' --uar old true
	refused '--death slow: give at_once or timers' --death slow true
	refused '--chaos 0: give a seed' --chaos 0 true
	refused '--chaos: give a seed' --chaos '' true
	refused '--chaos 1x: give a seed' --chaos 1x true
	refused '--chaos -1: give a seed' --chaos -1 true
	refused '--chaos 99999999999999999999: give' --chaos 99999999999999999999 true
	refused '--faults .*: no such file' --faults "$tmp/nothing" true
	echo 'action=rnr bytes=3' >"$tmp/faults"
	refused 'faults:1: bytes is for' --faults "$tmp/faults" true
	echo 'action=rnr device=mlx5_7' >"$tmp/faults" # the mistake is found when the fabric is made
	status 125 "$run" -n 7 --faults "$tmp/faults" true
	grep -q 'fault rule: mlx5_7: no such adapter; name' "$tmp/err" || fail "$(cat "$tmp/err")"
	status 0 "$run" -n 8 --faults "$tmp/faults" true
	mkfifo "$tmp/fifo"
	refused 'fifo: not a regular file; give a topology' -t "$tmp/fifo" true
	refused 'fifo: not a regular file; give a file of fault' --faults "$tmp/fifo" true
	printf 'gid=::1\ngid=::1\n' >"$tmp/wrong"
	refused 'wrong:2: gid=::1 is taken by rail 0: give' -t "$tmp/wrong" true
	refused 'give one of them' -n 1 -t "$tmp/wrong" true
	SOFTHCA_RAILS=99 refused 'SOFTHCA_RAILS=99: give 1 to 16' true
	SOFTHCA_MODE=fast refused 'SOFTHCA_MODE=fast: give auto, trap, poll or step' true
	SOFTHCA_BF=yes refused 'SOFTHCA_BF=yes: give 0 or 1' true
	SOFTHCA_STRICT=01 refused 'SOFTHCA_STRICT=01: give 0, 1 or abort' true
	for wrong in 0 x 1k 99999999999999999999; do
		SOFTHCA_MEMLOCK=$wrong refused "SOFTHCA_MEMLOCK=$wrong: give a number of bytes" true
	done
	SOFTHCA_CHAOS=0 refused 'SOFTHCA_CHAOS=0: give a seed' true
	SOFTHCA_LINK=slow refused 'SOFTHCA_LINK=slow: give off' true
	SOFTHCA_UAR=old refused 'SOFTHCA_UAR=old: give dynamic or legacy' true
	SOFTHCA_DEATH=slow refused 'SOFTHCA_DEATH=slow: give at_once or timers' true
	SOFTHCA_MEMLOCK=unlimited status 0 "$run" true
	SOFTHCA_TRACE=/tmp/x refused 'SOFTHCA_TRACE=/tmp/x: give 0 or 1' true
	SOFTHCA_PATIENCE=x refused 'SOFTHCA_PATIENCE=x: give milliseconds, 0 to 86400000' true
	SOFTHCA_PATIENCE=+5 refused 'SOFTHCA_PATIENCE=+5: give milliseconds' true
	SOFTHCA_PATIENCE=86400001 refused 'SOFTHCA_PATIENCE=86400001: give milliseconds' true
	SOFTHCA_PATIENCE=86400000 status 0 "$run" true
	SOFTHCA_IDLE=x refused 'SOFTHCA_IDLE=x: give microseconds, 0 to 10000000, or never' true
	SOFTHCA_IDLE=10000001 refused 'SOFTHCA_IDLE=10000001: give microseconds' true
	SOFTHCA_IDLE=10000000 status 0 "$run" true
	SOFTHCA_IDLE=never status 0 "$run" true
	SOFTHCA_CORES=0 refused 'SOFTHCA_CORES=0: give a number of cores, 1 to 1024' true
	SOFTHCA_CORES=1025 refused 'SOFTHCA_CORES=1025: give a number of cores' true
	SOFTHCA_CORES=1024 status 0 "$run" true
	SOFTHCA_FABRIC=a/b refused 'SOFTHCA_FABRIC=a/b: give up to 63' true
	long=$(printf '%064d' 0)
	SOFTHCA_FABRIC=$long refused "SOFTHCA_FABRIC=$long: give up to 63" true
	refused "--fabric $long: give up to 63" -f "$long" true
	SOFTHCA_FABRIC=${long#0} status 0 "$run" true
	SOFTHCA_BF=0 SOFTHCA_STRICT= SOFTHCA_MODE= status 0 "$run" true
	SOFTHCA_MODE=fast status 0 "$run" --mode poll true
	SOFTHCA_MODE=fast status 0 "$run" --mode auto true
}

# Without softhca-run the library checks the variables itself. If one is wrong, there is no device.
wrong_for_the_library() {
	find_library
	status 0 env LD_PRELOAD="$library" cat "$port"
	for wrong in SOFTHCA_MODE=fast SOFTHCA_BF=yes SOFTHCA_STRICT=2 SOFTHCA_FABRIC=a/b; do
		status 1 env LD_PRELOAD="$library" "$wrong" cat "$port"
		grep -q "softhca: $wrong: give" "$tmp/err" || fail "$wrong: $(cat "$tmp/err")"
	done
}

# has NAME VALUE: the program's environment must contain it.
has() {
	grep -q -x -e "$1=$2" "$tmp/out" || fail "$1 is not $2: $(grep "^$1=" "$tmp/out")"
}

environment() {
	printf 'numa=0\nlink=roce\n' >"$tmp/topo"
	echo 'action=rnr' >"$tmp/faults"
	status 0 "$run" --strict=abort env
	has SOFTHCA_STRICT abort
	status 0 env SOFTHCA_STRICT=abort "$run" --strict env
	has SOFTHCA_STRICT abort
	status 0 env SOFTHCA_STRICT=0 "$run" --strict env
	has SOFTHCA_STRICT 1
	status 2 "$run" --strict=often env
	grep -q 'give --strict or --strict=abort' "$tmp/err" || fail "--strict=often: $(cat "$tmp/err")"
	status 0 "$run" -n 3 --bf --strict --mode poll --link virtual --chaos 7 --faults "$tmp/faults" \
		--uar legacy --death timers -f "$fabric" env
	has SOFTHCA_MODE poll
	has SOFTHCA_LINK virtual
	has SOFTHCA_CHAOS 7
	has SOFTHCA_FAULT_FILE "$tmp/faults"
	has SOFTHCA_RAILS 3
	has SOFTHCA_BF 1
	has SOFTHCA_STRICT 1
	has SOFTHCA_UAR legacy
	has SOFTHCA_DEATH timers
	has SOFTHCA_FABRIC "$fabric"
	has LD_PRELOAD '/.*/libsofthca.so.0'
	has HWLOC_THISSYSTEM 1
	grep -q 'not a network' "$tmp/err" || fail "does not say what its figures describe"
	status 0 sh -c 'cd "$1" && shift && exec "$@"' - "$tmp" "$run" -t topo env
	has SOFTHCA_TOPOLOGY "$tmp/topo"
	status 0 env LD_PRELOAD=libm.so.6 "$run" env
	has LD_PRELOAD 'libm.so.6:/.*/libsofthca.so.0'
	status 0 "$run" "$run" env
	has LD_PRELOAD '/[^:]*/libsofthca.so.0'
	one_line "a softhca-run in a softhca-run"
}

# hwloc's own tool shows each adapter below its node.
hwloc() {
	[ "$(nproc --all)" -gt 1 ] || return 0 # hwloc attaches a node without CPUs to the machine
	printf 'numa=0\nnuma=1 name=rail_b\n' >"$tmp/topo"
	status 0 "$run" -t "$tmp/topo" lstopo-no-graphics --of console
	tr -d '\n' <"$tmp/out" | grep -q \
		'(P#0.*OpenFabrics "mlx5_0".*NUMANode L#1 (P#1.*OpenFabrics "rail_b"' ||
		fail "hwloc shows: $(cat "$tmp/out")"
}

# Options after the program belong to the program.
arguments() {
	status 0 "$run" -n 2 echo -n 7 --bf --help
	[ "$(cat "$tmp/out")" = '7 --bf --help' ] || fail "arguments are $(cat "$tmp/out")"
}

signals_are_passed_on() {
	hold term
	kill -TERM "$runner"
	wait "$runner"
	[ $? = 143 ] || fail "SIGTERM was not passed on"
	ended "$program" || fail "the program lives on"
	gone "$dir" || fail "$dir is left"
}

program_killed() {
	hold killed
	kill -9 "$program"
	wait "$runner"
	[ $? = 137 ] || fail "SIGKILL of the program is not its status"
	gone "$dir" || fail "$dir is left"
}

# outlived HOLD-ARGUMENT...: softhca-run is killed; its program and the fabric must end, too.
outlived() {
	hold "$@"
	kill -9 "$runner"
	wait "$runner" 2>/dev/null
	until_true ended "$program"
	until_true gone "$dir"
}

# Ends a job as timeout(1) does: all processes of its group at the same time. The members die in any order.
group_killed() {
	mkfifo "$tmp/group.in" "$tmp/group.out"
	setsid "$run" sh -c '"$1" <"$2" & "$1" <"$2" & wait' - "$holder" "$tmp/group.in" \
		>"$tmp/group.out" 2>"$tmp/group.err" 8>&- 9>&- &
	runner=$!
	exec 8<"$tmp/group.out"
	exec 9>"$tmp/group.in"
	read -r line <&8 && read -r line <&8 || fail "group: $(cat "$tmp/group.err")"
	[ -d "$dir" ] || fail "the group has no fabric"
	kill -9 "-$runner"
	wait "$runner" 2>/dev/null
	cat <&8 >"$tmp/rest" # until no process has the descriptor any more
	until_true gone "$dir"
	exec 8<&- 9>&-
}

# When the program starts, the guardian (softhca-run's other child) already leads its own session, which a signal to the
# group does not reach.
guardian_is_first() {
	status 0 env LD_PRELOAD="$late_setsid" "$run" sh -c '
		children=$(cat "/proc/$PPID/task/$PPID/children")
		set -- $children
		[ $# = 2 ] || exit 3
		[ "$1" = $$ ] && shift
		read -r _ _ _ _ _ session _ <"/proc/$1/stat"
		[ "$session" = "$1" ]'
}

# When a member that has outlived its softhca-run is killed, its fabric is removed, too.
left_behind() {
	mkfifo "$tmp/late.in" "$tmp/late.out"
	"$run" sh -c '"$1" <"$2" >"$3" 2>&1 & echo $! >"$4"
		grep -q ready <"$3"' - "$holder" "$tmp/late.in" \
		"$tmp/late.out" "$tmp/late.pid" 2>"$tmp/late.err" 8>&- 9<>"$tmp/late.in" ||
		fail "late: $(cat "$tmp/late.err")"
	[ -d "$dir" ] || fail "a fabric in use is gone"
	kill -9 "$(cat "$tmp/late.pid")"
	until_true gone "$dir"
}

# A softhca-run that may not make files joins a fabric.
no_files() {
	case $(ldd "$run") in *libtsan*) return ;; esac # this sanitizer makes a file
	status 0 "$run" env -u HWLOC_XMLFILE sh -c 'ulimit -f 0 && exec "$0" true' "$run"
}

# Without standard files, softhca-run and its guardian keep the lock and their socket.
closed_files() {
	status 0 sh -c '"$@" <&- >&- 2>&-' - "$run" sh -c '
		[ ! -e /proc/$$/fd/0 ] && [ ! -e /proc/$$/fd/1 ] || exit 3
		exec </dev/null >/dev/null 2>&1
		children=$(cat "/proc/$PPID/task/$PPID/children")
		set -- $children
		[ "$1" = $$ ] && shift
		for pid in $PPID "$1"; do
			readlink "/proc/$pid/fd/"* | grep -q "^socket:" || exit 4
			readlink "/proc/$pid/fd/"* | grep -q "/lock$" || exit 5
		done'
}

guardian_killed() {
	hold unguarded
	guardian=
	for status in $(grep -l -s "^PPid:[[:space:]]*$runner\$" /proc/[0-9]*/status); do
		child=${status#/proc/}
		child=${child%/status}
		[ "$child" = "$program" ] || guardian=$child
	done
	[ -n "$guardian" ] || fail "no guardian"
	kill -9 "$guardian"
	released "without a guardian it"
	gone "$dir" || fail "$dir is left"
}

runner_killed() {
	outlived orphan
	outlived stubborn env --ignore-signal=TERM # a program that ignores SIGTERM
	LD_PRELOAD=$late_fork outlived early env --ignore-signal=TERM # softhca-run is killed in its second fork()
	unset LD_PRELOAD
}

two_at_once() {
	hold first -n 2
	first=$runner
	exec 8>&9
	"$run" -n 3 true 2>"$tmp/err"
	[ $? = 2 ] || fail "other rails in a used fabric are not refused"
	grep -q 'fabric: SOFTHCA_RAILS=3: a running program' "$tmp/err" || fail "says $(cat "$tmp/err")"
	hold second
	second=$runner
	exec 8>&-
	wait "$first" || fail "first ends with $?"
	[ -d "$dir" ] || fail "the second one lost its fabric"
	exec 9>&-
	wait "$second" || fail "second ends with $?"
	gone "$dir" || fail "$dir is left"
}

# joins VARIABLE=VALUE: a program with this variable becomes a member of the fabric.
joins() {
	env "$1" "$run" true 2>"$tmp/err" 9>&- || fail "$made: $1 is refused: $(cat "$tmp/err")"
	env "$1" LD_PRELOAD="$library" cat "$port" >"$tmp/out" 2>&1 ||
		fail "$made: the library refuses $1: $(cat "$tmp/out")"
}

# kept_out VARIABLE=VALUE: a program with this variable cannot join, and one line gives the reason.
kept_out() {
	env "$1" "$run" true 2>"$tmp/err" 9>&-
	[ $? = 2 ] || fail "$made: $1 is not refused"
	one_line "$made: $1"
	grep -q -F -e "fabric: $1: a running program has made" "$tmp/err" ||
		fail "$made: $1: says $(cat "$tmp/err")"
	env "$1" LD_PRELOAD="$library" cat "$port" >"$tmp/out" 2>&1 &&
		fail "$made: the library takes $1"
	[ "$(grep -c -F -e "softhca: $1: a running program has made" "$tmp/out")" = 1 ] ||
		fail "$made: $1: the library says $(cat "$tmp/out")"
}

# The settings of the process that makes the fabric, one row each: VARIABLE, its value, another value, and a value that
# means the same in other words.
settings() {
	find_library
	printf 'lid=77\n' >"$tmp/lid"
	printf 'lid=77 # the same\n' >"$tmp/lid-too"
	printf 'lid=78\n' >"$tmp/other-lid"
	echo 'action=rnr' >"$tmp/rule"
	echo 'action=rnr nth=1' >"$tmp/rule-too"
	echo 'action=rnr nth=2' >"$tmp/other-rule"
	ln -s . "$tmp/here"
	n=0
	while read -r variable value other same; do
		n=$((n + 1))
		made="$variable=$value"
		export "$made"
		hold "setting$n"
		unset "$variable"
		joins "$made"
		joins "$variable="
		joins UNUSED=
		joins "$variable=$same"
		kept_out "$variable=$other"
		released "$made: the maker"
		made=none
		hold "none$n"
		joins "$variable="
		kept_out "$variable=$other"
		released "$made: the maker"
		gone "$dir" || fail "$made: $dir is left"
	done <<-ROWS
		SOFTHCA_RAILS 2 3 2
		SOFTHCA_TOPOLOGY $tmp/lid $tmp/other-lid $tmp/lid-too
		SOFTHCA_LINK virtual real virtual
		SOFTHCA_CHAOS 7 8 07
		SOFTHCA_FAULTS action=rnr action=no_answer action=rnr;
		SOFTHCA_FAULT_FILE $tmp/rule $tmp/other-rule $tmp/rule-too
		SOFTHCA_CAPTURE $tmp/a.pcapng $tmp/b.pcapng $tmp/here/a.pcapng
	ROWS
	[ $n = 7 ] || fail "$n settings"
	[ ! -e "$tmp/b.pcapng" ] || fail "a capture that was refused has made its file"
	# A default is a value, too: another value is refused.
	hold plain
	made=plain
	joins SOFTHCA_RAILS=1
	joins SOFTHCA_LINK=off
	kept_out SOFTHCA_RAILS=2
	released plain
	# Rules that softhcactl has removed still belong to the setting.
	SOFTHCA_FAULTS=action=rnr hold ruled
	made=ruled
	"$ctl" fault clear >"$tmp/out" 2>&1 || fail "softhcactl: $(cat "$tmp/out")"
	joins SOFTHCA_FAULTS=action=rnr
	kept_out SOFTHCA_FAULTS=action=no_answer
	# A program that only inspects a fabric may have any value.
	SOFTHCA_FAULTS=action=no_answer SOFTHCA_RAILS=5 "$ctl" list >"$tmp/out" 2>&1
	grep -q "^$fabric: .* 1 adapters" "$tmp/out" || fail "list: $(cat "$tmp/out")"
	SOFTHCA_FAULTS=action=no_answer SOFTHCA_RAILS=5 "$ctl" show >"$tmp/out" 2>&1 ||
		fail "show: $(cat "$tmp/out")"
	released ruled
	# Without descriptors the directory may stay. A fabric without processes is not listed.
	sh -c 'ulimit -n 10; exec "$@"' - "$run" -f "$fabric" true >"$tmp/out" 2>&1 || :
	"$ctl" list >"$tmp/out" 2>&1
	! grep -q "^$fabric:" "$tmp/out" || fail "list: $(cat "$tmp/out")"
}

# Paths of the library that LD_PRELOAD cannot contain.
odd_paths() {
	find_library
	for odd in 'a b' 'c:d' 'e
f'; do
		mkdir -p "$tmp/$odd/run"
		cp "$run" "$tmp/$odd/run"
		cp "$library" "$tmp/$odd"
		status 0 "$tmp/$odd/run/softhca-run" cat /sys/class/infiniband/mlx5_0/ports/1/state
		grep -q ACTIVE "$tmp/out" || fail "$odd: $(cat "$tmp/out" "$tmp/err")"
		status 0 "$tmp/$odd/run/softhca-run" "$tmp/$odd/run/softhca-run" printenv LD_PRELOAD
		[ "$(cat "$tmp/out")" = "$dir/libsofthca.so.0" ] || fail "$odd: $(cat "$tmp/out")"
	done
	# The directory of a fabric has room for a link to one such library. Another library is refused.
	hold odd
	"$tmp/a b/run/softhca-run" true 2>"$tmp/err" 9>&- || fail "beside another: $(cat "$tmp/err")"
	"$tmp/c:d/run/softhca-run" true 2>"$tmp/err" 9>&-
	[ $? = 125 ] || fail "a second link is not refused"
	grep -q 'c:d.*give --fabric another name' "$tmp/err" || fail "says: $(cat "$tmp/err")"
	released odd
}

# The directory of fabrics does not exist, or cannot be written: one line says so.
no_place() {
	[ "$me" = 0 ] || return 0
	for how in 'mount -t tmpfs none /dev' 'mount -o bind,ro /dev/shm /dev/shm'; do
		unshare -m sh -c "mount --make-rprivate / && $how && exec \"\$@\"" - "$run" true \
			2>"$tmp/err"
		[ $? = 125 ] || fail "$how: is not refused"
		one_line "$how"
		grep -q '/dev/shm' "$tmp/err" || fail "$how: says $(cat "$tmp/err")"
	done
}

# A capture is not written through a link that another user may have made.
capture_link() {
	echo precious >"$tmp/precious"
	ln -s "$tmp/precious" "$tmp/link.pcapng"
	status 125 env SOFTHCA_CAPTURE="$tmp/link.pcapng" "$run" true
	grep -q 'link.pcapng: give a regular file' "$tmp/err" || fail "a link: $(cat "$tmp/err")"
	[ "$(cat "$tmp/precious")" = precious ] || fail "the capture has followed a link"
}

# A member that holds the fabric's mutex for ever does not block softhca-run.
mutex_held() {
	mkfifo "$tmp/cat.in" "$tmp/locker.in" "$tmp/locker.out"
	"$run" sh -c 'echo >"$1"; exec cat' - "$tmp/cat.ready" <"$tmp/cat.in" 2>"$tmp/cat.err" &
	runner=$!
	exec 9>"$tmp/cat.in"
	until_true test -s "$tmp/cat.ready"
	"$locker" <"$tmp/locker.in" >"$tmp/locker.out" 9>&- &
	locking=$!
	exec 8>"$tmp/locker.in"
	read -r line <"$tmp/locker.out" || fail "the locker does not run"
	released cat
	[ -d "$dir" ] || fail "a fabric in use is gone"
	exec 8>&-
	wait "$locking" || fail "the locker ends with $?"
	gone "$dir" || fail "$dir is left"
}

# Files of a killed member of another fabric are removed, too.
other_fabric() {
	other=/dev/shm/softhca-$me-$fabric-other
	hold other env SOFTHCA_FABRIC="$fabric-other"
	[ -d "$other" ] || fail "no second fabric"
	kill -9 "$program"
	wait "$runner"
	gone "$other" || fail "$other is left"
	gone "$dir" || fail "$dir is left"
}

# says PATTERN N COMMAND...: the command must end with N. Besides the line about figures, softhca-run must print one
# line, which matches PATTERN.
says() {
	pattern=$1
	shift
	status "$@"
	[ "$(grep -c '^softhca-run: [^e]' "$tmp/err")" = 1 ] || fail "not one line: $(cat "$tmp/err")"
	grep -q -e "does not see the adapters: $pattern" "$tmp/err" || fail "says: $(cat "$tmp/err")"
}

# Programs that cannot see the adapters run, with a warning.
unseen() {
	if [ -n "$fixed" ]; then
		says 'it is linked statically' 0 "$run" "$fixed"
		says 'it is linked statically' 0 env PATH="${fixed%/*}:$PATH" "$run" fixed
		# An empty directory in PATH is the current one.
		for path in ":$PATH" "/nowhere::$PATH" "/nowhere:"; do
			says 'it is linked statically' 0 env -C "${fixed%/*}" PATH="$path" "$run" fixed
		done
		script=$tmp/script
		printf '#!%s -x\n' "$fixed" >"$script"
		chmod +x "$script"
		says 'it is linked statically' 0 "$run" "$script"
		# The kernel executes at most five scripts in a row.
		for i in 2 3 4 5; do
			printf '#!%s\n' "$script" >"$tmp/script$i"
			script=$tmp/script$i
			chmod +x "$script"
		done
		says 'it is linked statically' 0 "$run" "$script"
	fi
	cp /bin/true "$tmp/class"
	printf '\001' | dd of="$tmp/class" bs=1 seek=4 conv=notrunc 2>/dev/null
	"$run" "$tmp/class" 2>"$tmp/err"
	grep -q 'adapters: it is a 32-bit program' "$tmp/err" || fail "says: $(cat "$tmp/err")"
	cp /bin/true "$tmp/machine"
	printf '\267' | dd of="$tmp/machine" bs=1 seek=18 conv=notrunc 2>/dev/null
	"$run" "$tmp/machine" 2>"$tmp/err"
	grep -q 'adapters: it is not a program for x86-64' "$tmp/err" || fail "says: $(cat "$tmp/err")"
	status 0 "$run" /bin/true
	grep -q 'does not see' "$tmp/err" && fail "true: $(cat "$tmp/err")"
	[ "$me" = 0 ] || return 0
	cp /bin/true "$tmp/suid"
	chown 65534 "$tmp/suid"
	chmod 4755 "$tmp/suid"
	chmod 755 "$tmp"
	case $(findmnt -n -o OPTIONS -T "$tmp") in
	*nosuid*) ;;
	*) says 'it is set-user-ID' 0 "$run" "$tmp/suid" ;;
	esac
}

no_processes() {
	status 125 env LD_PRELOAD="$no_fork" "$run" true
	grep -q '^softhca-run: guardian: ' "$tmp/err" || fail "no guardian says: $(cat "$tmp/err")"
}

other_user() {
	[ "$me" = 0 ] || return 0
	mkdir "$dir"
	chown 65534 "$dir"
	"$run" true 2>"$tmp/err"
	got=$?
	rmdir "$dir"
	[ $got = 2 ] || fail "another user's fabric: $got"
	grep -q 'another user' "$tmp/err" || fail "says $(cat "$tmp/err")"
}

for t in exit_statuses full_device wrong_arguments wrong_for_the_library environment hwloc \
	arguments signals_are_passed_on program_killed runner_killed group_killed left_behind no_files closed_files \
	guardian_is_first guardian_killed no_processes \
	two_at_once settings odd_paths no_place capture_link mutex_held other_fabric unseen other_user; do
	echo "$t"
	$t
done
