#!/bin/sh
# SPDX-License-Identifier: MIT
# check.sh SPIN CC LAYER-DIR pass|fail -DNAME=VALUE...
# Runs the model of flow.pml with these values. With "pass" the search must be complete and find no
# error; with "fail" it must find the planted error.
set -eu
spin=$1 cc=$2 src=$3 want=$4
shift 4

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT INT TERM
cp "$src/test/model/flow.pml" "$src/test/model/model.h" "$dir"
cd "$dir"

"$spin" "$@" -a flow.pml >spin.log 2>&1 || { cat spin.log; exit 1; }
optimization=-O1
[ "$want" = pass ] || optimization=-O0 # the error is soon found
$(command -v ccache) "$cc" $optimization -w -DNDEBUG -DSAFETY -DNOREDUCE -DVECTORSZ=2048 -DMEMLIM=8000 "$@" -I. -I"$src/src" -c \
	-o pan.o pan.c
"$cc" -o pan pan.o
./pan -m2000000 -w22 >pan.log 2>&1 || true
grep -E '^pan:|errors:|states, stored|memory' pan.log || true

if grep -qE 'max search depth too small|reached -DMEMLIM' pan.log; then
	echo 'the search is not complete'
	exit 1
fi
case $want in
pass) grep -q 'errors: 0' pan.log ;;
fail) grep -q 'errors: 1' pan.log ;;
esac
