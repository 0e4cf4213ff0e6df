"""One product against float64: right ones pass, and each kind of wrong device is caught."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch.nn import functional

from bench.loop import Precision
from bench.loop.precision import AmpMode
from bench.loop.switches import set_switches
from bench.measure.arithmetic import ERROR_LIMITS, product_error
from bench.measure.cpu import CpuDevice
from bench.measure.peaks import MatmulPrecision, matmul_precision
from bench.workload.build import PARAM_DTYPES

Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
_right = functional.linear


@pytest.fixture(autouse=True)
def restore() -> Iterator[None]:
    yield
    set_switches("fp32")


@pytest.mark.parametrize("param_dtype", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("amp_mode", ["fp32", "bf16", "fp16"])
def test_a_cpu_is_right_in_every_mode(amp_mode: AmpMode, param_dtype: str) -> None:
    set_switches(amp_mode)
    error = product_error(CpuDevice(), Precision(amp_mode, "cpu"), PARAM_DTYPES[param_dtype])
    assert 0 < error <= ERROR_LIMITS[matmul_precision(amp_mode, param_dtype)]  # type: ignore[arg-type]


def kept(values: torch.Tensor, digits: int, cut_off: bool = False) -> torch.Tensor:
    """Leave so many binary digits of each number, the leading one aside."""
    mantissa, exponent = torch.frexp(values.double())
    scaled = mantissa * 2.0 ** (digits + 1)
    return torch.ldexp((scaled.trunc() if cut_off else scaled.round()) / 2.0 ** (digits + 1), exponent)


def error_on(monkeypatch: pytest.MonkeyPatch, amp_mode: AmpMode, product: Product) -> float:
    """Give the error that a device with such a product has."""
    monkeypatch.setattr(functional, "linear", product)
    return product_error(CpuDevice(), Precision(amp_mode, "cpu"), torch.float32)


def of_digits(digits: int, cut_off: bool = False) -> Product:
    """Round or cut the factors, add up in float64."""
    return lambda rows, weight: kept(rows, digits, cut_off) @ kept(weight, digits, cut_off).T


@pytest.mark.parametrize("cut_off", [False, True])
def test_tf32_passes_as_tf32_and_not_as_fp32(monkeypatch: pytest.MonkeyPatch, cut_off: bool) -> None:
    error = error_on(monkeypatch, "tf32", of_digits(10, cut_off))
    assert 50 * ERROR_LIMITS["fp32"] < error <= ERROR_LIMITS["tf32"]


@pytest.mark.parametrize("cut_off", [False, True])
@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16"])
def test_bfloat16_does_not_pass_as_anything_more_precise(
    monkeypatch: pytest.MonkeyPatch, precision: MatmulPrecision, cut_off: bool
) -> None:
    error = error_on(monkeypatch, precision, of_digits(7, cut_off))
    assert ERROR_LIMITS[precision] < error <= ERROR_LIMITS["bf16"]


@pytest.mark.parametrize("amp_mode", ["fp32", "tf32", "bf16"])
def test_float16_does_not_pass_as_a_type_of_larger_range(monkeypatch: pytest.MonkeyPatch, amp_mode: AmpMode) -> None:
    error = error_on(monkeypatch, amp_mode, lambda rows, weight: (rows.half().float() @ weight.half().float().T).half())
    assert error == float("inf")


def test_three_digits_do_not_pass_as_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    def in_fp8(rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return kept(kept(rows, 3) @ kept(weight, 3).T, 3)

    assert error_on(monkeypatch, "bf16", in_fp8) > ERROR_LIMITS["bf16"]


def _zeros(rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.zeros(len(rows), len(weight))


def _none(rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.full((len(rows), len(weight)), float("nan"))


def _shuffled(rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return _right(rows, weight.roll(1, 0))


def _one_wrong(rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    found = _right(rows, weight)
    found[17, 31] *= 1.1
    return found


def _terms_missing(rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return _right(rows[:, :-4], weight[:, :-4])


@pytest.mark.parametrize("product", [_zeros, _none, _shuffled, _one_wrong, _terms_missing])
@pytest.mark.parametrize("amp_mode", ["fp32", "tf32", "bf16", "fp16"])
def test_a_device_that_computes_something_else_fails_in_every_mode(
    monkeypatch: pytest.MonkeyPatch, amp_mode: AmpMode, product: Product
) -> None:
    assert error_on(monkeypatch, amp_mode, product) > ERROR_LIMITS[amp_mode]


def test_torch_keeps_its_threads() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    product_error(CpuDevice(), Precision("fp32", "cpu"), torch.float32)
    assert torch.get_num_threads() == 3
    torch.set_num_threads(threads)
