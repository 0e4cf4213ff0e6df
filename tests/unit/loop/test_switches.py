"""TF32 switches are set for each mode anew, and read back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from bench.loop.precision import AmpMode, Precision
from bench.loop.switches import autocast_dtype_in_force, read_switches, set_switches


@pytest.fixture(autouse=True)
def restore() -> Iterator[None]:
    yield
    set_switches("fp32")


@pytest.mark.parametrize(
    ("order", "allowed"),
    [(("fp32", "tf32", "fp32"), [False, True, False]), (("fp16", "fp32", "bf16"), [True, False, True])],
)
def test_no_mode_inherits_the_switches_of_the_one_before(order: tuple[str, ...], allowed: list[bool]) -> None:
    """https://github.com/pytorch/helion/pull/2482"""
    seen = []
    for mode in order:
        set_switches(mode)  # type: ignore[arg-type]
        switches = read_switches("cuda")
        assert switches["tf32_matmul"] == switches["tf32_cudnn"]
        seen.append(switches["tf32_matmul"])
    assert seen == allowed


def _older(word: str) -> Callable[[], None]:
    return lambda: torch.set_float32_matmul_precision(word)


def _newer(path: str, word: str) -> Callable[[], None]:
    def lower() -> None:
        owner: Any = torch.backends
        for name in path.split(".")[:-1]:
            owner = getattr(owner, name)
        if not hasattr(owner, "fp32_precision"):
            pytest.skip("torch before 2.9")
        owner.fp32_precision = word

    return lower


@pytest.fixture(
    params=[
        *map(_older, ("highest", "high", "medium")),
        _newer("fp32_precision", "tf32"),
        _newer("cudnn.fp32_precision", "tf32"),
        _newer("cuda.matmul.fp32_precision", "tf32"),
        _newer("cuda.matmul.fp32_precision", "none"),
        _newer("mkldnn.matmul.fp32_precision", "bf16"),
        _newer("cudnn.conv.fp32_precision", "ieee"),
    ]
)
def lowered(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave the switches as user code may: through the older setters or the newer, of one operation or of all."""
    request.param()
    yield
    if hasattr(torch.backends, "fp32_precision"):
        torch.backends.fp32_precision = torch.backends.cudnn.fp32_precision = "none"  # type: ignore[attr-defined]


@pytest.mark.usefixtures("lowered")
@pytest.mark.parametrize("mode", ["fp32", "tf32", "bf16", "fp16"])
def test_older_getters_say_the_same_and_do_not_raise(mode: AmpMode) -> None:
    """torch.compile reads them; torch raises where the older and the newer switches contradict each other."""
    set_switches(mode)
    allowed = mode != "fp32"
    assert torch.backends.cuda.matmul.allow_tf32 == allowed
    assert torch.backends.cudnn.allow_tf32 == allowed
    assert torch.get_float32_matmul_precision() == ("high" if allowed else "highest")
    told = read_switches("cuda")
    assert told["tf32_matmul"] == told["tf32_cudnn"] == allowed
    assert told["float32_matmul_precision"] == torch.get_float32_matmul_precision()


@pytest.mark.usefixtures("lowered")
def test_user_code_that_lowers_the_precision_is_overruled() -> None:
    """A model file that sets `high` at import does not turn fp32 into TF32, whichever setter it used.

    https://github.com/facebookresearch/fairchem/pull/2108
    """
    set_switches("fp32")
    assert read_switches("cuda")["tf32_matmul"] is False
    assert read_switches("cuda")["float32_matmul_precision"] == "highest"
    assert read_switches("cpu")["float32_matmul_precision"] == "highest"


@pytest.mark.parametrize(
    ("word", "on_cpu", "on_cuda"), [("highest", "highest", "highest"), ("medium", "medium", "high")]
)
def test_each_kind_of_device_has_its_own_precision(word: str, on_cpu: str, on_cuda: str) -> None:
    """Torch's word medium is bf16 on a CPU and TF32 on a GPU."""
    torch.set_float32_matmul_precision(word)
    assert read_switches("cpu")["float32_matmul_precision"] == on_cpu
    if hasattr(torch.backends.cuda.matmul, "fp32_precision"):
        assert read_switches("cuda")["float32_matmul_precision"] == on_cuda


def test_switches_of_a_gpu_are_null_on_a_cpu() -> None:
    told = read_switches("cpu")
    assert told.keys() == read_switches("cuda").keys()
    assert {name for name, value in told.items() if value is not None} == {"float32_matmul_precision"}


@pytest.mark.parametrize("name", ["bf16_reduced_precision_reduction", "fp16_reduced_precision_reduction"])
def test_what_cublas_may_do_with_sums_is_read_from_torch(name: str) -> None:
    for allowed in (False, True):  # torch's own is True
        setattr(torch.backends.cuda.matmul, f"allow_{name}", allowed)
        assert read_switches("cuda")[name] is allowed


@pytest.mark.parametrize(("mode", "dtype"), [("fp32", None), ("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_autocast_is_asked_inside_its_context(mode: AmpMode, dtype: torch.dtype | None) -> None:
    precision = Precision(mode, "cpu")
    assert autocast_dtype_in_force(precision) is dtype
    with torch.autocast("cpu", dtype=torch.bfloat16):  # as user code might leave it on
        assert autocast_dtype_in_force(precision) is (dtype or torch.bfloat16)
