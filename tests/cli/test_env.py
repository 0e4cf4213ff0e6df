"""`bench env`: what is here, what works, what does not; and no trial on the CPU by accident."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bench.cli import main
from bench.cli.env import _text
from bench.errors import EnvironmentFault
from bench.machine import report as machine_report
from bench.telemetry.nvml import NvmlGpu, NvmlMig, NvmlProcess, NvmlReport
from tests.nvml_stub.build import build_stub, stub_environment
from tests.patience import PATIENCE_S

GIB = 1024**3
NOBODY = NvmlReport(problem="there is no NVIDIA driver library, libnvidia-ml.so.1")
GPUS = NvmlReport(
    "550.54.15",
    (
        NvmlGpu(0, "NVIDIA A100-SXM4-80GB", "GPU-a0", 80 * GIB, 0, (), 1155, 1410),
        NvmlGpu(1, "NVIDIA A100-SXM4-80GB", "GPU-b0", 80 * GIB, 2 * GIB, (NvmlProcess(4242, 2 * GIB),), 210, 1410),
    ),
    None,
    "12.4",
)
CPU_TORCH = machine_report._NO_TORCH | {"torch_version": "2.13.0+cpu", "has_gloo": True}
CUDA_TORCH = CPU_TORCH | {
    "torch_version": "2.13.0+cu124",
    "cuda_version": "12.4",
    "cudnn_version": "90100",
    "nccl_version": "2.21.5",
    "device_count": 2,
    "bf16_supported": True,
    "gpus": [
        # torch counts them the other way round
        {
            "index": i,
            "name": "A100",
            "uuid": uuid,
            "total_bytes": 80 * GIB,
            "compute_capability": "8.0",
            "problem": None,
        }
        for i, uuid in enumerate(("GPU-b0", "GPU-a0"))
    ],
}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Set what the driver and torch say of this machine; torch may be an error."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def build(nvml: NvmlReport, torch: dict[str, Any] | EnvironmentFault) -> None:
        def probe(every_gpu: bool = False) -> dict[str, Any]:
            del every_gpu
            if isinstance(torch, EnvironmentFault):
                raise torch
            return torch

        monkeypatch.setattr(machine_report, "read_nvml", lambda: nvml)
        monkeypatch.setattr(machine_report, "device_files", lambda: ())
        monkeypatch.setattr(machine_report, "probe_torch", probe)

    return build


def run(*arguments: str) -> Any:
    """Run `bench env` in this process."""
    return CliRunner().invoke(main, ["env", *arguments])


def answers(report: dict[str, Any]) -> dict[str, bool]:
    """Give what works."""
    return {item["what"]: item["works"] for item in report["works"]}


def test_machine_without_a_gpu_is_fine(machine: Any) -> None:
    """The CPU is the default device there, and nothing is wrong."""
    machine(NOBODY, CPU_TORCH)
    result = run()
    assert result.exit_code == 0
    assert "A sweep with device: auto runs on the CPU here." in result.stdout
    assert "no   trials on a GPU: there is no GPU here" in result.stdout
    assert "there is no NVIDIA driver library" in result.stdout


def test_json_is_one_object_with_nulls(machine: Any) -> None:
    """A script reads base units; what is not known is null."""
    machine(NOBODY, CPU_TORCH)
    report = json.loads(run("--format", "json").stdout)
    assert report["format"] == 1
    assert (report["driver_version"], report["nccl_version"], report["gpus"], report["fault"]) == (None, None, [], None)
    assert report["memory_bytes"] > 0
    assert (report["device_asked"], report["device"]) == ("auto", "cpu")
    assert answers(report)["trials on the CPU"] is True
    assert answers(report)["trials on a GPU"] is False


def test_gpus_are_joined_by_uuid_since_orders_differ(machine: Any) -> None:
    """The driver's GPU 0 may be torch's cuda:1."""
    machine(GPUS, CUDA_TORCH)
    report = json.loads(run("--format", "json").stdout)
    assert [(gpu["index"], gpu["torch_index"]) for gpu in report["gpus"]] == [(0, 1), (1, 0)]
    assert report["device"] == "cuda"
    assert answers(report)["several GPUs in one trial"] is True
    text = run().stdout
    assert "torch calls it cuda:1" in text
    assert "in use by process 4242 (2.00 GiB)" in text
    assert "1155 of 1410 MHz" in text


def test_persistence_mode_is_said_where_it_is_off(machine: Any) -> None:
    """It makes each start slow, and needs one command of an administrator; what is on, or not known, is no news."""
    gpus = tuple(replace(gpu, persistence_mode=mode) for gpu, mode in zip(GPUS.gpus, (False, True), strict=True))
    machine(replace(GPUS, gpus=gpus), CUDA_TORCH)
    words = re.sub(r"\s+", " ", run().stdout)
    assert words.count("persistence mode off, so that each start takes seconds longer") == 1
    report = json.loads(run("--format", "json").stdout)
    assert [gpu["persistence_mode"] for gpu in report["gpus"]] == [False, True]


def test_gpu_that_torch_cannot_use_is_exit_5_with_the_cure_below_the_facts(machine: Any) -> None:
    """The report is still printed: it is what one needs to mend it."""
    machine(GPUS, CPU_TORCH)
    result = run()
    assert result.exit_code == 5
    assert "GPU 0     NVIDIA A100-SXM4-80GB" in result.stdout
    assert "No trial can start" in result.stdout
    assert "install a torch built for CUDA 12.4" in result.stderr
    assert json.loads(run("--format", "json").stdout)["device"] is None


def test_cpu_that_is_meant_is_no_fault(machine: Any) -> None:
    """`--device cpu` says that the GPU is not meant."""
    machine(GPUS, CPU_TORCH)
    result = run("--device", "cpu")
    assert result.exit_code == 0
    assert "A sweep with device: cpu runs on the CPU here." in result.stdout


def test_cuda_asked_for_where_there_is_none_is_exit_5(machine: Any) -> None:
    """Asking for a GPU is told from having none."""
    machine(NOBODY, CPU_TORCH)
    result = run("--device", "cuda")
    assert result.exit_code == 5
    assert "there is no GPU here" in result.stderr


def test_torch_that_cannot_be_imported_is_said(machine: Any) -> None:
    """The other facts are still told."""
    machine(NOBODY, EnvironmentFault("torch cannot be used here: no libcudart"))
    result = run()
    assert result.exit_code == 5
    assert "torch     none: torch cannot be used here: no libcudart" in result.stdout
    assert "no   trials on the CPU: torch cannot be imported" in result.stdout


def test_hidden_gpus_are_explained(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What CUDA_VISIBLE_DEVICES does is said where it is set."""
    machine(GPUS, CUDA_TORCH | {"device_count": 0, "gpus": []})
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    result = run()
    assert result.exit_code == 5
    assert "CUDA_VISIBLE_DEVICES='' hides every GPU" in result.stdout
    assert "unset CUDA_VISIBLE_DEVICES" in result.stderr


