#!/bin/sh
# SPDX-License-Identifier: MIT
# fuzz.sh CLANG SECONDS PERCENT LONGEST SEEDS.py MEASURED[,MEASURED] CLANG-ARGUMENT...
# Compiles a program with CLANG-ARGUMENT, with sanitizers, and fuzzes it for SECONDS with inputs of at most LONGEST bytes.
# SEEDS.py writes the first inputs into the directory in its argument. Then runs the inputs that were found interesting
# once more: they must cover at least PERCENT of the lines of MEASURED.
set -eu
clang=$1 seconds=$2 percent=$3 longest=$4 seeds=$5 measured=$(echo "$6" | tr , ' ')
shift 6
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT INT TERM

# Paths may be relative to the directory in which this script was started.
mkdir "$dir/corpus"
python3 "$seeds" "$dir/corpus"
"$clang" -std=gnu11 -g "$@" -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
	-o "$dir/fuzz"
"$clang" -std=gnu11 -g "$@" -O0 -DNDEBUG -fsanitize=fuzzer -fprofile-instr-generate \
	-fcoverage-mapping -o "$dir/cover"
for f in $measured; do
	realpath "$f"
done >"$dir/measured"
cd "$dir"

./fuzz -max_total_time="$seconds" -max_len="$longest" -rss_limit_mb=1024 -verbosity=1 corpus \
	>log 2>&1 || {
	tail -60 log
	for f in crash-* leak-* oom-* timeout-*; do
		[ -f "$f" ] && echo "$f" && base64 "$f"
	done
	exit 1
}
tail -1 log

LLVM_PROFILE_FILE=raw ./cover -runs=0 corpus >log 2>&1
llvm-profdata merge -o profile raw
xargs llvm-cov export -summary-only -instr-profile=profile cover <measured >summary
lines=$(grep -o '"lines":{[^}]*}' summary | tail -1 | grep -o '"percent":[0-9.]*' | cut -d: -f2)
echo "$lines % of lines covered"
awk -v have="$lines" -v want="$percent" 'BEGIN { exit !(have >= want) }'
