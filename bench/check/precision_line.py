"""The configured precision on the device: its distance to the float64 result, relative to the concatenated batch's."""

from __future__ import annotations

import copy
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.optim import SGD

from bench.check.cases import CASES, planned_windows
from bench.check.exchange.lines import Line
from bench.check.native import NativeStep
from bench.check.optimizers import norm_of
from bench.check.oracle import Batch, concatenated_loss, set_concatenated_gradients
from bench.check.subject import Subject, put_to_rest
from bench.loop import Precision
from bench.loop.switches import set_switches

MOST_RATIO = 2.0
"""Largest distance to the float64 result, as a multiple of the concatenated batch's own distance."""
_INIT_SCALE = 1024.0


def precision_line(subject: Subject, amp_mode: str, device: str, window_mode: str = "buffered") -> Line:
    """Accumulate two windows from the initial weights in the configured precision [one rank].

    Nothing is trained: the rate is zero, so that every gradient is one of the initial weights. Where the concatenated
    batch is nearly exact, the rounding of the stored gradient itself is allowed.
    """
    set_switches(cast(Any, amp_mode))
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
    worst = (-1.0, 0.0, 0.0)
    for window, gradients in zip(windows, accumulated, strict=True):
        set_concatenated_gradients(reference, window, _double(subject.class_weights))
        right = [_zeros(parameter) for parameter in reference.parameters()]
        norm = norm_of(right)
        own = _concatenated(model, subject, amp_mode, device, window)
        mine_error = _distance(gradients, right) / norm
        own_error = _distance(own, right) / norm
        floor = max(torch.finfo(parameter.dtype).eps for parameter in model.parameters()) / 2
        ratio = mine_error / max(own_error, floor / MOST_RATIO)
        worst = max(worst, (ratio, mine_error, own_error))
    ratio, mine_error, own_error = worst
    where = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    words = (
        f"{amp_mode} on {where}: error {mine_error:.1e}, {ratio:.2f} times the concatenated batch's {own_error:.1e}; "
        f"limit {MOST_RATIO:g} times"
    )
    return Line("precision", "PASS" if ratio <= MOST_RATIO else "FAIL", ratio, words)


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
    return norm_of([mine.detach().cpu().double() - its for mine, its in zip(gradients, right, strict=True)])


def _zeros(parameter: nn.Parameter) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def _double(weights: Tensor | None) -> Tensor | None:
    return None if weights is None else weights.double()


def _on(weights: Tensor | None, device: str) -> Tensor | None:
    return None if weights is None else weights.to(device)