@pytest.mark.parametrize("width", [80, 40])
def test_no_line_is_wider_than_the_terminal(machine: Any, width: int) -> None:
    """Lines break between words; only a path, a UUID or the name of a system may be longer."""
    mig = NvmlMig("MIG-" + "0" * 36, "NVIDIA A100-SXM4-80GB MIG 3g.40gb", 40 * GIB, 0)
    processes = tuple(NvmlProcess(pid, None) for pid in range(100_000, 100_009))
    gpu = NvmlGpu(0, "NVIDIA A100-SXM4-80GB", "GPU-" + "0" * 36, None, None, processes, mig_devices=(mig, mig))
    machine(NvmlReport("550.54.15", (gpu,), None, "12.4"), CUDA_TORCH)
    lines = list(_text(machine_report.report_machine(), width))
    assert [line for line in lines if len(line) > width and not re.search("/|0000|  system", line)] == []
    assert "and 5 more" in " ".join(line.strip() for line in lines)


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the driver's library of a machine with two A100s."""
    return build_stub(tmp_path_factory.mktemp("nvml"))


def bench(stub: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, on a machine whose driver lists two A100s."""
    environment = os.environ | stub_environment(stub, **settings)
    command = [sys.executable, "-m", "bench.cli", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


NANO = """# Question: does it run?
format: 1
name: nano
base:
  device: {device}
  model: {{preset: gpt2-nano}}
  data: {{synthetic: {{documents: 100, mean_tokens: 20}}, rows: packed}}
  seq_len: 16
  global_batch_size: 2
axes: {{micro_batch_size: [1]}}
measure: {{warmup_updates: 0, updates: 1, quality_updates: 0}}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("device", "flags", "code"),
    [("auto", [], 5), ("cuda", [], 5), ("auto", ["--device", "cpu"], 0), ("cpu", [], 0)],
)
def test_sweep_where_a_gpu_is_listed_that_torch_cannot_use(
    stub: Path, tmp_path: Path, device: str, flags: list[str], code: int
) -> None:
    """Saying that the CPU is meant runs the trial; else nothing starts, and the cure is named."""
    import torch

    if torch.cuda.is_available():
        pytest.skip("torch can use a GPU here")
    file = tmp_path / "nano.yaml"
    file.write_text(NANO.format(device=device))
    done = bench(stub, "sweep", str(file), "--out", str(tmp_path / "out"), "--no-plot", *flags)
    assert done.returncode == code, done.stderr
    assert (tmp_path / "out" / "results.parquet").exists() == (code == 0)
    if code:
        for words in (
            "NVIDIA A100-SXM4-80GB",
            "550.54.15",
            f"torch {torch.__version__}",
            "install a torch",
            "--device cpu",
        ):
            assert words in done.stderr
    else:
        assert json.loads((tmp_path / "out" / "env.json").read_text())["gpus"][1]["name"] == "NVIDIA A100-SXM4-80GB"


@pytest.mark.slow
def test_driver_that_hangs_does_not_hang_the_command(stub: Path) -> None:
    """The command says so and ends."""
    done = bench(stub, "env", "--device", "cpu", NVML_STUB="nvmlDeviceGetCount_v2:hang")
    assert done.returncode == 0
    assert "does not answer" in " ".join(done.stdout.split())
