#!/bin/sh
# SPDX-License-Identifier: MIT
# Moves a file of 100 MB in two pieces, and an empty file, and compares them. Then tries a file that cannot be read.
set -eu
dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT
head -c 100000000 /dev/urandom >"$dir/long"
: >"$dir/empty"
for f in long empty; do
	timeout 240 "$1" receive "$dir/$f.out" "$dir/$f.ticket" &
	timeout 240 "$1" send "$dir/$f" "$dir/$f.ticket"
	wait $!
	cmp "$dir/$f" "$dir/$f.out"
done
# A file that cannot be read is an error of the sender, not an empty file at the receiver.
"$1" receive "$dir/none.out" "$dir/none.ticket" &
timeout 240 "$1" send "$dir" "$dir/none.ticket" 2>"$dir/said" && exit 1
grep -q "$dir: " "$dir/said"
kill $! # it waits for a piece
wait $! && exit 1
[ ! -s "$dir/none.out" ]
