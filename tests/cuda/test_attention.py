"""The kernels of attention that torch chooses on each GPU; grouped heads never fall to a table of T x T scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cuda.on_standin import GIB, run

pytestmark = pytest.mark.cuda

MODES = ("fp32", "tf32", "bf16", "fp16")


def _backends(folder: str, is_old_torch: bool) -> dict[str, Any]:
    """Run launches of every AMP mode, of both kinds of model, with activation checkpointing and without."""
    from bench.rank.worker import run_rank
    from bench.record.paths import LaunchPaths
    from tests.small_launch import trial_file

    if is_old_torch:
        _take_no_groups()
    found: dict[str, Any] = {}
    for preset in ("gpt2-tiny", "llama-tiny"):
        for amp_mode in MODES:
            for checkpointing in (False, True):
                trial = trial_file(
                    device="cuda",
                    model={"preset": preset},
                    seq_len=64,
                    amp_mode=amp_mode,
                    activation_checkpointing=checkpointing,
                    optimizer={"name": "sgd", "lr": 0.01, "momentum": 0.0},
                    ranks=(0,),
                )
                name = f"{preset} {amp_mode} {checkpointing}"
                paths = LaunchPaths(Path(folder) / name)
                paths.folder.mkdir()
                trial.write(paths.trial_file)
                run_rank(paths, 0)
                document = json.loads(paths.rank_file(0).read_text())
                assert document["outcome"] == "ok", document["reason"]
                found[name] = document["columns"]["attention_backends"]
    return found


def _take_no_groups() -> None:
    """Be a torch none of whose fused kernels takes grouped heads: it then answers and computes with none."""
    import torch
    from torch.nn import functional
    from torch.nn.attention import SDPBackend, sdpa_kernel

    choice, attend = torch._fused_sdp_choice, functional.scaled_dot_product_attention

    def choose(*arguments: Any, **options: Any) -> int:
        return 0 if options.get("enable_gqa") else choice(*arguments, **options)

    def attend_by_scores(*arguments: Any, **options: Any) -> torch.Tensor:
        if not options.get("enable_gqa"):
            return attend(*arguments, **options)
        with sdpa_kernel(SDPBackend.MATH):
            return attend(*arguments, **options)

    torch._fused_sdp_choice = choose  # type: ignore[assignment]
    functional.scaled_dot_product_attention = attend_by_scores  # type: ignore[assignment]


@pytest.mark.parametrize("is_old_torch", [False, True])
@pytest.mark.parametrize(("gpu", "in_16_bits"), [("a100-80gb", "flash"), ("h100-80gb", "cudnn")])
def test_every_launch_runs_a_fused_kernel_and_says_which(
    tmp_path: Path, gpu: str, in_16_bits: str, is_old_torch: bool
) -> None:
    """Before torch 2.14 grouped heads in float32 fell to the mathematical form: slow, and early out of memory."""
    told = run(_backends, str(tmp_path), is_old_torch, gpu=gpu, memory_bytes=8 * GIB)
    expected = {"fp32": "memory_efficient", "tf32": "memory_efficient", "bf16": in_16_bits, "fp16": in_16_bits}
    assert told == {
        f"{preset} {mode} {checkpointing}": [expected[mode]]
        for preset in ("gpt2-tiny", "llama-tiny")
        for mode in MODES
        for checkpointing in (False, True)
    }
