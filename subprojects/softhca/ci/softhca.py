# SPDX-License-Identifier: MIT
"""A pytest plugin: the fixture hca gives a test a fabric of its own on the software HCA.

    PYTHONPATH=/usr/share/softhca softhca-run python3 -m pytest -p softhca

    @pytest.mark.hca("--rails", "2", faults="opcode=send nth=1 action=error")
    def test_something(hca):
        with pyverbs.device.Context(name=hca.devices[0]) as context: ...

The arguments of the mark are options of softhca-run. Each of its keyword arguments, topology and faults, is a text: the
fixture writes it to a file and passes the file by the option of that name. Without a mark the adapters are those of the
softhca-run that started pytest, by default one of InfiniBand. The test runs in a forked process, which is a member of
the fabric, so a crash fails this test only. Programs that the test starts are members, too. Open devices in the test, not
in a fixture: fixtures run in the process that forks, and a device works only in the process that has opened it.
"""
import inspect
import json
import os
import subprocess
import sys
import unittest

import pytest

# Runs under softhca-run. Prints the fabric's settings and adapters, and keeps the fabric alive until its standard input
# ends.
KEEPER = """if True:
    import json, os, sys
    settings = {k: v for k, v in os.environ.items() if k.startswith(("SOFTHCA_", "HWLOC_"))}
    print(json.dumps([settings, sorted(os.listdir("/sys/class/infiniband"))]), flush=True)
    sys.stdin.read()"""


class Hca:
    """The fabric of a test: its name, and the names of its adapters."""

    def __init__(self, fabric, devices):
        self.fabric, self.devices = fabric, devices


def pytest_configure(config):
    config.addinivalue_line("markers", "hca(*options, **files): options of softhca-run for the fixture hca")


@pytest.fixture
def hca(request, tmp_path, monkeypatch):
    if "SOFTHCA_RUN" not in os.environ:
        pytest.fail("start pytest under softhca-run: softhca-run python3 -m pytest", pytrace=False)
    mark = request.node.get_closest_marker("hca")
    options = list(mark.args) if mark else []
    for name, text in mark.kwargs.items() if mark else ():
        (tmp_path / name).write_text(text)
        options += [f"--{name}", str(tmp_path / name)]
    fabric = f"pytest-{os.getpid()}"
    keeper = subprocess.Popen(["softhca-run", "--fabric", fabric, *options, sys.executable, "-c", KEEPER],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with keeper:  # closes its input and waits for it
        line = keeper.stdout.readline()
        if not line:
            pytest.fail(f"softhca-run {' '.join(options)}: failed", pytrace=False)
        settings, devices = json.loads(line)
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        yield Hca(fabric, devices)


def outcome(item):
    """Runs the test. Returns its outcome, and the text for the report."""
    wanted = inspect.signature(item.obj).parameters
    try:
        item.obj(**{name: value for name, value in item.funcargs.items() if name in wanted})
    except (pytest.skip.Exception, unittest.SkipTest) as skipped:
        return "skipped", str(skipped)
    except pytest.xfail.Exception as failed:
        return "xfailed", str(failed)
    except BaseException:
        return "failed", str(item.repr_failure(pytest.ExceptionInfo.from_current()))
    return "passed", ""


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    if "hca" not in pyfuncitem.fixturenames:
        return None
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, json.dumps(outcome(pyfuncitem)).encode())
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    os.close(writer)
    with open(reader) as pipe:
        report = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    what, text = json.loads(report) if report else ("failed", f"the test's process ended with status {status}")
    if what == "failed":
        pytest.fail(text, pytrace=False)
    if what == "skipped":
        pytest.skip(text)
    if what == "xfailed":
        pytest.xfail(text)
    return True
