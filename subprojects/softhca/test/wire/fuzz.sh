#!/bin/sh
# SPDX-License-Identifier: MIT
# fuzz.sh CLANG SOFTHCA-DIR SECONDS PERCENT
# Fuzzes fuzz-wire.c with sanitizers for so many seconds; then runs what was found interesting once
# more: at least PERCENT of the lines of the machine and the decoder are covered.
set -eu
clang=$1 src=$2/src test=$2/test/wire seconds=$3 percent=$4
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT INT TERM
cd "$dir"
measured="$src/wire/requester.c $src/wire/responder.c $src/packet/packet.c"

build() {
	# shellcheck disable=SC2086
	"$clang" -std=gnu11 -g -I"$src" "$test/fuzz-wire.c" $measured "$src/packet/message.c" \
		"$src/packet/frame.c" "$src/packet/icrc.c" "$@"
}

# Packets of each operation and PSN that fit the first messages.
seeds() {
	mkdir corpus
	python3 -c '
import itertools, struct
def packet(op, psn, payload, aeth=0):
    heads = {6: 16, 10: 16, 11: 20, 12: 16, 13: 4, 15: 4, 16: 4, 17: 4, 18: 12, 19: 28, 20: 28, 3: 4, 5: 4, 9: 4}
    head = struct.pack("!QII12x", 8, 0x1234, 600)[: heads.get(op, 0)]
    head = struct.pack("!I", aeth << 24).ljust(len(head), b"\0") if 13 <= op <= 18 else head
    bytes = struct.pack("!III", op << 24 | 0x40ffff, 1, psn & 0xffffff) + head + payload * b"x"
    return struct.pack("<H", len(bytes)) + bytes
for kind, op in itertools.product(range(6), range(21)):
    payload = 0 if op in (12, 17, 18, 19, 20) else 88 if op in (2, 3, 8, 9, 15) else 256
    begin = b"\x08" + bytes([kind] * 8)
    chain = [packet(first, 0xfffffc + i, 256) for i, first in enumerate({8: [6, 7], 9: [6, 7], 7: [6], 2: [0, 1],
             3: [0, 1], 1: [0], 14: [13], 15: [13, 14]}.get(op, []))]
    for aeth in (0x1f, 0x20, 0x60, 0x61, 0x62):
        last = packet(op, 0xfffffc + len(chain), payload, aeth)
        with open(f"corpus/{kind}-{op}-{aeth}", "wb") as f:
            f.write(begin + b"".join(chain) + last + last + packet(17, 0xffffff, 0, aeth))
'
}

seeds
build -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -o fuzz
./fuzz -max_total_time="$seconds" -max_len=4096 -rss_limit_mb=1024 -verbosity=1 corpus >log 2>&1 || {
	tail -60 log
	for f in crash-* leak-* oom-* timeout-*; do
		[ -f "$f" ] && echo "$f" && base64 "$f"
	done
	exit 1
}
tail -1 log
build -O0 -fsanitize=fuzzer -fprofile-instr-generate -fcoverage-mapping -o cover
LLVM_PROFILE_FILE=raw ./cover -runs=0 corpus >log 2>&1
llvm-profdata merge -o profile raw
# shellcheck disable=SC2086
llvm-cov export -summary-only -instr-profile=profile cover $measured >summary
lines=$(grep -o '"lines":{[^}]*}' summary | tail -1 | grep -o '"percent":[0-9.]*' | cut -d: -f2)
echo "$lines % of lines covered"
awk -v have="$lines" -v want="$percent" 'BEGIN { exit !(have >= want) }'
