"""The switches of the stand-in, as environment variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.errors import BenchError
from bench.standin import switches
from bench.standin.build import TorchBuild
from bench.standin.switches import Faults, environment, is_standin, load


@pytest.fixture(autouse=True)
def built(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take it that a CUDA torch is there and the library is built."""
    torch_build = TorchBuild(Path("/torch"), "2.14.1+cu130", 13000, 92400, 23007)
    monkeypatch.setattr(switches, "find_torch", lambda: torch_build)
    monkeypatch.setattr(switches, "library_folder", lambda: Path("/cache/standin"))


def test_a_child_finds_the_libraries_first() -> None:
    told = environment()
    assert told["LD_PRELOAD"].split(":") == [
        "/cache/standin/libstandin.so",
        "/cache/standin/libcuda.so.1",
        "/cache/standin/libnvidia-ml.so.1",
    ]
    assert told["STANDIN_GPU"].startswith("name=Stand-in NVIDIA A100-SXM4-80GB;")
    assert told["STANDIN_GPU_COUNT"] == "1"


def test_what_was_preloaded_stays_and_an_older_stand_in_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/lib/other.so:/older/libstandin.so")
    assert environment()["LD_PRELOAD"].endswith("/cache/standin/libnvidia-ml.so.1:/lib/other.so")


def test_only_what_was_asked_is_told() -> None:
    told = environment(count=2, memory_bytes=123, ledger=Path("/l"), copy_bytes=5, nvml_script=Path("/s"))
    assert "memory_bytes=123;" in told["STANDIN_GPU"] + ";"
    assert {
        name: told.get(name) for name in ("STANDIN_LEDGER", "STANDIN_COPY_BYTES", "STANDIN_NVML", "STANDIN_TRACE")
    } == {
        "STANDIN_LEDGER": "/l",
        "STANDIN_COPY_BYTES": "5",
        "STANDIN_NVML": "/s",
        "STANDIN_TRACE": None,
    }


def test_faults_are_told_one_by_one() -> None:
    assert Faults().variables() == {}
    faults = Faults(refuse_at_byte=7, blas_refused=True, blas_needs_bytes=8, hang_at_launch=3, persistence_off=True)
    assert faults.variables() == {
        "STANDIN_REFUSE_AT_BYTE": "7",
        "STANDIN_BLAS_REFUSED": "1",
        "STANDIN_BLAS_NEEDS_BYTES": "8",
        "STANDIN_HANG_AT_LAUNCH": "3",
        "STANDIN_PERSISTENCE_OFF": "1",
    }
    assert environment(faults=faults).items() >= faults.variables().items()


@pytest.mark.parametrize("count", [0, 17])
def test_a_count_out_of_range_is_refused(count: int) -> None:
    with pytest.raises(BenchError, match=f"1 to 16 GPUs, not {count}"):
        environment(count=count)


def test_loading_after_torch_is_refused() -> None:
    import torch  # noqa: F401

    with pytest.raises(BenchError, match="before torch is imported"):
        load()


def test_this_process_has_none() -> None:
    assert not is_standin()
