#!/bin/sh
# SPDX-License-Identifier: MIT
# fuzz.sh CLANG LAYER-DIR TARGET SECONDS SOURCE[,HEADER] [PERCENT]
# Fuzzes fuzz-TARGET.c with sanitizers for so many seconds; then runs what was found
# interesting once more and reports the lines of SOURCE and HEADER that it covers: at least PERCENT.
set -eu
clang=$1 layer=$2 target=$3 seconds=$4 sources=$5 percent=${6:-0}
source=${sources%,*}
measured=$(echo "$sources" | sed "s|^|$layer/src/|; s|,| $layer/src/|")

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT INT TERM
cd "$dir"
mkdir corpus
{ # what a connection blob begins with, as the time is short
	printf 'CPRPCINF\001\000\140\000'
	head -c 84 /dev/zero
} >corpus/blob

build() {
	"$clang" -std=gnu11 -D_GNU_SOURCE -g -I"$layer/include" -I"$layer/src" \
		-I"$layer/../base/include" "$layer/test/fuzz/fuzz-$target.c" "$layer/src/$source" "$@"
}

build -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -o fuzz
./fuzz -max_total_time="$seconds" -max_len=512 -rss_limit_mb=1024 -verbosity=1 corpus >log 2>&1 || {
	tail -60 log
	for f in crash-* leak-* oom-* timeout-*; do
		[ -f "$f" ] && echo "$f" && base64 "$f"
	done
	exit 1
}
tail -1 log

build -O0 -DNDEBUG -fsanitize=fuzzer -fprofile-instr-generate -fcoverage-mapping -o cover
LLVM_PROFILE_FILE=raw ./cover -runs=0 corpus >log 2>&1
llvm-profdata merge -o profile raw
# shellcheck disable=SC2086
llvm-cov export -summary-only -instr-profile=profile cover $measured >summary
lines=$(grep -o '"lines":{[^}]*}' summary | tail -1 | grep -o '"percent":[0-9.]*' | cut -d: -f2)
echo "$sources: $lines % of lines covered"
awk -v have="$lines" -v want="$percent" 'BEGIN { exit !(have >= want) }'
