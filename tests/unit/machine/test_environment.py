"""Nothing runs quietly on the CPU where a GPU is visible or asked for."""

from __future__ import annotations

from typing import Any

import pytest

from bench.errors import EnvironmentFault
from bench.machine import environment
from bench.machine.environment import gpu_fault, machine_facts
from bench.sweep.expand import MachineFacts
from bench.telemetry.nvml import NvmlGpu, NvmlReport

NOBODY = NvmlReport(problem="there is no NVIDIA driver library, libnvidia-ml.so.1")
A100 = NvmlReport("550.54.15", (NvmlGpu(0, "NVIDIA A100-SXM4-80GB"),), None, "12.4")
BROKEN = NvmlReport(problem="the NVIDIA driver is not loaded")


def torch_says(count: int = 0, cuda: str | None = None, problem: str | None = None) -> dict[str, Any]:
    """Give what the probe of torch would."""
    return {
        "torch_version": "2.13.0" + ("+cpu" if cuda is None else ""),
        "cuda_version": cuda,
        "device_count": count,
        "bf16_supported": count > 0,
        "problem": problem,
    }


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Set what NVML, the device files and torch say; torch is None where it must not be asked."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def build(nvml: NvmlReport, torch: dict[str, Any] | None, files: tuple[str, ...] = ()) -> None:
        def probe() -> dict[str, Any]:
            assert torch is not None, "torch was asked, which takes seconds, without need"
            return torch

        monkeypatch.setattr(environment, "read_nvml", lambda: nvml)
        monkeypatch.setattr(environment, "device_files", lambda: files)
        monkeypatch.setattr(environment, "probe_torch", probe)

    return build


def test_cpu_is_what_auto_means_where_there_is_no_gpu(machine: Any) -> None:
    """Nothing is visible, so nothing falls back, and torch need not be asked."""
    machine(NOBODY, None)
    assert machine_facts({"auto"}) == MachineFacts("cpu", 0)


def test_cpu_that_is_meant_needs_no_look_at_gpus(machine: Any) -> None:
    """`device: cpu` runs on a machine whose GPU torch cannot use."""
    machine(A100, None)
    assert machine_facts({"cpu"}) == MachineFacts("cpu", 0)


def test_usable_gpu_is_what_auto_means(machine: Any) -> None:
    """The count is torch's: it knows what is visible."""
    machine(A100, torch_says(3, "12.4"))
    assert machine_facts({"auto", "cpu"}) == MachineFacts("cuda", 3, True)


def test_uuids_are_torchs_in_its_order(machine: Any) -> None:
    """Whoever looks for a rank's GPU elsewhere needs no guess about the order."""
    gpus = [{"uuid": "GPU-b"}, {"uuid": None}, {"uuid": "GPU-a"}]
    machine(A100, torch_says(3, "12.4") | {"gpus": gpus})
    assert machine_facts({"cuda"}).gpu_uuids == ("GPU-b", None, "GPU-a")


def test_gpu_that_only_torch_knows_is_used_when_asked_for(machine: Any) -> None:
    """NVML may be missing in a container that has a GPU all the same."""
    machine(NOBODY, torch_says(1, "12.4"))
    assert machine_facts({"cuda"}) == MachineFacts("cuda", 1, True)


@pytest.mark.parametrize("asked", [{"auto"}, {"cuda"}, {"cpu", "auto"}])
@pytest.mark.parametrize(("nvml", "files"), [(A100, ()), (BROKEN, ("/dev/nvidia0",)), (A100, ("/dev/nvidia0",))])
def test_visible_gpu_that_torch_cannot_use_stops_everything(
    machine: Any, nvml: NvmlReport, files: tuple[str, ...], asked: set[str]
) -> None:
    """NVML or a device file is enough; the way to mean the CPU is named."""
    machine(nvml, torch_says(), files)
    with pytest.raises(EnvironmentFault) as caught:
        machine_facts(asked)
    assert caught.value.exit_code == 5
    for words in ("torch 2.13.0+cpu (a CPU build)", "install a torch built for CUDA", "--device cpu"):
        assert words in str(caught.value)


def test_cuda_without_a_gpu_says_why(machine: Any) -> None:
    """The reason is NVML's, in plain words."""
    machine(NOBODY, torch_says())
    with pytest.raises(EnvironmentFault, match=r"there is no GPU here \(there is no NVIDIA driver library"):
        machine_facts({"cuda"})


@pytest.mark.parametrize(
    ("nvml", "torch", "visible", "cure"),
    [
        (A100, torch_says(), None, "install a torch built for CUDA 12.4 or older, which this driver runs"),
        (
            A100,
            torch_says(cuda="13.0"),
            None,
            "built for CUDA 12.4 or older, which this driver runs, or a newer driver",
        ),
        (A100, torch_says(cuda="12.6"), None, "whose CUDA this driver and this GPU support"),
        (A100, torch_says(cuda="12.6"), "", "unset CUDA_VISIBLE_DEVICES: '' hides every GPU"),
        (A100, torch_says(cuda="12.6"), "-1", "unset CUDA_VISIBLE_DEVICES: '-1' hides every GPU"),
        (A100, torch_says(cuda="12.6"), "4", "correct or unset CUDA_VISIBLE_DEVICES ('4' hides every GPU: '4' names"),
        (BROKEN, torch_says(cuda="12.6"), None, "repair the driver"),
    ],
)
def test_cure_fits_the_cause(
    monkeypatch: pytest.MonkeyPatch, nvml: NvmlReport, torch: dict[str, Any], visible: str | None, cure: str
) -> None:
    """Each cause has its own way out."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    fault = gpu_fault({"auto"}, nvml, ("/dev/nvidia0",), torch)
    assert fault is not None
    assert cure in fault


def test_what_driver_and_torch_say_is_passed_on() -> None:
    """The user can look both up."""
    torch = torch_says(cuda="12.6", problem="CUDA initialization: The NVIDIA driver is too old.")
    assert "driver 550.54.15" in str(gpu_fault({"auto"}, A100, (), torch))
    assert "torch says: CUDA initialization: The NVIDIA driver is too old." in str(gpu_fault({"auto"}, A100, (), torch))
    assert "driver unknown: the NVIDIA driver is not loaded" in str(
        gpu_fault({"auto"}, BROKEN, ("/dev/nvidia0",), torch)
    )


def test_torch_that_cannot_be_imported_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last line of its error, and what to try."""

    class Done:
        stdout = ""
        stderr = "Traceback\nImportError: libcudart.so.13: cannot open shared object file\n"

    monkeypatch.setattr(environment.subprocess, "run", lambda *args, **kwargs: Done())
    with pytest.raises(EnvironmentFault, match=r"libcudart.so.13: cannot open"):
        environment.probe_torch()
