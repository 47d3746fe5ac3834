#!/bin/sh
# SPDX-License-Identifier: MIT
# Moves a file of 100 MB, in two pieces, and an empty one, and compares them.
set -eu
dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT
head -c 100000000 /dev/urandom >"$dir/long"
: >"$dir/empty"
for f in long empty; do
	timeout 60 "$1" receive "$dir/$f.out" "$dir/$f.ticket" &
	timeout 60 "$1" send "$dir/$f" "$dir/$f.ticket"
	wait $!
	cmp "$dir/$f" "$dir/$f.out"
done
