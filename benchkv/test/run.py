#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs whole jobs of benchkv, with mpirun and without it, on the software HCA if there is no adapter.

    run.py CASE[:BACKEND] BENCHKV SOFTHCA-RUN DIRECTORY-OF-TEST-PROGRAMS

Every case has its own temporary directory and, if possible, its own /dev/shm. At the end these must be empty, except
that mpirun may leave directories, and no process may be left.
"""
import sys

import daemons
import deaths
import faults
import harness
import plans
import ranks
import refusals
import whole

if __name__ == "__main__":
    cases = {}
    for module in daemons, deaths, faults, plans, ranks, refusals, whole:
        cases.update(vars(module))
    sys.exit(harness.main(cases))
