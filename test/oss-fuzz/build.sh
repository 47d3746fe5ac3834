#!/bin/bash -eu
# SPDX-License-Identifier: MIT
# Builds every fuzzer into $OUT. OSS-Fuzz calls this script in the root of the tree, and sets $CC, $CFLAGS, $CXX,
# $CXXFLAGS and $LIB_FUZZING_ENGINE.
python3 subprojects/softhca/test/fuzz/fuzz.py build "$OUT" test/fuzz/fuzzers.txt subprojects/softhca/test/fuzz/fuzzers.txt
