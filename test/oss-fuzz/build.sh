#!/bin/bash -eu
# SPDX-License-Identifier: MIT
# Builds every fuzzer into $OUT, as OSS-Fuzz calls it: $CC, $CFLAGS, $CXX, $CXXFLAGS and $LIB_FUZZING_ENGINE are set, and
# this tree is the current directory.
python3 subprojects/softhca/test/fuzz/fuzz.py build "$OUT" test/fuzz/fuzzers.txt subprojects/softhca/test/fuzz/fuzzers.txt
