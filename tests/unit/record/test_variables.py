"""Which environment variables a row keeps, and which make rows unlike."""

from __future__ import annotations

import json

import pytest

from bench.record.variables import DECISIVE, decisive_of_row, decisive_variables, recorded_variables


@pytest.mark.parametrize("name", [*DECISIVE["cuda"], *DECISIVE["cpu"], "NCCL_ALGO", "TORCHINDUCTOR_MAX_AUTOTUNE"])
def test_what_changes_results_is_recorded(name: str) -> None:
    """Each that makes two rows unlike among them."""
    assert recorded_variables({name: "1", "HOME": "/home/me"}) == {name: "1"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, "nvapi-123") for name in ("NVIDIA_API_KEY", "NVIDIA_NGC_APIKEY", "TORCH_HUB_TOKEN", "NCCL_AUTH")),
        *((name, "x") for name in ("CUDA_PASSWORD", "TORCHX_SECRET", "PYTORCH_ACCESS_KEY_ID", "HF_TOKEN", "AWS_X")),
        ("TORCHINDUCTOR_REDIS", "redis://me:hidden@host:1"),
    ],
)
def test_no_secret_is_recorded(name: str, value: str) -> None:
    """Results are sent to colleagues."""
    assert recorded_variables({name: value, "NVIDIA_TF32_OVERRIDE": "0"}) == {"NVIDIA_TF32_OVERRIDE": "0"}


def test_only_variables_of_the_device_decide() -> None:
    """A setting of cuBLAS changes nothing on a CPU; an empty value is one too."""
    environment = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "NVIDIA_TF32_OVERRIDE": "", "NCCL_DEBUG": "INFO"}
    assert decisive_variables(environment, "cpu") == {}
    assert decisive_variables(environment, "cuda") == {"NVIDIA_TF32_OVERRIDE": "", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}


@pytest.mark.parametrize("text", [None, "", "not JSON", "[]", json.dumps({"NCCL_DEBUG": "INFO"})])
def test_row_that_does_not_tell_has_none(text: str | None) -> None:
    """As a launch that failed before it could."""
    assert decisive_of_row(text, "cuda") == ()
    assert decisive_of_row(json.dumps({"CUDA_LAUNCH_BLOCKING": "1"}), None) == ()
