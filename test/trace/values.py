# SPDX-License-Identifier: MIT
"""The arguments of the trace points, as gdb shows them, are those that docs/observability.md describes.

	values.py SOFTHCA-RUN ROUNDS COPYRPC COPYRPC-FAILURE TENTBENCH
"""
import errno
import os
import subprocess
import sys
import tempfile

hca, rounds, copyrpc, failure, tentbench = sys.argv[1:]
NOBODY = -1  # UINT64_MAX, as gdb prints it with %ld: no node has this number
RETRY_EXCEEDED = 0x15  # the syndrome of the CQE


def traced(points, command, status=0, **env):
    """Runs the program under gdb. Returns [(trace point, [argument, ...])]. @points: {trace point: number of
    arguments}."""
    script = ["set pagination off", "set breakpoint pending on", "handle SIGSEGV SIGBUS nostop noprint pass"]
    for name, count in points.items():
        arguments = "".join(f', (long)$_probe_arg{i}' for i in range(count))
        script += [f"break -probe-stap {name}", "commands", "silent",
                   f'printf "trace {name}{" %ld" * count}\\n"{arguments}', "continue", "end"]
    script += ["run", "info program", 'printf "exit %d\\n", $_exitcode']
    with tempfile.NamedTemporaryFile("w", suffix=".gdb") as f:
        f.write("\n".join(script) + "\n")
        f.flush()
        at = command.index("--") if "--" in command else -1
        gdb = ["gdb", "-q", "-nx", "-batch", "-x", f.name, "--args"]
        r = subprocess.run(command[:at] + gdb + command[at + 1:] if at >= 0 else gdb + command, text=True,
                           capture_output=True, timeout=400, env=dict(os.environ, **env))
    assert f"exit {status}\n" in r.stdout, (command, r.stdout[-2000:], r.stderr[-2000:])
    return [(line.split()[1], [int(v) for v in line.split()[2:]])
            for line in r.stdout.splitlines() if line.startswith("trace ")]


def of(events, name):
    return [values for point, values in events if point == name]


def messages(events):
    return sum(values[-1] for values in events)


def check_rounds():
    """3 rounds of 32 calls, published in bursts, and 32 rounds of one call, published by inlined code."""
    for depth, n in (32, 3), (1, 32):
        total = depth * n
        run = [rounds, "flux", str(depth), str(n)]
        published = of(traced({"flux:publish": 4}, run), "flux:publish")
        calls = [v for v in published if v[:3] == [0, 1, NOBODY]]
        answers = [v for v in published if v[:3] == [1, NOBODY, 0]]
        assert len(calls) + len(answers) == len(published), published
        assert messages(calls) == messages(answers) == total, published
        assert depth == 1 or max(len(calls), len(answers)) <= total // 2, published
        for layer in "shmipc", "delegrpc":
            events = traced({f"{layer}:client_publish": 2, f"{layer}:server_publish": 3},
                            [rounds, layer, str(depth), str(n)])
            replies = of(events, f"{layer}:server_publish")
            assert messages(of(events, f"{layer}:client_publish")) == total, events
            assert messages(replies) == total, events
            assert {v[1] for v in replies} == {0}, events
            assert depth == 1 or len(replies) <= total // 2, events


def check_sleep():
    """The server sleeps and is woken by calls; each sleep ends."""
    for layer, sleeper, waker in (("flux", "", ""), ("shmipc", "server_", "client_"), ("delegrpc", "server_", "client_")):
        sleep, awake, wake = f"{layer}:{sleeper}sleep", f"{layer}:{sleeper}awake", f"{layer}:{waker}wake"
        events = traced({sleep: 2, awake: 2, wake: 2 if layer == "flux" else 1}, [rounds, layer])
        slept, woke = of(events, sleep), of(events, awake)
        assert slept and len(slept) == len(woke) and of(events, wake), events
        assert {v[0] for v in slept} == {v[0] for v in woke}, events
        assert all(v[1] != 0 for v in slept) and all(v[1] <= 0 for v in woke), events
        if layer == "flux":
            assert {v[0] for v in slept} == {1} and {tuple(v) for v in of(events, wake)} == {(0, 1)}, events


def check_copyrpc():
    """3 rounds of 4 calls with 32 bytes and their replies with 16."""
    fabric = ["--fabric", f"trace-{os.getpid()}"]
    run = [hca, *fabric, "--", copyrpc, "1", "16384", "0", "4", "3"]
    events = traced({"copyrpc:batch_posted": 3, "copyrpc:batch_received": 2}, run, SOFTHCA_MODE="step")
    posted, received = of(events, "copyrpc:batch_posted"), of(events, "copyrpc:batch_received")
    assert any(v[1] & 1 << 31 for v in received), received  # bit 31: the last batch in an old ring
    posted, received = ([v for v in vs if v[1] == 4] for vs in (posted, received))
    caller, server = posted[0][0], received[0][0]
    assert caller != server
    # A batch has 32 bytes of metadata. Each message has a header of 12 bytes and its payload; all messages but the last
    # are padded to a multiple of 32 bytes.
    assert [v for v in posted if v[0] == caller] == [[caller, 4, 32 + 3 * 64 + 44]] * 3, posted
    assert [v for v in posted if v[0] == server] == [[server, 4, 32 + 3 * 32 + 28]] * 3, posted
    assert received == [[server, 4], [caller, 4]] * 3, received

    # The caller finds that the peer was killed.
    run = [hca, *fabric, "--", failure, "peer_killed"]
    failed = of(traced({"copyrpc:endpoint_failed": 4}, run), "copyrpc:endpoint_failed")
    assert len(failed) == 1 and failed[0][0] != failed[0][3] > 0, failed
    assert failed[0][1:3] == [-errno.ECONNRESET, RETRY_EXCEEDED], failed


def check_tent():
    """Every byte of a stream is posted and arrives; a rail whose port goes down three times is excluded and used again."""
    total = 2**26
    run = [tentbench, "sim", "--mode", "pull", "--seeds", "1", "--case"]
    events = traced({"tent:slice_posted": 5, "tent:slice_completed": 5}, run + ["healthy-8m", "--bytes", str(total)])
    posted, ended = of(events, "tent:slice_posted"), of(events, "tent:slice_completed")
    assert len(posted) == len(ended) > 8, (len(posted), len(ended))
    assert sum(v[3] for v in posted) == sum(v[2] for v in ended) == total
    assert sorted((v[1], v[2], v[3]) for v in posted) == sorted(tuple(v[:3]) for v in ended)
    assert all(v[3] > 0 and v[4] == 0 for v in ended) and {v[4] for v in posted} > {0}
    assert len({v[0] for v in posted}) == total // 2**23, posted

    events = traced({"tent:rail_excluded": 2, "tent:rail_back": 1}, run + ["flap"])
    assert [name for name, _ in events] == ["tent:rail_excluded", "tent:rail_back"] * 3, events
    assert len({values[0] for _, values in events}) == 1, events
    assert any(v[1] > 0 for v in of(events, "tent:rail_excluded")), events


check_rounds()
check_sleep()
check_copyrpc()
check_tent()
