# SPDX-License-Identifier: MIT
"""Tests for the plugin, read by plugin.py. The name of each begins with the outcome that pytest must report."""
import os
import signal
import subprocess

import pytest


def programs():
    return subprocess.run(["ibv_devices"], capture_output=True, text=True, check=True).stdout


def test_passed_program(hca):
    assert hca.devices == ["mlx5_0"] and "mlx5_0" in programs()


@pytest.mark.hca(topology="name=first link=roce\nname=second\n")
def test_passed_topology(hca):
    assert hca.devices == ["first", "second"] and "second" in programs()


def test_passed_parameters(hca, tmp_path):
    assert tmp_path.is_dir() and os.environ["SOFTHCA_FABRIC"] == hca.fabric


def test_passed_without_hca():
    assert "pytest-" not in os.environ.get("SOFTHCA_FABRIC", "")


def test_skipped(hca):
    pytest.skip("a reason")


def test_xfail_call(hca):
    pytest.xfail("a defect")


@pytest.mark.xfail(reason="a mark")
def test_xfail_mark(hca):
    assert hca.devices == ["another"]


def test_failed_assertion(hca):
    assert hca.devices == ["another"]


def test_failed_crash(hca):
    programs()
    os.kill(os.getpid(), signal.SIGKILL)


def test_failed_exit(hca):
    os._exit(0)


@pytest.mark.hca("--rails", "99")
def test_error_options(hca):
    pass
