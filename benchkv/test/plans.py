# SPDX-License-Identifier: MIT
"""Cases about --dry-run: the printed plan and its reasons."""
import os
import re

import harness
from harness import MANY, MPIRUN, check, going, job, of_test, run
from procs import resident

# Two packages of four cores, and mlx5_0 at the second one.
MACHINE = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
<object type="Machine" os_index="0" cpuset="0xff" complete_cpuset="0xff" allowed_cpuset="0xff"
 nodeset="0x3" complete_nodeset="0x3" allowed_nodeset="0x3" gp_index="1">
""" + "".join(f"""<object type="Package" os_index="{p}" cpuset="{15 << 4 * p:#x}"
 complete_cpuset="{15 << 4 * p:#x}" nodeset="{1 << p:#x}" complete_nodeset="{1 << p:#x}"
 gp_index="{2 + p}">
<object type="NUMANode" os_index="{p}" cpuset="{15 << 4 * p:#x}" complete_cpuset="{15 << 4 * p:#x}"
 nodeset="{1 << p:#x}" complete_nodeset="{1 << p:#x}" gp_index="{4 + p}" local_memory="4096"/>
""" + "".join(f"""<object type="Core" os_index="{c}" cpuset="{1 << c:#x}" complete_cpuset="{1 << c:#x}"
 nodeset="{1 << p:#x}" complete_nodeset="{1 << p:#x}" gp_index="{10 + c}">
<object type="PU" os_index="{c}" cpuset="{1 << c:#x}" complete_cpuset="{1 << c:#x}"
 nodeset="{1 << p:#x}" complete_nodeset="{1 << p:#x}" gp_index="{20 + c}"/></object>
""" for c in range(4 * p, 4 * p + 4)) + ("""<object type="Bridge" gp_index="40" bridge_type="0-1" depth="0"
 bridge_pci="0000:[00-01]">
<object type="PCIDev" gp_index="41" pci_busid="0000:01:00.0"
 pci_type="0207 [15b3:101b] [15b3:0001] 00" pci_link_speed="0.000000">
<object type="OSDev" gp_index="42" name="mlx5_0" osdev_type="3"/></object></object>
""" if p else "") + "</object>\n" for p in range(2)) + "</object>\n</topology>\n"


def plan(np, *args, env=None):
    """Returns the output of --dry-run, by rank."""
    head = [a for k, v in (env or {}).items() for a in ("-x", f"{k}={v}")] if np else []
    argv = job(np, "--dry-run", *args)
    if np:
        argv = MPIRUN + ["--tag-output"] + head + argv[len(MPIRUN):]
    r = run(argv, None if np else env)
    check(r.status == 0, r)
    if not np:
        return [r.out]
    lines = re.findall(r"(?m)^\[\d+,(\d+)\]<stdout>:(.*)$", r.out)
    return ["\n".join(text for rank, text in lines if int(rank) == i) for i in range(np)]


def units(text):
    return dict(re.findall(r"([dc]\d+)=(\d+)", text))


def case_plan():
    """The plan of cores: those near the NIC first, divided among the ranks in turn, daemons before clients,
    first hardware threads before second ones."""
    env = {"HWLOC_SYNTHETIC": "pack:1 core:4 pu:2"}
    size = ["--daemons", 2, "--clients", 3]
    check(units(plan(0, *size, env=env)[0]) ==
          {"d0": "0", "d1": "2", "c0": "4", "c1": "6", "c2": "1"}, plan(0, *size, env=env))
    text = plan(0, *size, env={"HWLOC_SYNTHETIC": "pack:1 core:2 pu:2"})[0]
    check(not units(text) and "not pinned, 4 units for all" in text, text)
    check("units: 4 are too few for 5 threads per rank (number of ranks with these cores: 1);" in text, text)
    text = plan(0, "--pin", "no", env=env)[0]
    check(not units(text) and "units: --pin no\n" in text, text)
    path = of_test("machine.xml")
    with open(path, "w") as f:
        f.write(MACHINE)
    ranks = sorted(plan(2, "--clients", 2, env={"HWLOC_XMLFILE": path}))
    with open(path, "w") as f:
        f.write(MACHINE.replace("mlx5_0", "mlx5_9"))
    unknown = plan(2, env={"HWLOC_XMLFILE": path})[0]
    check("units: hwloc does not know where mlx5_0 is;" in unknown, unknown)
    os.unlink(path)
    check([units(r) for r in ranks] == [{"d0": "4", "c0": "6", "c1": "0"},
                                        {"d0": "5", "c0": "7", "c1": "1"}], ranks)
    for i, text in enumerate(ranks):
        check("units: the 4 cores near mlx5_0 first; first hardware threads before second ones; "
              f"rank {i} of 2 with these cores; daemons before clients" in text, text)


def case_reasons():
    """The plan gives its reasons: device, endpoints, rings, control, memory."""
    alone = plan(0, "--key-range", 4000000, "--clients", 4)[0]
    for part in ("device: one rank needs none\n", "endpoints: there is no other rank\n",
                 "control auto:8,9: the defaults; one rank sends nothing; K at most 8 for 32 calls under "
                 "way (1.5 x their root but at least 5)\n",
                 "keys: 4000001 expected in each of 1 shards\n"):
        check(part in alone, alone)
    two = plan(2, "--clients", 46, "--queue-depth", 256, "--daemons", 2)[0]
    for part in ("device: no mlx5 hardware was found, so it is the software HCA's first device\n",
                 "endpoints: one for each other rank; daemon r mod --net-daemons owns that of rank r\n",
                 "ring size: 8 x 46 clients x 256 requests x 64 bytes, up to a power of two from 4096",
                 "the defaults; a dry run does not measure as a run does\n"):
        check(part in two, two)
    size = int(re.search(r"ring size (\d+) bytes", two).group(1))
    check(f" rings {2 * size / 2 ** 20:.1f}," in two, two)
    given = plan(2, "--ring-size", 8192, "--control", "auto:3,4", "--preload", "no")[0]
    for part in ("ring size: as given\n", "control auto:3,4: as given\n",
                 "keys: 65536 expected in each of 1 shards; the memory grows as keys are put"):
        check(part in given, given)
    harness.backend = "direct"
    check("each client has one for each daemon of the other ranks, each daemon one for each of their "
          "clients\n" in plan(2)[0], "direct")
    if MANY > 50000:  # not under a sanitizer, which needs memory of its own
        memory = float(re.search(r"memory ([\d.]+) MiB", alone).group(1))
        harness.backend = "delegation"
        with going(0, 4, "--key-range", 4000000) as (pid,):
            check(abs(resident(pid) / 2 ** 20 - memory) < 40, f"{resident(pid)} {alone}")


def case_owners():
    """The plan names the daemon that has the endpoint for each rank, and the number of endpoints."""
    size = ["--daemons", 3, "--clients", 2]
    for harness.backend, more, n, owners in (("delegation", [], 3, "0000"), ("meta", [], 3, "0120"),
                                     ("delegation", ["--net-daemons", 2], 3, "0101"),
                                     ("direct", [], 36, None)):
        for rank, text in enumerate(sorted(plan(4, *size, *more))):
            check(text.startswith(f"{harness.backend}: rank {rank} of 4: "), text)
            check(f"endpoints {n}," in text, text)
            found = re.findall(r" d(\d)=r(\d)", text)
            check(found == [(owners[r], str(r)) for r in range(4) if owners and r != rank], text)
