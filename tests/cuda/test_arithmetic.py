"""One product before the first update: it changes no byte, and a GPU that computes nothing is found out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cuda.on_standin import GIB, run
from tests.cuda.values import COPY_BYTES

pytestmark = pytest.mark.cuda


def _build(amp_mode: str, preset: str = "gpt2-nano") -> Any:
    from bench.rank.ranks import Ranks
    from bench.rank.workbench import build_workbench, open_device
    from tests.small_launch import trial_file

    trial = trial_file(
        device="cuda",
        model={"preset": preset},
        seq_len=64,
        amp_mode=amp_mode,
        measure={"warmup_updates": 1},
        ranks=(0,),
    )
    return build_workbench(trial, Ranks(0, 1, None), open_device(trial, 0), [])


def _peaks(amp_mode: str, is_checked: bool) -> list[Any]:
    import torch

    from bench.measure.arithmetic import product_error
    from bench.rank.protocol import run_protocol

    bench = _build(amp_mode)
    held = torch.cuda.memory_reserved()
    if is_checked:
        product_error(bench.device, bench.loop.precision, torch.float32)
    observed = run_protocol(bench)
    return [held, *([part.name, *vars(part.peaks).values()] for part in observed.parts)]


@pytest.mark.parametrize("gpu", ["a100-80gb", "h100-80gb"])
@pytest.mark.parametrize("amp_mode", ["tf32", "fp16"])
def test_the_product_changes_no_peak_of_any_part(amp_mode: str, gpu: str) -> None:
    told = [run(_peaks, amp_mode, is_checked, gpu=gpu) for is_checked in (False, True)]
    assert told[0] == told[1]
    assert told[0][1][1] > told[0][0] / 2 > 0, "counters that count nothing are equal too"


@pytest.mark.parametrize("allocator", ["expandable_segments:True", "max_split_size_mb:64"])
def test_nor_under_other_settings_of_the_allocator(allocator: str) -> None:
    asked = dict.fromkeys(("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"), allocator)
    told = [run(_peaks, "bf16", is_checked, variables=asked) for is_checked in (False, True)]
    assert told[0] == told[1]


def _errors() -> dict[str, float]:
    from bench.loop import Precision
    from bench.loop.switches import set_switches
    from bench.measure.arithmetic import product_error
    from bench.measure.cuda import CudaDevice
    from bench.workload.build import PARAM_DTYPES
    from tests.cuda.values import Values

    found = {}
    for amp_mode, param_dtype in (("fp32", "fp32"), ("bf16", "fp32"), ("fp16", "fp32"), ("fp32", "bf16")):
        set_switches(amp_mode)  # type: ignore[arg-type]
        with Values():
            error = product_error(CudaDevice(0), Precision(amp_mode, "cuda"), PARAM_DTYPES[param_dtype])  # type: ignore[arg-type]
        found[f"{amp_mode}, weights in {param_dtype}"] = error
    return found


@pytest.mark.parametrize("allocator", ["backend:native", "backend:cudaMallocAsync"])
def test_with_values_the_product_is_right_in_every_mode(allocator: str) -> None:
    from bench.measure.arithmetic import ERROR_LIMITS

    asked = dict.fromkeys(("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"), allocator)
    for mode, error in run(_errors, copy_bytes=COPY_BYTES, variables=asked).items():
        amp_mode, param_dtype = mode.split(", weights in ")
        assert 0 < error <= ERROR_LIMITS[amp_mode if param_dtype == "fp32" else param_dtype], mode  # type: ignore[index]


def _undeclared(folder: str) -> dict[str, Any]:
    """Run a launch on a stand-in that does not say that it is one."""
    import bench.rank.arithmetic as module
    from bench.rank.worker import run_rank
    from bench.record.paths import LaunchPaths

    module.is_standin = lambda: False
    paths = LaunchPaths(Path(folder))
    _build("bf16").trial.write(paths.trial_file)
    run_rank(paths, 0)
    document: dict[str, Any] = json.loads(paths.rank_file(0).read_text())
    return {name: document[name] for name in ("outcome", "reason", "updates")}


def test_a_gpu_that_computes_nothing_is_invalid_before_its_first_update(tmp_path: Path) -> None:
    told = run(_undeclared, str(tmp_path), memory_bytes=8 * GIB)
    assert told["outcome"] == "invalid"
    assert told["reason"].startswith("arithmetic: a matrix product in bf16 on Stand-in")
    assert told["updates"] == []


def _declared(folder: str) -> dict[str, Any]:
    from bench.rank.worker import run_rank
    from bench.record.paths import LaunchPaths

    paths = LaunchPaths(Path(folder))
    _build("bf16").trial.write(paths.trial_file)
    run_rank(paths, 0)
    document: dict[str, Any] = json.loads(paths.rank_file(0).read_text())
    return document


def test_the_stand_in_that_says_so_is_not_asked(tmp_path: Path) -> None:
    told = run(_declared, str(tmp_path), memory_bytes=8 * GIB)
    assert told["outcome"] == "ok", told["reason"]
    assert told["columns"]["matmul_error"] is None


def _line(says_so: bool) -> list[Any]:
    import bench.check.precision_line as module
    from bench.check.subject import make_subject

    if not says_so:
        module.is_standin = lambda: False
    line = module.precision_line(make_subject("gpt2-nano", 7), "bf16", "cuda")
    return [line.verdict, line.words]


def test_the_proof_of_a_gpu_that_computes_nothing_never_passes() -> None:
    """Its errors were 1.0 against 1.0."""
    verdict, words = run(_line, True)
    assert verdict == "NOT PROVEN"
    assert "a stand-in GPU computes no values" in words
    verdict, words = run(_line, False)
    assert verdict == "FAIL"
    assert words.startswith("arithmetic: one matrix product in bf16 on Stand-in")


def _switches() -> dict[str, Any]:
    from bench.rank.columns import facts_before

    names = ("tf32_matmul", "tf32_cudnn", "float32_matmul_precision", "autocast_dtype", "grad_scaler")
    more = ("bf16_reduced_precision_reduction", "fp16_accumulation")
    told = {mode: facts_before(_build(mode)) for mode in ("fp32", "tf32", "bf16", "fp16")}
    return {mode: [facts[name] for name in (*names, *more)] for mode, facts in told.items()}


def test_switches_are_read_from_where_they_act_on_a_gpu() -> None:
    """The precision of float32 products was oneDNN's: ieee in every mode."""
    assert run(_switches) == {
        "fp32": [False, False, "highest", None, False, True, False],
        "tf32": [True, True, "high", None, False, True, False],
        "bf16": [True, True, "high", "bfloat16", False, True, False],
        "fp16": [True, True, "high", "float16", True, True, False],
    }
