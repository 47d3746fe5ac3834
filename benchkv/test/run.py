#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs whole jobs of benchkv, with mpirun and without it, on the software HCA.

    run.py CASE[:BACKEND] BENCHKV SOFTHCA-RUN DIRECTORY-OF-TEST-PROGRAMS

Every case runs with its own /dev/shm and temporary directory, which must be empty at the
end, and must leave no process.
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
