# SPDX-License-Identifier: MIT
"""Cases about the faults of benchkv-faulty: each must be detected, and without a fault there must be no error."""
import harness
from harness import FAULTY, NO_CONTROL, SOAK, UCX, check, good, job, run, unverified, verified

# Faults of the store, and the kinds of errors of which each must cause at least one.
STORE_FAULTS = {"lose-all": ["forgotten"], "lose": ["forgotten"], "replay": ["stale"],
                "age": ["forgotten", "stale"], "invent": ["invented"], "forget": ["forgotten"],
                "vanish": ["forgotten"], "wrong-key": ["invented"]}
# Faults of swaps and of replies to swaps, and the kinds of errors of which each must cause at least one.
SWAP_FAULTS = {"swap-blind": ["undone", "stale", "invented"], "swap-lose": ["stale", "invented", "undone", "forgotten"],
               "swap-twice": ["redone"], "swap-deny": ["redone"], "spoil": ["invented", "wrong_value"]}
BY_TURNS = [["lose", "replay", "invent"]]  # several faults in one job
# Faults with which clients share no store or the audit reads too little. Each must cause all named kinds of
# errors, "unsent" only if there are other ranks.
UNSHARED = {"private": ["stale", "forgotten"], "client-private": ["stale", "unsent"],
            "client-remote": ["stale", "unsent"], "client-cache": ["stale", "unsent"],
            "client-run": ["stale", "unsent"], "lag": ["stale"],
            "skip-half": ["skipped"], "skip-one": ["skipped"], "skip-all": ["skipped"]}


# Faults of replies. Each must cause at least one error of each list.
REPLY_FAULTS = {"drop": [["lost"]], "swap": [["misdelivered"]], "duplicate": [["duplicated", "undeliverable"]],
                "spoil": [["wrong_value"], ["invented"]]}


def timeout():
    """Returns the seconds after which a job with a lost reply ends. UCX takes longer to connect."""
    return 10 if UCX and harness.backend == "ucx" else 4


def case_faults():
    """A lost, doubled, swapped or spoilt reply is detected, local and remote. The checks are the same for each
    backend, so backends other than the default have several of these faults in one job."""
    if harness.backend == "delegation":
        jobs = [(np, [fault], 2000) for np in (0, 2) for fault in REPLY_FAULTS]
    else:
        jobs = [(2, ["drop", "swap", "spoil"], 8000), (2, ["duplicate"], 2000)]
    for np, mix, ops in jobs:
        argv = job(np, "--ops", ops, "--timeout", timeout(), "--daemons", 2,
                   "--json", "-", prog=FAULTY)
        r = run(argv, {"BENCHKV_FAULT": ",".join(mix)})
        check(r.status == 1, r)
        for fault in mix:
            if r.out:
                for kinds in REPLY_FAULTS[fault]:
                    unverified(r, kinds)
            else:  # the shared-memory library reported an error, and the job ended without a report
                check(fault == "duplicate" and "cannot go on" in r.err, r)
    for np in {np for np, _, _ in jobs}:
        good(np, "--ops", 2000, prog=FAULTY)


def case_misdirected():
    """A request that comes to the wrong daemon is refused, without other errors."""
    argv = job(2, "--ops", 20000, "--daemons", 2, "--json", "-", prog=FAULTY)
    unverified(run(argv, {"BENCHKV_FAULT": "misdirect"}), ["refused"])


def case_flaps():
    """A cable is pulled and plugged in again several times, also while a put, a get or a swap is under way: no call is
    lost or executed twice. The transport repeats a lost message after its time-out of a second."""
    pulls = range(1000, 7000, 1500 if SOAK else 3000)  # few, because the transport sends a message at most eight times
    rules = [f"opcode=write_imm nth={nth} action=link_down; opcode=write_imm nth={nth + 2} action=link_up" for nth in pulls]
    for changes in ["yes", "no"] if SOAK else ["yes"]:
        argv = job(2, "--ops", 12000, "--queue-depth", 1, "--rmw", changes, "--read-ratio", 0.3, "--key-range", 1000,
                   "--json", "-", *NO_CONTROL)  # auto would send messages to measure, which the rules would count
        j = verified(run(argv, {"SOFTHCA_FAULTS": "; ".join(rules)}), 2)
        check(j["latency_ns"]["max"] > 1e9, j)  # a message was really lost


def store_faults(np, mixes, **default_keys):
    """Runs jobs with a faulty store, one for each mix of faults, and a job with a correct store."""
    argv = job(np, "--ops", 60000, "--json", "-", prog=FAULTY, **default_keys)
    for mix in mixes:
        r = run(argv, {"BENCHKV_FAULT": ",".join(mix)})
        for fault in mix:
            j = unverified(r, STORE_FAULTS[fault])
            check(j["audit"]["keys"] > 0, j)
            check(fault != "lose-all" or j["audit"]["verified"] == 0, j)
    verified(run(argv), np)


def case_unshared():
    """Clients that share no store, requests that never leave their rank, and keys that the audit does not read are
    detected; without a fault there is no error."""
    for np in [0, 2] if harness.backend == "delegation" else [2]:
        # Several runs, because on a busy machine the clients of a run may work one after the other, which hides a cache.
        argv = job(np, "--ops", 8000, "--runs", 3, "--queue-depth", 64, "--key-range", 1000, "--json", "-", prog=FAULTY)
        for fault, kinds in UNSHARED.items():
            if np or fault != "client-remote":
                r = run(argv, {"BENCHKV_FAULT": fault})
                found = unverified(r, kinds)["error_kinds"]
                check(all(found[k] for k in kinds if np or k != "unsent"), r)
                check(np or not found["unsent"], r)
        verified(run(argv), np)
    # With one client per rank and one key: if both clients read their own put in the audit, that is an error.
    argv = job(2, "--ops", 2000, "--clients", 1, "--key-range", 1, "--json", "-", prog=FAULTY)
    found = unverified(run(argv, {"BENCHKV_FAULT": "private"}), ["unequal"])["error_kinds"]
    check(sum(found.values()) == 1, found)


def case_changes():
    """Lost or doubled read-modify-writes and spoilt replies are detected; without a fault there is no error."""
    for np in [0, 2] if harness.backend == "delegation" else [2]:
        argv = job(np, "--ops", 20000, "--rmw", "yes", "--read-ratio", 0.2, "--key-range", 100, "--timeout",
                   timeout(), "--json", "-", prog=FAULTY)
        for fault, kinds in SWAP_FAULTS.items():
            unverified(run(argv, {"BENCHKV_FAULT": fault}), kinds)
        verified(run(argv), np)


def case_store_1():
    store_faults(1, [[fault] for fault in STORE_FAULTS])


def case_store_2():
    """With the default key range. Without SOAK there is one job with several faults, and one with a fault that only the
    audit finds; case_store_1 tests each fault alone."""
    store_faults(2, [[fault] for fault in STORE_FAULTS] if SOAK else [["age"], *BY_TURNS], default_keys=True)


def case_store_4():
    """Four ranks find the same faults as two. Without SOAK there is one job with several faults."""
    store_faults(4, [[fault] for fault in STORE_FAULTS] if SOAK else BY_TURNS)


def case_store():
    """The store is the same with each backend, so backends other than the default have one job with several faults."""
    for np in 2, 4:
        store_faults(np, BY_TURNS)
