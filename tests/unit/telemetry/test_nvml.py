"""The real nvidia-ml-py against a stub of the driver's library, each time in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.telemetry import nvml
from tests.nvml_stub.build import build_stub, stub_environment
from tests.patience import HANG_S, PATIENCE_S

GIB = 1024**3
UUIDS = [f"GPU-a000000{index}-0000-1111-2222-00ff00ff0000" for index in (0, 1)]
READ = (
    "import json; from dataclasses import asdict; from bench.telemetry.nvml import read_nvml;"
    "print(json.dumps(asdict(read_nvml(first_limit_s={init}, call_limit_s={call}))))"
)


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the stub once."""
    return build_stub(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def read(stub: Path) -> Callable[..., dict[str, Any]]:
    """Read NVML in a fresh process, whose loader finds the stub first."""

    def read_in_process(
        library: Path = stub, init: float = PATIENCE_S, call: float = PATIENCE_S, **settings: Any
    ) -> dict[str, Any]:
        command = [sys.executable, "-c", READ.format(init=init, call=call)]
        environment = stub_environment(library, **settings)
        done = subprocess.run(command, env=environment, capture_output=True, check=True, timeout=PATIENCE_S)
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    return read_in_process


def test_two_gpus_are_told_with_all_their_figures(read: Callable[..., dict[str, Any]]) -> None:
    """Names, UUIDs with zero bytes in them, memory without the driver's own, clocks, who computes."""
    report = read()
    assert (report["driver_version"], report["driver_cuda_version"], report["problem"]) == ("550.54.15", "12.4", None)
    first, second = report["gpus"]
    assert [first["uuid"], second["uuid"]] == UUIDS
    assert (first["name"], first["total_bytes"], first["used_bytes"]) == ("NVIDIA A100-SXM4-80GB", 80 * GIB, 0)
    assert (second["used_bytes"], second["sm_clock_mhz"], second["sm_clock_max_mhz"]) == (2 * GIB, 1155, 1410)
    assert first["processes"] == []
    assert second["processes"] == [{"pid": 4242, "used_bytes": 2 * GIB}, {"pid": 4243, "used_bytes": None}]


@pytest.mark.parametrize("code", [3, 4, 13, 15, 999])
@pytest.mark.parametrize(
    ("function", "fields"),
    [
        ("nvmlDeviceGetName", ["name"]),
        ("nvmlDeviceGetUUID", ["uuid"]),
        ("nvmlDeviceGetMemoryInfo_v2", ["used_bytes"]),
        ("nvmlDeviceGetComputeRunningProcesses_v3", ["processes"]),
        ("nvmlDeviceGetClockInfo", ["sm_clock_mhz"]),
        ("nvmlDeviceGetMaxClockInfo", ["sm_clock_max_mhz"]),
        ("nvmlDeviceGetMigMode", []),
    ],
)
@pytest.mark.slow
def test_figure_that_is_refused_is_null_and_no_other(
    read: Callable[..., dict[str, Any]], function: str, fields: list[str], code: int
) -> None:
    """Not supported, no permission, function not found, lost, unknown: one call's refusal leaves the other figures."""
    for gpu in read(NVML_STUB=f"{function}:{code}")["gpus"]:
        assert [name for name, value in gpu.items() if value is None] == fields


def test_library_without_a_function_tells_the_rest(read: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    """An older driver lacks the newer memory call; the old one counts the driver's memory as used, so use is null."""
    older = build_stub(tmp_path, "-DWITHOUT_MEMORY_V2")
    for gpu in read(older)["gpus"]:
        assert (gpu["total_bytes"], gpu["used_bytes"]) == (80 * GIB, None)
        assert gpu["uuid"] is not None


@pytest.mark.parametrize(
    ("code", "words"),
    [(9, "not loaded"), (4, "no permission"), (18, "different versions"), (13, "too old"), (999, "NVML says")],
)
def test_library_that_does_not_start_is_said_in_plain_words(
    read: Callable[..., dict[str, Any]], code: int, words: str
) -> None:
    """There is a reason to show, and no GPU and no driver version is made up."""
    report = read(NVML_STUB=f"nvmlInitWithFlags:{code}")
    assert words in report["problem"]
    assert (report["gpus"], report["driver_version"]) == ([], None)


def test_driver_without_gpus_is_no_problem(read: Callable[..., dict[str, Any]]) -> None:
    """Zero devices are a fact, not a fault."""
    report = read(NVML_STUB_GPUS="0")
    assert (report["gpus"], report["problem"], report["driver_version"]) == ([], None, "550.54.15")


def test_gpu_without_a_handle_still_counts(read: Callable[..., dict[str, Any]]) -> None:
    """A GPU that fell off the bus is here all the same, with nothing known of it."""
    gpus = read(NVML_STUB="nvmlDeviceGetHandleByIndex_v2:15")["gpus"]
    assert [(gpu["index"], gpu["name"], gpu["processes"]) for gpu in gpus] == [(0, None, None), (1, None, None)]


def test_parent_of_mig_devices_that_hides_its_memory_has_slices_that_tell(
    read: Callable[..., dict[str, Any]],
) -> None:
    """In a container the parent's figures may be refused; the slices are listed with theirs."""
    first, second = read(NVML_STUB_MIG="1")["gpus"]
    assert [mig["total_bytes"] for mig in first["mig_devices"]] == [40 * GIB, 40 * GIB]
    assert first["mig_devices"][1]["uuid"] == "MIG-a0000000-0000-1111-2222-00ff00ff0002"
    assert second["mig_devices"] == []


def test_name_that_is_not_utf8_is_null(read: Callable[..., dict[str, Any]]) -> None:
    """A garbled name harms nothing else."""
    first = read(NVML_STUB_NAME=b"caf\xe9")["gpus"][0]
    assert (first["name"], first["uuid"]) == (None, UUIDS[0])


@pytest.mark.slow
@pytest.mark.parametrize("function", ["nvmlInitWithFlags", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetCount_v2"])
def test_library_that_hangs_is_given_up(read: Callable[..., dict[str, Any]], function: str) -> None:
    """The process goes on and ends; what was known before stays known."""
    report = read(NVML_STUB=f"{function}:hang", init=HANG_S, call=HANG_S)
    assert "does not answer" in report["problem"]
    assert len(report["gpus"]) == (2 if function == "nvmlDeviceGetMemoryInfo_v2" else 0)
    assert report["driver_version"] == (None if function == "nvmlInitWithFlags" else "550.54.15")


def test_library_that_hung_is_not_asked_again(stub: Path) -> None:
    """The second question costs nothing."""
    code = (
        "from bench.telemetry import nvml; nvml.read_nvml(first_limit_s=0.2); nvml.LimitedThread = None;"
        "print(nvml.read_nvml().problem)"
    )
    environment = stub_environment(stub, NVML_STUB="nvmlInitWithFlags:hang")
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert "does not answer" in done.stdout, done.stderr


def test_file_that_is_no_library_is_said(read: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    """A damaged installation is like none."""
    (tmp_path / "libnvidia-ml.so.1").write_text("not a library")
    assert "no NVIDIA driver library" in read(tmp_path)["problem"]


def test_text_of_old_bindings_is_decoded() -> None:
    """Older nvidia-ml-py gives bytes."""
    assert [nvml._text(value) for value in (b"GPU-1", "GPU-1", b"\xe9", None)] == ["GPU-1", "GPU-1", "\ufffd", None]


def test_missing_bindings_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is a dependency, and yet may be gone."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert nvml.read_nvml().problem == "the Python package nvidia-ml-py is not installed"


def test_device_files_are_numbered_gpus_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """nvidiactl and nvidia-uvm are there without a GPU too."""
    for name in ("nvidia1", "nvidia0", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    monkeypatch.setattr(nvml, "_DEV", tmp_path)
    assert [Path(file).name for file in nvml.device_files()] == ["nvidia0", "nvidia1"]


def test_library_of_that_name_that_is_not_nvidias_is_said_in_plain_words() -> None:
    """Such as a damaged file."""
    import pynvml

    def load() -> None:
        raise OSError("file too short")

    assert nvml.problem_of(pynvml, load) == "the NVIDIA driver library cannot be used: file too short"
