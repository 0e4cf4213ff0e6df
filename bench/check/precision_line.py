"""The configured precision on the device: its distance to the float64 result, relative to the concatenated batch's."""

from __future__ import annotations

import copy
import math
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.optim import SGD

from bench.check.cases import CASES, planned_windows
from bench.check.exchange.lines import ARITHMETIC, Line
from bench.check.native import NativeStep
from bench.check.optimizers import norm_of
from bench.check.oracle import Batch, concatenated_loss, set_concatenated_gradients
from bench.check.subject import Subject, put_to_rest
from bench.loop import Precision
from bench.loop.switches import set_switches
from bench.measure.arithmetic import ERROR_LIMITS, product_error
from bench.measure.cpu import CpuDevice
from bench.measure.cuda import CudaDevice
from bench.measure.device import Device
from bench.measure.peaks import matmul_precision
from bench.standin import is_standin
from bench.workload.build import PARAM_DTYPES

MOST_RATIO = 2.0
"""Largest distance to the float64 result, as a multiple of the concatenated batch's own distance."""
PRODUCTS = 16
"""Largest distance to the float64 result, as a multiple of `ERROR_LIMITS`: the first-order errors of matrices that are
multiplied one after the other add up (Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., section 3.7),
and random ones add up like the root of their number. The presets stay below one limit."""
_INIT_SCALE = 1024.0
DTYPE_NAMES: dict[Any, Any] = {dtype: name for name, dtype in PARAM_DTYPES.items()}
"""Dtype of weights -> its name in sweep files."""


def precision_line(subject: Subject, amp_mode: str, device: str, window_mode: str = "buffered") -> Line:
    """Accumulate two windows from the initial weights in the configured precision [one rank].

    Nothing is trained: the rate is zero, so that every gradient is one of the initial weights. Where the concatenated
    batch is nearly exact, the rounding of the stored gradient itself is allowed. Two errors may be equal because both
    are of a device that computes nothing: so a product, and the errors themselves, have bounds of their own.
    """
    if device == "cuda" and is_standin():
        return Line("precision", "NOT PROVEN", None, "a stand-in GPU computes no values, so none can be wrong")
    set_switches(cast(Any, amp_mode))
    param_dtype = next(subject.model.parameters()).dtype
    precision = matmul_precision(cast(Any, amp_mode), DTYPE_NAMES.get(param_dtype, "fp32"))
    limit = ERROR_LIMITS[precision]
    error = product_error(_device(device), Precision(cast(Any, amp_mode), device), param_dtype)
    where = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    if error > limit:
        words = f"{ARITHMETIC} one matrix product in {precision} on {where} is off by {error:.1e}; limit {limit:.1e}"
        return Line("precision", "FAIL", error, words)
    model = copy.deepcopy(subject.model).to(device).train()
    put_to_rest(model)
    reference = subject.fresh()
    case = CASES[0]
    micro_batches = case.micro_batches(subject.vocab_size, subject.seed)
    windows = planned_windows(micro_batches, case.accumulation_steps, 1)
    accumulated = _accumulated(model, subject, amp_mode, device, window_mode, micro_batches, case.accumulation_steps)
    if len(accumulated) != len(windows):
        words = f"{len(windows) - len(accumulated)} of {len(windows)} updates were skipped by the gradient scaler"
        return Line("precision", "NOT PROVEN", None, words)
    errors = []
    floor = max(torch.finfo(parameter.dtype).eps for parameter in model.parameters()) / 2
    for window, gradients in zip(windows, accumulated, strict=True):
        set_concatenated_gradients(reference, window, _double(subject.class_weights))
        right = [_zeros(parameter) for parameter in reference.parameters()]
        norm = norm_of(right)
        own = _concatenated(model, subject, amp_mode, device, window)
        errors.append((_distance(gradients, right) / norm, _distance(own, right) / norm))
    return _judge(errors, floor, PRODUCTS * limit, f"{amp_mode} on {where}")


def _judge(errors: list[tuple[float, float]], floor: float, limit: float, what: str) -> Line:
    """Read the line from (accumulated error, concatenated error) of each window."""
    largest = max(max(pair) for pair in errors)
    if largest > limit:
        words = f"{ARITHMETIC} {what}: a gradient is off by {largest:.1e}; limit {limit:.1e}"
        return Line("precision", "FAIL", largest, words)
    ratio, mine, own = max((mine / max(own, floor / MOST_RATIO), mine, own) for mine, own in errors)
    words = (
        f"{what}: error {mine:.1e}, {ratio:.2f} times the concatenated batch's {own:.1e}; "
        f"limits {MOST_RATIO:g} times and {limit:.1e}"
    )
    return Line("precision", "PASS" if ratio <= MOST_RATIO else "FAIL", ratio, words)


def _device(kind: str) -> Device:
    return CudaDevice(torch.cuda.current_device()) if kind == "cuda" else CpuDevice()


def _accumulated(
    model: nn.Module,
    subject: Subject,
    amp_mode: str,
    device: str,
    window_mode: str,
    micro_batches: list[Batch],
    accumulation_steps: int,
) -> list[list[Tensor]]:
    """Run the loop and take the gradients that its optimizer is given, update by update."""
    optimizer = SGD([parameter for parameter in model.parameters() if parameter.requires_grad], lr=0.0)
    taken: list[list[Tensor]] = []
    handle = optimizer.register_step_pre_hook(
        lambda *_: taken.append([_zeros(parameter).detach().clone() for parameter in model.parameters()])
    )
    native = NativeStep(_on(subject.class_weights, device), window_mode=window_mode, amp_mode=amp_mode, device=device)
    try:
        native(model, optimizer, micro_batches, accumulation_steps)
    finally:
        handle.remove()
    return taken


def _concatenated(model: nn.Module, subject: Subject, amp_mode: str, device: str, window: list[Batch]) -> list[Tensor]:
    """Give the gradients of one concatenated batch in the configured precision, unscaled."""
    precision = Precision(cast(Any, amp_mode), device)
    scale = _INIT_SCALE if amp_mode == "fp16" else 1.0
    for parameter in model.parameters():
        parameter.grad = None
    with precision.autocast():
        loss = concatenated_loss(model, window, subject.class_weights, device)
    (loss * scale).backward()  # type: ignore[no-untyped-call]
    return [_zeros(parameter) / scale for parameter in model.parameters()]


def _distance(gradients: list[Tensor], right: list[Tensor]) -> float:
    norm = norm_of([mine.detach().cpu().double() - its for mine, its in zip(gradients, right, strict=True)])
    return math.inf if math.isnan(norm) else norm  # or max() would pass over it


def _zeros(parameter: nn.Parameter) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def _double(weights: Tensor | None) -> Tensor | None:
    return None if weights is None else weights.double()


def _on(weights: Tensor | None, device: str) -> Tensor | None:
    return None if weights is None else weights.to(device)
