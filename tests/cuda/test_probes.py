"""The programs by which the driver learns about GPUs, on the stand-in: what torch sees, and what a device reaches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from bench.standin import Faults, environment, gpu_uuid
from tests.cuda.on_standin import GIB, run

pytestmark = pytest.mark.cuda


def _probe(variables: dict[str, str] | None = None, **switches: Any) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.rank.torch_probe", "--every-gpu"],
        env=os.environ | environment(**switches) | (variables or {}),
        capture_output=True,
        text=True,
        check=True,
    )
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_each_gpu_is_told_with_its_uuid() -> None:
    told = _probe(count=2, gpu="h100-80gb")
    assert told["device_count"] == 2
    assert [gpu["uuid"] for gpu in told["gpus"]] == [gpu_uuid(0), gpu_uuid(1)]
    assert {(gpu["name"], gpu["compute_capability"]) for gpu in told["gpus"]} == {
        ("Stand-in NVIDIA H100 80GB HBM3", "9.0")
    }
    assert told["bf16_supported"]
    assert told["cudnn_version"]
    assert told["problem"] is None


def test_a_gpu_that_computes_nothing_does_not_count_and_its_error_is_told() -> None:
    told = _probe(faults=Faults(illegal_access_at_launch=1))
    assert told["device_count"] == 0
    assert "illegal memory access" in told["problem"]
    assert not told["bf16_supported"]


def test_a_gpu_older_than_torchs_kernels_is_told_with_torchs_own_words() -> None:
    told = _probe(gpu="v100-32gb", variables={"STANDIN_ARCHITECTURES": "75,80"})
    assert told["device_count"] == 0
    assert told["cudnn_version"] is None
    assert told["problem"]


def _fitness() -> list[str | None]:
    import torch

    from bench.launch.rank_process import unfit_reason

    before = unfit_reason(os.getpid(), lambda pid: 1)
    torch.zeros(1, device="cuda")
    return [before, unfit_reason(os.getpid(), lambda pid: 1)]


def test_no_rank_is_forked_from_a_process_that_has_touched_a_gpu() -> None:
    before, after = run(_fitness)
    assert before is None
    assert after == "the fork server has touched a GPU: a forked CUDA context does not work"


def _ceilings(kind: str) -> list[dict[str, Any]]:
    from bench.rank import ceilings_probe

    ceilings_probe._MODE_S = ceilings_probe._COPY_S = dict.fromkeys(("cpu", "cuda"), 0.01)
    ceilings_probe.MATRIX_SIZES.update(cpu=(64,), cuda=(64,))
    ceilings_probe._COPY_BYTES = dict.fromkeys(("cpu", "cuda"), 1024)
    return list(ceilings_probe.measure(kind, 1))


def test_every_gpu_has_a_ceiling_in_each_precision() -> None:
    told = run(_ceilings, "cuda", count=2, memory_bytes=4 * GIB)
    assert [one["key"]["uuid"] for one in told] == [gpu_uuid(0), gpu_uuid(1)]
    assert all(set(one["matmul"]) == {"fp32", "tf32", "bf16", "fp16"} for one in told)
    assert all(one["host_to_device"] for one in told)


def test_an_older_gpu_has_no_tf32_and_no_bf16() -> None:
    (told,) = run(
        _ceilings, "cuda", gpu="v100-32gb", memory_bytes=4 * GIB, variables={"STANDIN_ARCHITECTURES": "70,75"}
    )
    assert set(told["matmul"]) == {"fp32", "fp16"}


def test_the_processor_has_its_own() -> None:
    (told,) = run(_ceilings, "cpu")
    assert told["key"]["device"] == "cpu"
    assert told["host_to_device"] is None


def test_calibration_on_a_gpu_that_fails_ends_with_what_it_says() -> None:
    """The command shows the last line; torch's own last one is advice for debugging."""
    command = [sys.executable, "-m", "bench.rank.ceilings_probe", "cuda"]
    told = environment(faults=Faults(illegal_access_at_launch=5))
    done = subprocess.run(command, env=os.environ | told, capture_output=True, text=True)
    last = done.stderr.strip().splitlines()[-1]
    assert (done.returncode, last) == (1, "AcceleratorError: CUDA error: an illegal memory access was encountered")
