"""The line of the configured precision: two errors that are equal because nothing is computed are no PASS."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.nn import functional

from bench.check import precision_line as module
from bench.check.exchange.lines import ARITHMETIC
from bench.check.precision_line import precision_line
from bench.check.subject import make_subject
from bench.loop.switches import set_switches
from bench.measure.arithmetic import ERROR_LIMITS


@pytest.fixture(autouse=True)
def restore() -> Iterator[None]:
    yield
    set_switches("fp32")


@pytest.mark.parametrize("model", ["gpt2-nano", "llama-nano"])
@pytest.mark.parametrize(
    ("amp_mode", "param_dtype"), [("fp32", "fp32"), ("bf16", "fp32"), ("fp16", "fp32"), ("fp32", "bf16")]
)
def test_a_cpu_passes_with_errors_far_below_the_limit(model: str, amp_mode: str, param_dtype: str) -> None:
    line = precision_line(make_subject(model, 7, param_dtype=param_dtype), amp_mode, "cpu")
    assert line.verdict == "PASS", line.words
    error = float(line.words.split("error ")[1].split(",")[0])
    limit = ERROR_LIMITS[amp_mode if param_dtype == "fp32" else param_dtype]  # type: ignore[index]
    assert error < limit, "the bound of one product, of which the line allows a multiple"


def _on_device(value: float) -> Any:
    """Give a product that is right in float64, as on the host, and this on the device."""
    right = functional.linear

    def linear(inputs: torch.Tensor, weight: torch.Tensor, *bias: Any) -> torch.Tensor:
        found = right(inputs, weight, *bias)
        return found if found.dtype is torch.float64 else found * value

    return linear


@pytest.mark.parametrize("value", [0.0, float("nan")])
@pytest.mark.parametrize("amp_mode", ["fp32", "bf16"])
def test_a_device_that_computes_nothing_fails(monkeypatch: pytest.MonkeyPatch, amp_mode: str, value: float) -> None:
    subject = make_subject("gpt2-nano", 7)
    monkeypatch.setattr(functional, "linear", _on_device(value))
    line = precision_line(subject, amp_mode, "cpu")
    assert line.verdict == "FAIL"
    assert line.words.startswith(ARITHMETIC)


@pytest.mark.parametrize(("value", "said"), [(0.0, "1.0e+00"), (float("nan"), "inf")])
def test_gradients_of_nothing_fail_though_one_product_is_right(
    monkeypatch: pytest.MonkeyPatch, value: float, said: str
) -> None:
    """Error 1.0 against 1.0 is twice no more than the concatenated batch's own."""
    subject = make_subject("gpt2-nano", 7)
    monkeypatch.setattr(module, "product_error", lambda *_: 0.0)
    monkeypatch.setattr(functional, "linear", _on_device(value))
    line = precision_line(subject, "fp32", "cpu")
    assert line.verdict == "FAIL"
    assert f"off by {said}" in line.words


def test_a_large_error_of_one_window_is_not_hidden_by_a_larger_ratio_of_another() -> None:
    line = module._judge([(1.0, 1.0), (3e-7, 2e-7)], 1e-9, 1e-4, "fp32 on CPU")
    assert line.verdict == "FAIL"
    assert line.words.startswith(ARITHMETIC)
    assert module._judge([(3e-7, 2e-7)], 1e-9, 1e-4, "fp32 on CPU").verdict == "PASS"
    too_far = module._judge([(3e-6, 2e-7)], 1e-9, 1e-4, "fp32 on CPU")
    assert too_far.verdict == "FAIL"
    assert not too_far.words.startswith(ARITHMETIC), "the device is not to blame"
